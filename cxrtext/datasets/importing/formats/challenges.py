"""Images of ChestX-ray14 as two challenges gave them out: JPEG files wrapped as DICOM captures.

RSNA pneumonia (2018), stage 2, as Kaggle gives it out: ``stage_2_train_labels.csv`` (patientId, x,
y, width, height, Target: a row a box, or one without), ``stage_2_detailed_class_info.csv``
(patientId, class) and ``stage_2_train_images/<patientId>.dcm``; the test images have no labels and
are not listed.  What Kaggle calls a patient is an image.  Whose it is, the list says that the RSNA
gives out beside (``pneumonia-challenge-dataset-mappings_2018.json``).

SIIM-ACR pneumothorax (2019): ``train-rle.csv``, or else ``stage_2_train.csv`` (ImageId,
" EncodedPixels"), and ``<ImageId>.dcm`` in any folders.  An image has a row for each mask, or one
row with "-1".  A mask is given by pairs of numbers: pixels to skip since the last run, and pixels
of the run, counted down the columns from the upper left.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from cxrtext.datasets.importing.folder import Files, inside
from cxrtext.datasets.importing.formats.dicom import KEEP_LISTED, listed_object
from cxrtext.datasets.importing.joining import image_size
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
from cxrtext.records.masks import box_of_mask, mask_of_runs, runs_of_mask

MAPPING = "pneumonia-challenge-dataset-mappings_2018.json"
FINDING = "Pneumonia"
OPACITY, NORMAL, NEITHER = "Lung Opacity", "Normal", "No Lung Opacity / Not Normal"
_RSNA = ("patientId", "x", "y", "width", "height", "Target")


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
    x, y, w, h = numbers(row, *_RSNA[1:5])
    if not (x >= 0 and y >= 0 and w > 0 and h > 0):
        raise reject(item, "x, y, width, height are no box; fix the row")
    return Box(image, 0, 0, FINDING, FINDING, (x, y, w, h))


def open_rsna(root: Path, out: Path) -> Reading | None:
    """Open the challenge's data; None where the folder does not hold it."""
    table = find_table(root, "stage_2_train_labels")
    if table is None or not {"patientId", "Target"} <= set(columns_of(table)):
        return None
    info = find_table(root, "stage_2_detailed_class_info")
    places = Files(root, out)

    def images(columns: Columns) -> Iterator[Entry]:
        rows = read_rows(info, ["patientId", "class"]) if info else ()
        classes = {r[1]["patientId"]: r[1]["class"] for r in rows if isinstance(r, tuple)}
        patients = _patients(root)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            image = row["patientId"]
            check_ids(item, image, image)
            labels, file = _labels(item, row["Target"], classes.get(image)), places[f"{image}.dcm"]
            found = listed_object(root, item, image, file, columns=columns, layout="rsna")
            return replace(found, patient_id=patients.get(image, image), labels=labels)

        return make_each(first_rows(table, _RSNA), make)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=KEEP_LISTED,
        findings=(*(("No Finding",) if info else ()), OPACITY, FINDING),
        boxes=lambda: map_rows(table, _RSNA, _box),
    )


# --- SIIM-ACR

PNEUMOTHORAX = "Pneumothorax"
SIDE = 1024  # pixels along each side of the images as they are given out
NO_MASK = "-1"
_SIIM = ("ImageId", "EncodedPixels")


def runs_of_pairs(text: str, height: int, width: int) -> tuple[int, ...]:
    """The runs of a mask of height x width pixels, out of the pairs of its row.

    >>> runs_of_pairs("1 2", 2, 2)
    (1, 2, 1)
    """
    counts = [int(part) for part in text.split()]
    rest = height * width - sum(counts)
    if not counts or len(counts) % 2 or min(*counts, rest) < 0 or not sum(counts[1::2]):
        raise ValueError("no mask")
    return runs_of_mask(mask_of_runs([*counts, rest], height, width))


def open_siim(root: Path, out: Path) -> Reading | None:
    """Open the challenge's data; None where the folder does not hold it."""
    table = find_table(root, "train-rle", "stage_2_train")
    if table is None or not set(_SIIM) <= set(columns_of(table)):
        return None
    places = Files(root, out)

    @cache
    def positive() -> set[str]:
        rows = (row[1] for row in read_rows(table, _SIIM) if isinstance(row, tuple))
        return {row["ImageId"] for row in rows if row["EncodedPixels"] != NO_MASK}

    def images(columns: Columns) -> Iterator[Entry]:
        def make(item: str, row: dict[str, str]) -> FoundImage:
            image = row["ImageId"]
            file = places[f"{image}.dcm"]
            found = listed_object(root, item, image, file, columns=columns, layout="siim")
            check_ids(item, image, found.patient_id)
            return replace(found, labels={PNEUMOTHORAX: "1" if image in positive() else "0"})

        return make_each(first_rows(table, _SIIM), make)

    def mask(item: str, row: dict[str, str]) -> Box | Absent:
        image, text = row["ImageId"], row["EncodedPixels"]
        if text == NO_MASK:
            return Absent(image, 0, 0, PNEUMOTHORAX, PNEUMOTHORAX)
        path = inside(root, places[f"{image}.dcm"])
        width, height = image_size(path) if path is not None and path.is_file() else (0, 0)
        width, height = width or SIDE, height or SIDE
        try:
            runs = runs_of_pairs(text, height, width)
        except ValueError:
            reason = f"EncodedPixels are no mask of {width} x {height} pixels; fix the cell"
            raise reject(item, reason) from None
        box = box_of_mask(mask_of_runs(runs, height, width))
        return Box(image, width, height, PNEUMOTHORAX, PNEUMOTHORAX, box, runs)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=KEEP_LISTED,
        findings=(PNEUMOTHORAX,),
        boxes=lambda: map_rows(table, _SIIM, mask),
    )
