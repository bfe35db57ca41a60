"""Public sets of DICOM files listed in a table: RSNA pneumonia, SIIM-ACR and VinDr-CXR.

The first two are images of ChestX-ray14: JPEG files wrapped as DICOM captures.

RSNA pneumonia (2018), stage 2, from Kaggle: ``stage_2_train_labels.csv`` (patientId, x, y, width,
height, Target: one row per box, or one without), ``stage_2_detailed_class_info.csv`` (patientId,
class) and ``stage_2_train_images/<patientId>.dcm``; the test images have no labels and are not
listed.  What Kaggle calls a patient is an image; the RSNA's separate list
``pneumonia-challenge-dataset-mappings_2018.json`` names the patients.

SIIM-ACR pneumothorax (2019): ``train-rle.csv``, or else ``stage_2_train.csv`` (ImageId,
" EncodedPixels"), and ``<ImageId>.dcm`` in any folders.  An image has a row for each mask, or one
row with "-1".  A mask is a list of number pairs: pixels to skip since the last run, and pixels of
the run, counted down the columns from the upper left.

VinDr-CXR 1.0.0, from PhysioNet: ``<image_id>.dicom`` in any folders; ``image_labels_train.csv``
(image_id, rad_id, one column per finding with 0 or 1; one row per reader, three per image),
``image_labels_test.csv`` (one row per image: the readers' consensus), ``annotations_train.csv`` and
``annotations_test.csv`` (image_id, class_name, x_min, y_min, x_max, y_max in pixels of the file),
in ``annotations/`` or the folder.
The publisher kept only 25 elements of the headers: class, modality, body part, view and ids are
gone.  Without patients, each image counts alone.  The set's page says that all views are
postero-anterior.  An age of 0 means unknown.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from cxrtext.datasets.importing.folder import Files, inside
from cxrtext.datasets.importing.formats.dicom import KEEP_LISTED, listed_object
from cxrtext.datasets.importing.joining import image_size
from cxrtext.datasets.importing.reading import (
    TRAIN_OR_VAL,
    Columns,
    Entry,
    FoundImage,
    Reading,
    check_ids,
    columns_of,
    count_rows,
    find_table,
    first_rows,
    label_values,
    make_each,
    map_rows,
    numbers,
    read_objects,
    read_rows,
    reject,
)
from cxrtext.records import Absent, Box, LeftOut
from cxrtext.records.masks import box_of_mask, mask_of_runs, runs_of_mask

MAPPING = "pneumonia-challenge-dataset-mappings_2018.json"
FINDING = "Pneumonia"
OPACITY, NORMAL, NEITHER = "Lung Opacity", "Normal", "No Lung Opacity / Not Normal"
_RSNA = ("patientId", "x", "y", "width", "height", "Target")


def _patients(root: Path) -> dict[str, str]:
    """The patient of each image, from its ChestX-ray14 name <patient>_<follow-up>.png."""
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
        raise reject(
            item, "its class is not one of the set's or contradicts its Target; fix the row"
        )
    return {"No Finding": "1" if kind == NORMAL else "0", **labels}


def _box(item: str, row: dict[str, str]) -> Box | Absent:
    image = row["patientId"]
    if row["Target"] == "0":
        return Absent(image, 0, 0, FINDING, FINDING)
    x, y, w, h = numbers(row, *_RSNA[1:5])
    if not (x >= 0 and y >= 0 and w > 0 and h > 0):
        raise reject(item, "x, y, width, height are not a box; fix the row")
    return Box(image, 0, 0, FINDING, FINDING, (x, y, w, h))


def open_rsna(root: Path, out: Path) -> Reading | None:
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
            seen = listed_object(root, item, image, file, columns=columns, layout="rsna")
            return replace(seen, patient_id=patients.get(image, image), labels=labels)

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
SIDE = 1024  # pixels along each side of the published images
NO_MASK = "-1"
_SIIM = ("ImageId", "EncodedPixels")


def runs_of_pairs(text: str, height: int, width: int) -> tuple[int, ...]:
    """The runs of a mask of height x width pixels, from the pairs in its row.

    >>> runs_of_pairs("1 2", 2, 2)
    (1, 2, 1)
    """
    counts = [int(part) for part in text.split()]
    rest = height * width - sum(counts)
    if not counts or len(counts) % 2 or min(*counts, rest) < 0 or not sum(counts[1::2]):
        raise ValueError("no mask")
    return runs_of_mask(mask_of_runs([*counts, rest], height, width))


def open_siim(root: Path, out: Path) -> Reading | None:
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
            seen = listed_object(root, item, image, file, columns=columns, layout="siim")
            check_ids(item, image, seen.patient_id)
            return replace(seen, labels={PNEUMOTHORAX: "1" if image in positive() else "0"})

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
            reason = f"EncodedPixels are not a mask of {width} x {height} pixels; fix the cell"
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


# --- VinDr-CXR

_PARTS = {"test": "test", "train": TRAIN_OR_VAL}
NONE = "No finding"
NAMES = {
    NONE: "No Finding",
    "Pleural effusion": "Pleural Effusion",
    "Pleural thickening": "Pleural Thickening",
    "Other diseases": "Other disease",
}
"""Names of the set that get another column name here; all others stay as they are."""
PHRASES = {
    "Enlarged PA": "Enlarged pulmonary artery",
    "ILD": "Interstitial lung disease",
    "Nodule/Mass": "Nodule or mass",
}
"""Phrases for findings that the set abbreviates; the others are their own phrase."""
_NO_LABEL = ("image_id", "rad_id", "class_id")
_ENDINGS = (".dicom", ".dcm")
_EDGES = ("x_min", "y_min", "x_max", "y_max")


def _table(root: Path, stem: str) -> Path | None:
    return find_table(root / "annotations", stem) or find_table(root, stem)


def voted(votes: list[str]) -> str:
    """The readers' label of a finding: "1" if most see it, "-1" if some do, else "0".

    Blank votes do not count; if all are blank, the label is "".
    """
    cast = [vote for vote in votes if vote]
    seen = cast.count("1")
    return "" if not cast else "1" if 2 * seen > len(cast) else "-1" if seen else "0"


def _drawn(labels: dict[str, dict[str, str]], item: str, row: dict[str, str]) -> Box | None:
    """A reader's box; None if the row has none or most readers do not see its finding."""
    image, kind = row["image_id"], row["class_name"]
    finding = NAMES.get(kind, kind)
    if kind == NONE or labels.get(image, {}).get(finding, "1") != "1":
        return None
    left, top, right, bottom = numbers(row, *_EDGES)
    if not (kind and 0 <= left < right and 0 <= top < bottom):
        raise reject(item, "not a box with a finding; fix the row")
    place = (left, top, right - left, bottom - top)
    return Box(image, 0, 0, finding, PHRASES.get(kind, finding), place)


