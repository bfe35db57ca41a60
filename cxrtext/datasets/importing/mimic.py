"""MIMIC-CXR and MIMIC-CXR-JPG: their tables, the files under ``files/``, and MS-CXR's boxes."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

from cxrtext.datasets.importing.found import NO_FILE, Aside, Entry, FoundImage, LabelRow, Reading
from cxrtext.datasets.importing.identity import digest
from cxrtext.datasets.importing.options import ImportOptions, columns_kept
from cxrtext.datasets.importing.public_labels import findings_of, label_values
from cxrtext.datasets.importing.table_rows import columns_of, count_rows, find_table, read_rows
from cxrtext.datasets.importing.views import LATERAL, OTHER, read_view
from cxrtext.datasets.importing.walk import inside
from cxrtext.errors import DataError
from cxrtext.records import BadItem, Study, iter_boxes, open_source

PREFIX = "mimic-cxr-2.0.0-"
KEEP = {
    "rows": "Rows",
    "columns": "Columns",
    "date": "StudyDate",
    "procedure": "PerformedProcedureStepDescription",
}
SPLITS = {"train": "train", "validate": "val", "test": "test"}

_ID = re.compile(r"[0-9A-Za-z-]{1,80}")
_NUMBER = re.compile(r"[0-9]{1,20}")


def _table(root: Path, stem: str) -> Path:
    path = find_table(root, PREFIX + stem)
    if path is None:
        raise DataError(
            f"{root}: {PREFIX}{stem}.csv (or .csv.gz) is missing; MIMIC-CXR-JPG has it, put it "
            "into this folder"
        )
    return path


def _split_of(path: Path) -> dict[int, str]:
    """The official split by image, about 100 bytes each."""
    splits = {}
    for row in read_rows(path, ["dicom_id", "split"]):
        if not isinstance(row, BadItem) and row[1]["split"] in SPLITS:
            splits[digest(row[1]["dicom_id"])] = SPLITS[row[1]["split"]]
    return splits


def _image(
    root: Path, item: str, row: dict[str, str], splits: dict[int, str], columns: tuple[str, ...]
) -> Entry:
    dicom_id, subject, study = row["dicom_id"], row["subject_id"], row["study_id"]
    if not (_ID.fullmatch(dicom_id) and _NUMBER.fullmatch(subject) and _NUMBER.fullmatch(study)):
        return BadItem(item, "dicom_id, subject_id or study_id is not one; mend the row")
    view = read_view(row["ViewPosition"])
    if view in (LATERAL, OTHER):
        return Aside(item, view)
    folder = f"files/p{subject[:2]}/p{subject}/s{study}"
    for ending in (".jpg", ".dcm", ".png"):
        name = f"{folder}/{dicom_id}{ending}"
        path = inside(root, name)
        if path is not None and path.is_file():
            break
    else:
        return Aside(item, NO_FILE)
    split = splits.get(digest(dicom_id))
    if split is None:
        return BadItem(item, f"its dicom_id has no split in {PREFIX}split; mend that table")
    metadata = {name: row.get(KEEP[name], "") for name in columns}
    if "date" in metadata:
        metadata["date"] = metadata["date"][:4]
    return FoundImage(path, name, study, subject, split, view, box_key=dicom_id, metadata=metadata)


def _images(root: Path, metadata: Path, split: Path, columns: tuple[str, ...]) -> Iterator[Entry]:
    splits = _split_of(split)
    needed = ("dicom_id", "subject_id", "study_id", "ViewPosition")
    for row in read_rows(metadata, needed):
        if isinstance(row, BadItem):
            yield row
        else:
            yield _image(root, *row, splits, columns)


def label_rows(path: Path, findings: tuple[str, ...]) -> Iterator[LabelRow | BadItem]:
    """Give the labels of a table with ``study_id`` and a column a finding."""
    for row in read_rows(path, ["study_id"]):
        if isinstance(row, BadItem):
            yield row
            continue
        item, cells = row
        labels = label_values(cells, findings)
        if isinstance(labels, str):
            yield BadItem(item, f"{labels}: a label is 1, 0, -1 or blank; mend the cell")
        else:
            yield cells["study_id"], labels


def open_mimic(root: Path, options: ImportOptions, _: Path) -> Reading | None:
    """Open MIMIC-CXR or MIMIC-CXR-JPG; None where the folder holds neither.

    Raises:
        DataError: A table is missing or cannot be read.
        ConfigError: Metadata is wanted that the set does not have.
    """
    named = any(find_table(root, PREFIX + stem) for stem in ("metadata", "split", "chexpert"))
    if not named and not any((root / "files").glob("p1[0-9]/p*/s*")):
        return None
    metadata, split = _table(root, "metadata"), _table(root, "split")
    columns, left_out = columns_kept(options.keep, KEEP, "mimic")
    labels = find_table(root, PREFIX + "chexpert") or find_table(root, PREFIX + "negbio")
    findings = findings_of(columns_of(labels)) if labels else ()
    reports: Iterable[Study | BadItem] | None = None
    if options.reports is None and any((root / "files").glob("p*/p*/*.txt")):
        # A folder of text files holds reports only.
        reports = cast("Iterable[Study | BadItem]", open_source(root / "files"))
    boxes = None
    if options.boxes is None:
        found = [*sorted(root.glob("MS_CXR*.json")), *sorted(root.glob("MS_CXR*.csv"))]
        boxes = iter_boxes(found[0]) if found else None
    return Reading(
        layout="mimic",
        count=partial(count_rows, metadata),
        images=partial(_images, root, metadata, split, columns),
        columns=columns,
        findings=findings,
        label_rows=label_rows(labels, findings) if labels else None,
        reports=reports,
        boxes=boxes,
        left_out=left_out,
    )
