"""NIH ChestX-ray14, and ChestX-Det10, which has boxes for some of its images.

NIH ChestX-ray14: ``Data_Entry_2017.csv``, its boxes, its split (``test_list.txt``), and the image
folders.

ChestX-Det10: ``train.json`` and ``test.json``, each a list of objects with ``file_name``, ``syms``
(findings) and ``boxes`` (left, top, right, bottom, one per finding) in pixels of the 1024 x 1024
images.  ChestX-ray14's own names (00000042_006.png) name the patient; training images of test
patients are left out.  Other names (36199.png) name no patient, so each image counts alone.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.folder import Files
from cxrtext.datasets.importing.formats.listed import find_image, read_list
from cxrtext.datasets.importing.reading import (
    TRAIN_OR_VAL,
    Columns,
    FoundImage,
    LeftOutError,
    Reading,
    find_table,
    make_each,
    map_rows,
    numbers,
    read_objects,
    reject,
)
from cxrtext.errors import DataError
from cxrtext.records import Absent, Box, LeftOut
from cxrtext.records.cells import sex, years
from cxrtext.records.decoding import decode

_NAMES = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis"),
    *("Hernia", "Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia"),
    "Pneumothorax",
)
# The names of ChestX-ray14, and the columns that they become.
NAMES = {name: name.replace("_", " ") for name in _NAMES} | {"Effusion": "Pleural Effusion"}
COLUMNS = ("No Finding", *NAMES.values())
BOX_NAMES = {**NAMES, "Infiltrate": "Infiltration"}
# The boxes' header has commas within "Bbox [x,y,w,h]", which make four columns of it.
_CORNERS = ("Bbox [x", "y", "w", "h]")
SIDE = 1024  # pixels along each side of the published images, for the boxes


def _test_names(root: Path) -> set[str] | None:
    path = root / "test_list.txt"
    if not path.is_file():
        return None
    if (text := decode(path.read_bytes())) is None:
        raise DataError(f"{path}: not UTF-8 text; copy the file again")
    return set(text.split())


def _labels(item: str, text: str) -> dict[str, str]:
    """Labels from "Effusion|Mass" or "No Finding"; every finding gets 1 or 0, never blank."""
    names = text.split("|")
    if any(name != "No Finding" and name not in NAMES for name in names):
        raise reject(item, "Finding Labels has a name unknown in this set; fix the cell")
    present = {NAMES.get(name, name) for name in names}
    return {name: "1" if name in present else "0" for name in COLUMNS}


def _box(item: str, cells: dict[str, str]) -> Box:
    finding = BOX_NAMES.get(cells["Finding Label"])
    x, y, w, h = numbers(cells, *_CORNERS)
    if finding is None or not (0 <= x < SIDE and 0 <= y < SIDE and w > 0 and h > 0):
        raise reject(item, "not a box with a finding of this set; fix the row")
    return Box(cells["Image Index"], SIDE, SIDE, finding, finding, (x, y, w, h))


def open_nih(root: Path, out: Path) -> Reading | None:
    if (table := find_table(root, "Data_Entry_2017", "Data_Entry_2017_v2020")) is None:
        return None
    boxes, test = find_table(root, "BBox_List_2017"), _test_names(root)
    places = Files(root, out)

    def make(columns: Columns, item: str, row: dict[str, str]) -> FoundImage:
        image = row["Image Index"]
        known = {
            "age": years(row.get("Patient Age", "")),
            "sex": sex(row.get("Patient Sex") or row.get("Patient Gender", "")),
            "follow_up": row.get("Follow-up #", ""),
        }
        ids = image.rpartition(".")[0], row["Patient ID"]
        split = "" if test is None else "test" if image in test else TRAIN_OR_VAL
        return find_image(
            root, item, [places[image]], ids, columns, known, views=[row.get("View Position", "")],
            split=split, box_key=image, labels=_labels(item, row["Finding Labels"]),
        )  # fmt: skip

    required = ["Image Index", "Finding Label", *_CORNERS]
    return read_list(
        table, ["Image Index", "Finding Labels", "Patient ID"], make,
        offered=("age", "sex", "follow_up"),
        findings=COLUMNS,
        boxes=partial(map_rows, boxes, required, _box) if boxes else None,
    )  # fmt: skip


# --- ChestX-Det10

_DET10 = (
    *("Atelectasis", "Calcification", "Consolidation", "Effusion", "Emphysema", "Fibrosis"),
    *("Fracture", "Mass", "Nodule", "Pneumothorax"),
)
DET10 = {name: NAMES.get(name, name) for name in _DET10}
"""The set's names and the columns that they become."""
SPLITS = {"test": "test", "train": TRAIN_OR_VAL}
TESTED = "its patient is among the test images"

