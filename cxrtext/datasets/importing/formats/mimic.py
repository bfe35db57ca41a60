"""MIMIC-CXR and MIMIC-CXR-JPG: their tables, the files under ``files/``, and MS-CXR's boxes."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

from cxrtext.datasets.importing.files import existing
from cxrtext.datasets.importing.identity import digest
from cxrtext.datasets.importing.reading import (
    Entry,
    FoundImage,
    ImportOptions,
    LabelRow,
    NotKeptError,
    Reading,
    columns_kept,
)
from cxrtext.datasets.importing.tables import (
    columns_of,
    count_rows,
    find_table,
    map_rows,
    read_rows,
)
from cxrtext.datasets.importing.values import findings_of, frontal_view, label_values
from cxrtext.errors import DataError
from cxrtext.records import Rejected, Study, iter_boxes, open_source

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
        if not isinstance(row, Rejected) and row[1]["split"] in SPLITS:
            splits[digest(row[1]["dicom_id"])] = SPLITS[row[1]["split"]]
    return splits


def _image(
    root: Path, splits: dict[int, str], columns: tuple[str, ...], item: str, row: dict[str, str]
) -> FoundImage:
    dicom_id, subject, study = row["dicom_id"], row["subject_id"], row["study_id"]
    if not (_ID.fullmatch(dicom_id) and _NUMBER.fullmatch(subject) and _NUMBER.fullmatch(study)):
        reason = "dicom_id, subject_id or study_id is not one; fix the row"
        raise NotKeptError(Rejected(item, reason))
    view = frontal_view(item, row["ViewPosition"])
    stem = f"files/p{subject[:2]}/p{subject}/s{study}/{dicom_id}"
    name, path = existing(root, item, *(stem + ending for ending in (".jpg", ".dcm", ".png")))
    split = splits.get(digest(dicom_id))
    if split is None:
        reason = f"its dicom_id has no split in {PREFIX}split; fix that table"
        raise NotKeptError(Rejected(item, reason))
    metadata = {name: row.get(KEEP[name], "") for name in columns}
    if "date" in metadata:
        metadata["date"] = metadata["date"][:4]
    return FoundImage(path, name, study, subject, split, view, box_key=dicom_id, metadata=metadata)


def _images(root: Path, metadata: Path, split: Path, columns: tuple[str, ...]) -> Iterator[Entry]:
    needed = ("dicom_id", "subject_id", "study_id", "ViewPosition")
    yield from map_rows(metadata, needed, partial(_image, root, _split_of(split), columns))


def label_rows(path: Path, findings: tuple[str, ...]) -> Iterator[LabelRow | Rejected]:
    """Give the labels of a table with ``study_id`` and a column a finding."""

    def labels(item: str, row: dict[str, str]) -> LabelRow:
        return row["study_id"], label_values(item, row, findings)

    return cast("Iterator[LabelRow | Rejected]", map_rows(path, ["study_id"], labels))


def open_mimic(root: Path, options: ImportOptions, _: Path) -> Reading | None:
    """Open MIMIC-CXR or MIMIC-CXR-JPG; None where the folder holds neither."""
    named = any(find_table(root, PREFIX + stem) for stem in ("metadata", "split", "chexpert"))
    if not named and not any((root / "files").glob("p1[0-9]/p*/s*")):
        return None
    metadata, split = _table(root, "metadata"), _table(root, "split")
    columns, left_out = columns_kept(options.keep, KEEP, "mimic")
    labels = find_table(root, PREFIX + "chexpert") or find_table(root, PREFIX + "negbio")
    findings = findings_of(columns_of(labels)) if labels else ()
    reports: Iterable[Study | Rejected] | None = None
    if options.reports is None and any((root / "files").glob("p*/p*/*.txt")):
        # A folder of text files holds reports only.
        reports = cast("Iterable[Study | Rejected]", open_source(root / "files"))
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
