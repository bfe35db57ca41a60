"""The tables of the data folder that an experiment works on."""

from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records import read_manifest
from cxrtext.records.tables import read_table, write_table
from cxrtext.records.text_source import SECTION_COLUMNS

STEMS = ("manifest", "reports", "labels", "boxes", "truth")
"""The tables of a data folder."""

TRAINING, LEARNING = "train.csv", "learning.csv"
"""Reports of the training split, and of training and validation."""


def find_table(data: Path, stem: str) -> Path | None:
    """A table of a data folder, or None."""
    for ending in (".csv", ".parquet", ".json"):
        path = data / (stem + ending)
        if path.is_file():
            return path
    return None


def manifest_of(data: Path) -> Path:
    """The manifest of a data folder.

    Raises:
        DataError: The folder is not there or has no manifest.
    """
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; --data wants a data folder")
    manifest = find_table(data, "manifest")
    if manifest is None:
        raise DataError(f"{data}: holds no manifest.csv; --data wants the folder of a data set")
    return manifest


def fingerprints(data: Path) -> dict[str, str]:
    """The digest of each table of a data folder.

    Raises:
        DataError: The folder is not there or has no manifest.
    """
    manifest_of(data)
    found = (find_table(data, stem) for stem in STEMS)
    return {path.name: sha256(path) for path in found if path is not None}


def _report_table(data: Path, manifest: Path) -> Path:
    reports = find_table(data, "reports")
    if reports is not None:
        return reports
    if {"report", *SECTION_COLUMNS} & set(read_table(manifest).columns):
        return manifest
    raise DataError(f"{data}: holds no reports.csv, and its manifest has no column of reports")


def write_learning_reports(data: Path, manifest: Path, out: Path) -> dict[str, int]:
    """Write the reports that may be learned from, so that no text model sees a test patient.

    Args:
        data: The data folder.
        manifest: Its manifest.
        out: Folder for ``train.csv`` (training split) and ``learning.csv`` (validation as well).

    Returns:
        How many rows each has.

    Raises:
        DataError: A table is wrong, or no training study has a report.
    """
    path = _report_table(data, manifest)
    table = read_table(path, required=["study_id"])
    split = {record.study_id: record.split for record in read_manifest(manifest)}
    counts = {}
    for name, splits in ((TRAINING, ("train",)), (LEARNING, ("train", "val"))):
        rows = [row for row in table.rows if split.get(row["study_id"].strip()) in splits]
        if not rows:
            raise DataError(
                f"{path}: no report of a study of split 'train' in {manifest}; check that both "
                "tables use the same study_id"
            )
        columns = [c for c in table.columns if c in ("study_id", "report", *SECTION_COLUMNS)]
        write_table(out / name, columns, rows)
        counts[name] = len(rows)
    return counts