_NIH = re.compile(r"(\d{8})_\d{3}\.png")


def _patient(name: str) -> str:
    match = _NIH.fullmatch(name)
    return match[1] if match else ""


def _is_box(box: Any) -> bool:
    return (
        isinstance(box, list)
        and len(box) == 4
        and all(isinstance(place, int | float) for place in box)
        and 0 <= box[0] < box[2] <= SIDE
        and 0 <= box[1] < box[3] <= SIDE
    )


def _found(item: str, entry: dict[str, Any]) -> tuple[str, list[tuple[str, list[float]]]]:
    """The image of an entry, and its findings with the box of each."""
    name, syms, boxes = (entry.get(key) for key in ("file_name", "syms", "boxes"))
    if not isinstance(name, str) or not name or "/" in name:
        raise reject(item, "file_name is not a file name; get the list again")
    if not isinstance(syms, list) or not isinstance(boxes, list) or len(syms) != len(boxes):
        raise reject(item, "syms and boxes are not lists of equal length; get the list again")
    if any(not isinstance(sym, str) or sym not in DET10 for sym in syms):
        raise reject(item, "syms has a name unknown in this set; get the list again")
    if not all(map(_is_box, boxes)):
        raise reject(item, "a box is not left, top, right, bottom; fix it")
    return name, [(DET10[sym], box) for sym, box in zip(syms, boxes, strict=True)]


def _boxes(item: str, entry: dict[str, Any]) -> Iterator[Box | Absent]:
    """The boxes of an image, and the findings that are absent from it."""
    image, found = _found(item, entry)
    for name, (left, top, right, bottom) in found:
        place = (float(left), float(top), float(right - left), float(bottom - top))
        yield Box(image, SIDE, SIDE, name, name, place)
    for name in DET10.values():
        if name not in dict(found):
            yield Absent(image, SIDE, SIDE, name, name)


def _is_list(path: Path) -> bool:
    try:
        entries = read_objects(path) if path.is_file() else []
    except DataError:
        return False
    return bool(entries) and {"file_name", "syms", "boxes"} <= set(entries[0])


def open_chestxdet10(root: Path, out: Path) -> Reading | None:
    lists = [split for split in SPLITS if _is_list(root / f"{split}.json")]
    if not lists:
        return None
    places = Files(root, out)

    @cache
    def listed() -> list[tuple[str, str, dict[str, Any]]]:
        """The split of each image, its place in the list, and its object."""
        return [
            (split, f"{split}.json row {number}", entry)
            for split in lists
            for number, entry in enumerate(read_objects(root / f"{split}.json"), 1)
        ]

    @cache
    def tested() -> set[str]:
        names = (str(entry.get("file_name")) for split, _, entry in listed() if split == "test")
        return set(map(_patient, names)) - {""}

    def make(split: str, item: str, entry: dict[str, Any]) -> FoundImage:
        image, found = _found(item, entry)
        patient = _patient(image)
        if split != "test" and patient in tested():
            raise LeftOutError(LeftOut(item, what=TESTED))
        labels = {name: "1" if name in dict(found) else "0" for name in DET10.values()}
        labels = {"No Finding": "0" if found else "1", **labels}
        ids = image.rpartition(".")[0], patient
        return find_image(
            root, item, [places[image]], ids, split=SPLITS[split], box_key=image, labels=labels
        )

    def boxes() -> Iterator[Box | Absent]:
        for _, item, entry in listed():
            with suppress(LeftOutError):  # reported for the image
                yield from _boxes(item, entry)

    return Reading(
        count=lambda: len(listed()),
        images=lambda _: make_each(listed(), make),
        findings=("No Finding", *DET10.values()),
        boxes=boxes,
    )
