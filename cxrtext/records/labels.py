"""Labels as CheXpert and MIMIC-CXR lay them out: 1 present, 0 absent, -1 uncertain, or blank."""

from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.rows import TableRows
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
"""Columns of a table of labels that are no findings."""

VALUES = {"1": 1, "0": 0, "-1": -1, "1.0": 1, "0.0": 0, "-1.0": -1, "": None}


def read_labels(path: Path, findings: tuple[str, ...] = CHEX5) -> dict[str, dict[str, int | None]]:
    """Read labels by study.

    Args:
        path: A CSV or Parquet file with ``study_id`` and a column a finding.
        findings: The findings wanted; a finding without a column is unknown everywhere.

    Returns:
        ``labels[study_id][finding]``: 1, 0, -1, or None where unknown.

    Raises:
        DataError: There is no ``study_id``, none of the findings has a column, a cell holds
            something else, or two rows of a study contradict each other.
    """
    table = read_table(path, required=["study_id"])
    if not set(findings) & set(table.columns):
        raise DataError(f"{path}: no label column: expected any of {', '.join(findings)}")
    labels: dict[str, dict[str, int | None]] = {}
    rows: dict[str, int] = {}
    for number, row in enumerate(table.rows, 1):
        study_id = row["study_id"].strip()
        if not study_id:
            raise DataError(f"{path}: row {number} has an empty study_id")
        values: dict[str, int | None] = {}
        for finding in findings:
            cell = row.get(finding, "").strip()
            if cell not in VALUES:
                raise DataError(
                    f"{path}: row {number}: {finding} is '{cell}'; a label is 1, 0, -1 or blank"
                )
            values[finding] = VALUES[cell]
        first = rows.setdefault(study_id, number)
        if labels.setdefault(study_id, values) != values:
            raise DataError(
                f"{path}: study_id '{study_id}' has two different rows of labels, {first} and "
                f"{number}; keep one row for each study"
            )
    return labels


def finding_columns(path: Path) -> tuple[str, ...]:
    """The findings of a table of labels: its columns of CheXpert, else all columns but ids.

    Raises:
        DataError: The table is wrong, or has none.
    """
    columns = TableRows(path).columns
    names = [name for name in columns if name in CHEXPERT and name not in NO_FINDINGS]
    names = names or [name for name in columns if name not in NO_FINDINGS]
    if not names:
        raise DataError(f"{path}: no column of a finding; give a table of study_id and findings")
    return tuple(names)
