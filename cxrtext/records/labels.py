"""Labels in CheXpert's and MIMIC-CXR's form: 1 present, 0 absent, -1 uncertain, or blank."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.rows import Row, TableRows
from cxrtext.records.study import LeftOut, none_left_out
from cxrtext.records.tables import read_table

CHEX5 = ("Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")
"""The five findings of CheXpert's test task."""

CHEXPERT = (
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion"),
    *("Edema", "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices"),
)
"""The 14 columns of CheXpert and MIMIC-CXR, in their order."""

NO_FINDINGS = ("study_id", "patient_id", "subject_id", "split", "No Finding")
"""Columns of a label table that are not findings."""

VALUES = {"1": 1, "0": 0, "-1": -1, "1.0": 1, "0.0": 0, "-1.0": -1, "": None}


def read_labels(path: Path, findings: tuple[str, ...] = CHEX5) -> dict[str, dict[str, int | None]]:
    """Labels by study and finding: 1, 0, -1, or None if unknown or without a column.

    ``path`` is a CSV or Parquet file with ``study_id`` and one column per finding.
    """
    if "study_id" in TableRows(path).headers:
        table = read_table(path, required=["study_id"])
    else:
        table = read_table(TableRows.known(path, text=False), required=["study_id"])
    if not set(findings) & set(table.columns):
        raise DataError(f"{path}: no label column: expected any of {', '.join(findings)}")
    rows = none_left_out(path, labelled_studies(enumerate(table.rows, 1), findings))
    return {row.study_id: row.values for row in rows}


@dataclass(frozen=True, slots=True)
class LabelledStudy:
    """The labels of a row; cells that are not labels are missing."""

    row: int
    study_id: str
    values: dict[str, int | None]  # 1, 0, -1, or None if unknown


def labelled_studies(
    rows: Iterable[Row | LeftOut], findings: Sequence[str]
) -> Iterator[LabelledStudy | LeftOut]:
    """The labels of each row, and before them what is wrong with the row."""
    seen: dict[str, tuple[int, int]] = {}  # row and digest of the labels of each study
    for row in rows:
        if isinstance(row, LeftOut):
            yield LeftOut(row.where, row.why)
            continue
        number, cells = row
        if not (study_id := cells["study_id"].strip()):
            yield LeftOut(f"row {number}", "it has an empty study_id; name it")
        values: dict[str, int | None] = {}
        for finding in findings:
            if (cell := cells.get(finding, "").strip()) in VALUES:
                values[finding] = VALUES[cell]
            else:
                why = f"'{cell}' is not a label; labels are 1, 0, -1 or blank"
                yield LeftOut(f"row {number}, column {finding}", why)
        digest = hash(tuple(values.items()))
        first, before = seen.setdefault(study_id, (number, digest))
        if before != digest:
            why = f"study_id '{study_id}' has two different rows of labels; keep one for each study"
            yield LeftOut(f"rows {first} and {number}", why)
        yield LabelledStudy(number, study_id, values)


def finding_columns(path: Path) -> tuple[str, ...]:
    """The findings of a label table: its CheXpert columns, or else all columns except ids."""
    columns = TableRows(path).columns
    names = [name for name in columns if name in CHEXPERT and name not in NO_FINDINGS]
    names = names or [name for name in columns if name not in NO_FINDINGS]
    if not names:
        raise DataError(f"{path}: no finding column; give a table with study_id and findings")
    return tuple(names)
