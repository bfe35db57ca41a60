"""RSNA pneumonia detection challenge (2018), stage 2, as Kaggle gives it out.

``stage_2_train_labels.csv`` (patientId, x, y, width, height, Target: a row a box, or one without),
``stage_2_detailed_class_info.csv`` (patientId, class; as many rows),
``stage_2_train_images/<patientId>.dcm``, found by their names in any folders.  The images of
``stage_2_test_images`` have no labels, and are not listed.

The files are 1024 x 1024 JPEG images of ChestX-ray14, wrapped as secondary captures whose headers
say CR, CHEST, the view, sex and age: a dump of one is in public notes on the set.  Verified on the
tables that torchxrayvision 1.5.7 carries: 26,684 images, 6,012 of them with 9,555 boxes, and the
headers' CR, CHEST and views for all of them.  Of the detailed classes only their names could be
verified.  What Kaggle calls a patient is an image.  Whose it is, the list says that the RSNA gives
out beside (``pneumonia-challenge-dataset-mappings_2018.json``: subset_img_id, img_id).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import files_by_name
from cxrtext.datasets.importing.formats.dicom import KEEP_LISTED, listed_object
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    Reading,
    check_ids,
    columns_of,
    count_rows,
    find_table,
    first_rows,
    make_each,
    map_rows,
    numbers,
    read_objects,
    read_rows,
    reject,
)
from cxrtext.records import Absent, Box

MAPPING = "pneumonia-challenge-dataset-mappings_2018.json"
FINDING = "Pneumonia"
OPACITY, NORMAL, NEITHER = "Lung Opacity", "Normal", "No Lung Opacity / Not Normal"
_NEEDED = ("patientId", "x", "y", "width", "height", "Target")


def _patients(root: Path) -> dict[str, str]:
    """The patient of each image in ChestX-ray14, whose names are <patient>_<follow-up>.png."""
    path = root / MAPPING
    entries = read_objects(path) if path.is_file() else []
    named = ((entry.get("subset_img_id"), entry.get("img_id")) for entry in entries)
    return {
        image: source.partition("_")[0]
        for image, source in named
        if isinstance(image, str) and isinstance(source, str)
    }


def _classes(path: Path | None) -> dict[str, str]:
    rows = read_rows(path, ["patientId", "class"]) if path else ()
    return {row[1]["patientId"]: row[1]["class"] for row in rows if isinstance(row, tuple)}


def _labels(item: str, target: str, kind: str | None) -> dict[str, str]:
    if target not in ("0", "1"):
        raise reject(item, "Target is not 0 or 1; fix the cell")
    labels = {OPACITY: target, FINDING: target}
    if kind is None:
        return labels
    if kind not in (OPACITY, NORMAL, NEITHER) or (kind == OPACITY) != (target == "1"):
        raise reject(item, "its class is none of the set's or contradicts its Target; fix the row")
    return {"No Finding": "1" if kind == NORMAL else "0", **labels}


def _box(item: str, row: dict[str, str]) -> Box | Absent:
    image = row["patientId"]
    if row["Target"] == "0":
        return Absent(image, 0, 0, FINDING, FINDING)
    x, y, w, h = numbers(row, *_NEEDED[1:5])
    if not (x >= 0 and y >= 0 and w > 0 and h > 0):
        raise reject(item, "x, y, width, height are no box; fix the row")
    return Box(image, 0, 0, FINDING, FINDING, (x, y, w, h))


def open_rsna(root: Path, out: Path) -> Reading | None:
    """Open the challenge's data; None where the folder does not hold it."""
    table = find_table(root, "stage_2_train_labels")
    if table is None or not {"patientId", "Target"} <= set(columns_of(table)):
        return None
    info = find_table(root, "stage_2_detailed_class_info")

    def images(columns: Columns) -> Iterator[Entry]:
        places = files_by_name(root, out, (".dcm",))
        patients, classes = _patients(root), _classes(info)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            image = row["patientId"]
            check_ids(item, image, image)
            labels = _labels(item, row["Target"], classes.get(image))
            file = places.get(f"{image}.dcm", "")
            found = listed_object(root, item, image, file, columns=columns, layout="rsna")
            return replace(found, patient_id=patients.get(image, image), labels=labels)

        yield from make_each(first_rows(table, _NEEDED), make)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=KEEP_LISTED,
        findings=(*(("No Finding",) if info else ()), OPACITY, FINDING),
        boxes=lambda: map_rows(table, _NEEDED, _box),
    )