def open_vindr(root: Path, out: Path) -> Reading | None:
    named = {split: _table(root, f"image_labels_{split}") for split in _PARTS}
    # VinDr-PCXR, of children, has tables with these names too, but other findings.
    tables = {s: t for s, t in named.items() if t and "Aortic enlargement" in columns_of(t)}
    if not tables:
        return None
    names = (n for table in tables.values() for n in columns_of(table) if n not in _NO_LABEL)
    findings = tuple(dict.fromkeys(NAMES.get(name, name) for name in names if name))
    files = Files(root, out)

    @cache
    def read(split: str) -> tuple[dict[str, dict[str, str]], dict[str, str], list[Entry]]:
        """Labels by image, the first row of each image, and the wrong rows."""
        readers: dict[str, list[dict[str, str]]] = {}  # the readers' labels by image
        places: dict[str, str] = {}

        def take(item: str, row: dict[str, str]) -> None:
            named = {NAMES.get(name, name): text for name, text in row.items()}
            labels = label_values(item, named, findings)
            if "-1" in labels.values():
                raise reject(item, "a label is 0 or 1; fix the row")
            if not (image := row["image_id"]):
                raise reject(item, "image_id is empty; fix the row")
            readers.setdefault(image, []).append(labels)
            places.setdefault(image, item)

        wrong: list[Entry] = list(map_rows(tables[split], ["image_id"], take))
        labels = {
            image: {name: voted([one[name] for one in several]) for name in findings}
            for image, several in readers.items()
        }
        return labels, places, wrong

    def images(columns: Columns) -> Iterator[Entry]:
        def make(item: str, image: str, split: str, labels: dict[str, str]) -> FoundImage:
            check_ids(item, image, "")
            paths = (files[f"{image}{ending}"] for ending in _ENDINGS)
            seen = listed_object(root, item, image, *paths, columns=columns, layout="vindr")
            known = {k: "" if (k, v) == ("age", "0") else v for k, v in seen.metadata.items()}
            return replace(seen, patient_id="", split=_PARTS[split], metadata=known, labels=labels)

        for split in tables:
            labels, places, wrong = read(split)
            yield from wrong
            listed = ((item, image, split, labels[image]) for image, item in places.items())
            yield from make_each(listed, make)

    drawn = {split: _table(root, f"annotations_{split}") for split in tables}

    def boxes() -> Iterator[Box | LeftOut]:
        for split, table in drawn.items():
            required = ["image_id", "class_name", *_EDGES]
            if table is not None:
                yield from map_rows(table, required, partial(_drawn, read(split)[0]))

    return Reading(
        count=lambda: sum(map(count_rows, tables.values())),
        images=images,
        offered=KEEP_LISTED,
        findings=findings,
        boxes=boxes if any(drawn.values()) else None,
    )
