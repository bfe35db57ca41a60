"""NIH ChestX-ray14, and ChestX-Det10, which has boxes of some of its images.

NIH ChestX-ray14: ``Data_Entry_2017.csv``, its boxes, its split, and the image folders.

ChestX-Det10: ``train.json`` and ``test.json``, and the images that they list.

Each is a list of objects with ``file_name``, ``syms`` (findings) and ``boxes`` (left, top, right,
bottom, one a finding) in pixels of the 1024 x 1024 images.  The lists have had two forms, with 3001
and 542 images each: at first ChestX-ray14's own names (00000042_006.png), later numbers (36199.png)
with images of the set's own (``train_data``, ``test_data``; they are found by their names, in any
folders).  Names of the first form say the patient, and 271 patients stand in both lists: their
1,070 training images are left out here, as no patient may be in two splits.  Names of the second
form do not say whose an image is, so each counts alone, and a model that was trained on the
training images has seen patients of the test images.

Both forms were read as their repository gives them out: the same 8,339 boxes in the same order.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.folder import existing, files_by_name
from cxrtext.datasets.importing.reading import (
    TRAIN_OR_VAL,
    Columns,
    Entry,
    FoundImage,
    LeftOutError,
    Reading,
    check_ids,
    count_rows,
    find_table,
    frontal_view,
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
# The header of the boxes has a comma within "Bbox [x,y,w,h]", which divides it into four columns.
_CORNERS = ("Bbox [x", "y", "w", "h]")
_BOX = ("Image Index", "Finding Label", *_CORNERS)
SIDE = 1024  # pixels along each side of the images as they are given out, for the boxes


def _test_names(root: Path) -> set[str] | None:
    path = root / "test_list.txt"
    if not path.is_file():
        return None
    if (text := decode(path.read_bytes())) is None:
        raise DataError(f"{path}: not UTF-8 text; copy the file again")
    return set(text.split())


def _labels(item: str, text: str) -> dict[str, str]:
    """Labels from "Effusion|Mass" or "No Finding"; the set tells of all findings: none is blank."""
    names = text.split("|")
    if any(name != "No Finding" and name not in NAMES for name in names):
        raise reject(item, "Finding Labels has a name that is not of this set; fix the cell")
    present = {NAMES.get(name, name) for name in names}
    return {name: "1" if name in present else "0" for name in COLUMNS}


def _box(item: str, cells: dict[str, str]) -> Box:
    finding = BOX_NAMES.get(cells["Finding Label"])
    x, y, w, h = numbers(cells, *_CORNERS)
    if finding is None or not (0 <= x < SIDE and 0 <= y < SIDE and w > 0 and h > 0):
        raise reject(item, "no box of a finding of this set; fix the row")
    return Box(cells["Image Index"], SIDE, SIDE, finding, finding, (x, y, w, h))


def open_nih(root: Path, out: Path) -> Reading | None:
    """Open ChestX-ray14; None where the folder does not hold it."""
    if (table := find_table(root, "Data_Entry_2017", "Data_Entry_2017_v2020")) is None:
        return None
    boxes = find_table(root, "BBox_List_2017")

    def images(columns: Columns) -> Iterator[Entry]:
        places, test = files_by_name(root, out), _test_names(root)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            image, patient = row["Image Index"], row["Patient ID"]
            study = image.rpartition(".")[0]
            check_ids(item, study, patient)
            view = frontal_view(item, row.get("View Position", ""))
            labels = _labels(item, row["Finding Labels"])
            name, path = existing(root, item, places.get(image, ""))
            known = {
                "age": years(row.get("Patient Age", "")),
                "sex": sex(row.get("Patient Sex") or row.get("Patient Gender", "")),
                "follow_up": row.get("Follow-up #", ""),
            }
            split = "" if test is None else "test" if image in test else TRAIN_OR_VAL
            said = {column: known[column] for column in columns}
            return FoundImage(
                path, name, study, patient, split, view, box_key=image, metadata=said, labels=labels
            )

        yield from map_rows(table, ["Image Index", "Finding Labels", "Patient ID"], make)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=("age", "sex", "follow_up"),
        findings=COLUMNS,
        boxes=partial(map_rows, boxes, _BOX, _box) if boxes else None,
    )


# --- ChestX-Det10

DET10 = {
    **{name: name for name in ("Atelectasis", "Calcification", "Consolidation")},
    "Effusion": "Pleural Effusion",
    **{name: name for name in ("Emphysema", "Fibrosis", "Fracture", "Mass", "Nodule")},
    "Pneumothorax": "Pneumothorax",
}
"""The names of the set, and the columns that they become."""
SPLITS = {"test": "test", "train": TRAIN_OR_VAL}
TESTED = "its patient is among the test images"

_NIH = re.compile(r"(\d{8})_\d{3}\.png")
Listed = tuple[str, str, dict[str, Any]]
"""A split, where an image stands in its list, and the object."""


def _patient(name: str) -> str:
    match = _NIH.fullmatch(name)
    return match[1] if match else ""


def _found(item: str, entry: dict[str, Any]) -> tuple[str, list[tuple[str, list[float]]]]:
    name, syms, boxes = (entry.get(key) for key in ("file_name", "syms", "boxes"))
    if not isinstance(name, str) or not name or "/" in name:
        raise reject(item, "file_name is no name of a file; get the list again")
    if not isinstance(syms, list) or not isinstance(boxes, list) or len(syms) != len(boxes):
        raise reject(item, "syms and boxes are not lists of one length; get the list again")
    if any(not isinstance(sym, str) or sym not in DET10 for sym in syms):
        raise reject(item, "syms has a name that is not of this set; get the list again")
    for box in boxes:
        if not (
            isinstance(box, list)
            and len(box) == 4
            and all(isinstance(place, int | float) for place in box)
            and 0 <= box[0] < box[2] <= SIDE
            and 0 <= box[1] < box[3] <= SIDE
        ):
            raise reject(item, "boxes has one that is no left, top, right, bottom; fix it")
    return name, list(zip(syms, boxes, strict=True))


def _boxes(item: str, entry: dict[str, Any]) -> Iterator[Box | Absent]:
    """The boxes of an image, and the findings that its readers looked for in vain."""
    image, found = _found(item, entry)
    for sym, (left, top, right, bottom) in found:
        place = (float(left), float(top), float(right - left), float(bottom - top))
        yield Box(image, SIDE, SIDE, DET10[sym], DET10[sym], place)
    present = {DET10[sym] for sym, _ in found}
    for name in DET10.values():
        if name not in present:
            yield Absent(image, SIDE, SIDE, name, name)


def _is_list(path: Path) -> bool:
    try:
        entries = read_objects(path)
    except DataError:
        return False
    return bool(entries) and {"file_name", "syms", "boxes"} <= set(entries[0])


def open_chestxdet10(root: Path, out: Path) -> Reading | None:
    """Open ChestX-Det10; None where the folder does not hold its lists."""
    paths = {split: root / f"{split}.json" for split in SPLITS}
    lists = {split: path for split, path in paths.items() if path.is_file() and _is_list(path)}
    if not lists:
        return None

    @cache
    def listed() -> list[Listed]:
        return [
            (split, f"{path.name} row {number}", entry)
            for split, path in lists.items()
            for number, entry in enumerate(read_objects(path), 1)
        ]

    def images(_: Columns) -> Iterator[Entry]:
        names = (str(entry.get("file_name")) for split, _, entry in listed() if split == "test")
        tested = set(map(_patient, names)) - {""}
        places = files_by_name(root, out)

        def make(split: str, item: str, entry: dict[str, Any]) -> FoundImage:
            image, found = _found(item, entry)
            patient = _patient(image)
            if split != "test" and patient in tested:
                raise LeftOutError(LeftOut(item, what=TESTED))
            study = image.rpartition(".")[0]
            check_ids(item, study, patient)
            name, path = existing(root, item, places.get(image, ""))
            present = {DET10[sym] for sym, _ in found}
            labels = {column: "1" if column in present else "0" for column in DET10.values()}
            labels = {"No Finding": "0" if present else "1", **labels}
            return FoundImage(
                path, name, study, patient, SPLITS[split], box_key=image, labels=labels
            )

        yield from make_each(listed(), make)

    def boxes() -> Iterator[Box | Absent | LeftOut]:
        for _, item, entry in listed():
            with suppress(LeftOutError):  # said of the image
                yield from _boxes(item, entry)

    return Reading(
        count=lambda: len(listed()),
        images=images,
        findings=("No Finding", *DET10.values()),
        boxes=boxes,
    )
