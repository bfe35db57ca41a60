"""Reports: a table with one row a study."""

from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.study import Study
from cxrtext.records.tables import read_table

SECTION_COLUMNS = ("findings", "impression", "indication", "comparison")
"""Columns that hold one section of a report each."""


def read_reports(path: Path) -> list[Study]:
    """Read a table of reports.

    Args:
        path: A CSV or Parquet file with ``study_id`` and either ``report`` (the whole text) or
            any of ``findings``, ``impression``, ``indication``, ``comparison``.  A manifest with
            several images a study may repeat the study's row; its report is taken once.

    Returns:
        One study a row, in the order of the table; texts may be empty.

    Raises:
        DataError: A column or an id is missing, or one study has two different reports.
    """
    table = read_table(path, required=["study_id"])
    sections = [name for name in SECTION_COLUMNS if name in table.columns]
    if "report" not in table.columns and not sections:
        raise DataError(
            f"{path}: no report text: give a column 'report', or any of "
            f"{', '.join(SECTION_COLUMNS)} (columns found: {', '.join(table.columns)})"
        )
    studies: dict[str, Study] = {}
    for number, row in enumerate(table.rows, 1):
        study_id = row["study_id"].strip()
        if not study_id:
            raise DataError(f"{path}: row {number} has an empty study_id")
        study = Study(
            study_id=study_id,
            report=row.get("report", ""),
            sections={name: row[name] for name in sections},
            row=number,
        )
        first = studies.setdefault(study_id, study)
        if (first.report, first.sections) != (study.report, study.sections):
            raise DataError(
                f"{path}: study_id '{study_id}' has two different reports, in rows "
                f"{first.row} and {number}; give every report a study_id of its own"
            )
    return list(studies.values())
