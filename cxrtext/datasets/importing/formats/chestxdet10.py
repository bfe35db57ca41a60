"""ChestX-Det10: ``train.json`` and ``test.json``, and the images that they list.

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
from functools import cache
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.folder import existing, files_by_name
from cxrtext.datasets.importing.formats.nih import SIDE
from cxrtext.datasets.importing.reading import (
    TRAIN_OR_VAL,
    Columns,
    Entry,
    FoundImage,
    LeftOutError,
    Reading,
    check_ids,
    make_each,
    read_objects,
    reject,
)
from cxrtext.errors import DataError
from cxrtext.records import Absent, Box, LeftOut

NAMES = {
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
    if any(not isinstance(sym, str) or sym not in NAMES for sym in syms):
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
        yield Box(image, SIDE, SIDE, NAMES[sym], NAMES[sym], place)
    present = {NAMES[sym] for sym, _ in found}
    for name in NAMES.values():
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
            present = {NAMES[sym] for sym, _ in found}
            labels = {column: "1" if column in present else "0" for column in NAMES.values()}
            return FoundImage(
                path=path,
                name=name,
                study_id=study,
                patient_id=patient,
                split=SPLITS[split],
                box_key=image,
                labels={"No Finding": "0" if present else "1", **labels},
            )

        yield from make_each(listed(), make)

    def boxes() -> Iterator[Box | Absent | LeftOut]:
        for _, item, entry in listed():
            with suppress(LeftOutError):  # said of the image
                yield from _boxes(item, entry)

    return Reading(
        count=lambda: len(listed()),
        images=images,
        findings=("No Finding", *NAMES.values()),
        boxes=boxes,
    )
