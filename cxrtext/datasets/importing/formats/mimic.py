"""MIMIC-CXR and MIMIC-CXR-JPG: their tables, the files under ``files/``, and MS-CXR's boxes."""

import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from cxrtext.datasets.admission.ids import digest
from cxrtext.datasets.importing.folder import Files
from cxrtext.datasets.importing.formats.listing import find_image, read_list
from cxrtext.datasets.importing.reading import (
    Columns,
    FoundImage,
    LabelRow,
    Names,
    Reading,
    columns_of,
    find_table,
    findings_of,
    label_values,
    map_rows,
    read_rows,
    reject,
)
from cxrtext.errors import DataError
from cxrtext.records import LeftOut, iter_boxes, open_reports
from cxrtext.records.cells import moment
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.records.manifest import ACQUIRED, DATES, DAYS

PREFIX = "mimic-cxr-2.0.0-"
KEEP = ("rows", "columns", "date", ACQUIRED, DAYS, DATES, "procedure")
SPLITS = {"train": "train", "validate": "val", "test": "test"}

_NEEDED = ("dicom_id", "subject_id", "study_id", "ViewPosition")
_IDS = re.compile(r"[0-9A-Za-z-]{1,80} [0-9]{1,20} [0-9]{1,20}")


def _table(root: Path, stem: str) -> Path:
    if (path := find_table(root, PREFIX + stem)) is None:
        raise DataError(
            f"{root}: {PREFIX}{stem}.csv (or .csv.gz) is missing; MIMIC-CXR-JPG has it, put it "
            "into this folder"
        )
    return path


def label_rows(
    path: Path, findings: Columns, names: Names = NO_COLUMNS, files: Files | None = None
) -> Iterator[LabelRow | LeftOut]:
    """Give the labels of a table with a column a finding, of studies or of the images in files."""

    def labels(item: str, row: dict[str, str]) -> LabelRow:
        study = files.study(item, row) if files else row["study_id"]
        return study, label_values(item, row, findings)

    return map_rows(path, () if files else ["study_id"], labels, names)


def open_mimic(root: Path, _: Path) -> Reading | None:
    """Open MIMIC-CXR or MIMIC-CXR-JPG; None where the folder holds neither."""
    files = root / "files"
    named = find_table(root, *(PREFIX + stem for stem in ("metadata", "split", "chexpert")))
    if not named and not any(files.glob("p1[0-9]/p*/s*")):
        return None
    metadata, split = _table(root, "metadata"), _table(root, "split")
    labels = find_table(root, PREFIX + "chexpert", PREFIX + "negbio")
    findings = findings_of(columns_of(labels)) if labels else ()
    boxes = [*sorted(root.glob("MS_CXR*.json")), *sorted(root.glob("MS_CXR*.csv"))]

    @cache
    def splits() -> dict[int, str]:  # some 100 bytes an image
        rows = (row[1] for row in read_rows(split, ["dicom_id", "split"]) if isinstance(row, tuple))
        return {digest(r["dicom_id"]): SPLITS[r["split"]] for r in rows if r["split"] in SPLITS}

    def make(columns: Columns, item: str, row: dict[str, str]) -> FoundImage:
        image, subject, study = row["dicom_id"], row["subject_id"], row["study_id"]
        if not _IDS.fullmatch(f"{image} {subject} {study}"):
            raise reject(item, "dicom_id, subject_id or study_id is not one; fix the row")
        if (part := splits().get(digest(image))) is None:
            raise reject(item, f"its dicom_id has no split in {PREFIX}split; fix that table")
        day = row.get("StudyDate", "")
        known = {
            "rows": row.get("Rows", ""),
            "columns": row.get("Columns", ""),
            "date": day[:4],
            # "shifted by a random amount, consistently for a patient": gaps are as they were
            **dict.fromkeys((ACQUIRED, DAYS), moment(day, row.get("StudyTime", ""))),
            DATES: "shifted",
            "procedure": row.get("PerformedProcedureStepDescription", ""),
        }
        stem = f"files/p{subject[:2]}/p{subject}/s{study}/{image}"
        names = (stem + ending for ending in (".jpg", ".dcm", ".png"))
        return find_image(
            root, item, names, (study, subject), columns, known, views=[row["ViewPosition"]],
            split=part, box_key=image,
        )  # fmt: skip

    return read_list(
        metadata, _NEEDED, make,
        offered=KEEP,
        findings=findings,
        label_rows=partial(label_rows, labels, findings) if labels else None,
        reports=partial(open_reports, files) if any(files.glob("p*/p*/*.txt")) else None,
        boxes=partial(iter_boxes, boxes[0]) if boxes else None,
    )  # fmt: skip
