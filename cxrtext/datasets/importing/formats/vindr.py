"""VinDr-CXR 1.0.0, as PhysioNet gives it out.

``<image_id>.dicom`` in any folders; ``image_labels_train.csv`` (image_id, rad_id, a column a
finding with 0 or 1; a row a reader, three of them an image), ``image_labels_test.csv`` (a row an
image: the readers' consensus), ``annotations_train.csv`` and ``annotations_test.csv`` (image_id,
class_name, x_min, y_min, x_max, y_max in pixels of the file), in ``annotations/`` or the folder.

The publisher took all but 25 elements out of the headers: class, modality, body part, view and ids
are gone.  Nothing says whose an image is, so each counts alone.  The set's page says that all views
are postero-anterior.  An age of 0 is taken for one that is not known.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from cxrtext.datasets.importing.folder import Files
from cxrtext.datasets.importing.formats.dicom import KEEP_LISTED, listed_object
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
    label_values,
    make_each,
    map_rows,
    numbers,
    reject,
)
from cxrtext.records import Box, LeftOut

SPLITS = {"test": "test", "train": TRAIN_OR_VAL}
NONE = "No finding"
NAMES = {
    NONE: "No Finding",
    "Pleural effusion": "Pleural Effusion",
    "Pleural thickening": "Pleural Thickening",
    "Other diseases": "Other disease",
}
"""Names of the set that are another column here; all others stay as they are."""
PHRASES = {
    "Enlarged PA": "Enlarged pulmonary artery",
    "ILD": "Interstitial lung disease",
    "Nodule/Mass": "Nodule or mass",
}
"""What a reader would say of findings that the set abbreviates; others are their own phrase."""
_NO_LABEL = ("image_id", "rad_id", "class_id")
_ENDINGS = (".dicom", ".dcm")
_CORNERS = ("x_min", "y_min", "x_max", "y_max")


def _table(root: Path, stem: str) -> Path | None:
    return find_table(root / "annotations", stem) or find_table(root, stem)


def voted(votes: list[str]) -> str:
    """What readers say of a finding: "1" where most see it, "-1" where some do, else "0".

    Blank votes do not count; "" where all are.
    """
    cast = [vote for vote in votes if vote]
    seen = cast.count("1")
    return "" if not cast else "1" if 2 * seen > len(cast) else "-1" if seen else "0"


def _box(labels: dict[str, dict[str, str]], item: str, row: dict[str, str]) -> Box | None:
    """A reader's box, None where the row has none or most readers do not see its finding."""
    image, kind = row["image_id"], row["class_name"]
    finding = NAMES.get(kind, kind)
    if kind == NONE or labels.get(image, {}).get(finding, "1") != "1":
        return None
    left, top, right, bottom = numbers(row, *_CORNERS)
    if not (kind and 0 <= left < right and 0 <= top < bottom):
        raise reject(item, "no box of a finding; fix the row")
    place = (left, top, right - left, bottom - top)
    return Box(image, 0, 0, finding, PHRASES.get(kind, finding), place)


def open_vindr(root: Path, out: Path) -> Reading | None:
    """Open VinDr-CXR; None where the folder does not hold it."""
    found = {split: _table(root, f"image_labels_{split}") for split in SPLITS}
    # The set of children's radiographs has tables of these names too, with other findings.
    tables = {s: t for s, t in found.items() if t and "Aortic enlargement" in columns_of(t)}
    if not tables:
        return None
    names = (n for table in tables.values() for n in columns_of(table) if n not in _NO_LABEL)
    findings = tuple(dict.fromkeys(NAMES.get(name, name) for name in names if name))
    files = Files(root, out)

    @cache
    def read(split: str) -> tuple[dict[str, dict[str, str]], dict[str, str], list[Entry]]:
        """Labels by image, where each image stands first, and the rows that are wrong."""
        readers: dict[str, list[dict[str, str]]] = {}  # what each said, by image
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
            said = {k: "" if (k, v) == ("age", "0") else v for k, v in seen.metadata.items()}
            return replace(seen, patient_id="", split=SPLITS[split], metadata=said, labels=labels)

        for split in tables:
            labels, places, wrong = read(split)
            yield from wrong
            listed = ((item, image, split, labels[image]) for image, item in places.items())
            yield from make_each(listed, make)

    drawn = {split: _table(root, f"annotations_{split}") for split in tables}

    def boxes() -> Iterator[Box | LeftOut]:
        for split, table in drawn.items():
            required = ["image_id", "class_name", *_CORNERS]
            if table is not None:
                yield from map_rows(table, required, partial(_box, read(split)[0]))

    return Reading(
        count=lambda: sum(map(count_rows, tables.values())),
        images=images,
        offered=KEEP_LISTED,
        findings=findings,
        boxes=boxes if any(drawn.values()) else None,
    )
