"""A data folder: ``manifest.csv`` and, as far as they are there, reports and labels."""

from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records import ImageRecord, Sentence, read_labels, read_manifest, read_reports
from cxrtext.records.reports import SECTION_COLUMNS
from cxrtext.records.tables import read_table
from cxrtext.text import study_sentences


@dataclass(frozen=True, slots=True)
class DataFolder:
    """What a data folder holds.

    Args:
        path: The folder.
        records: Every image of the manifest.
        sentences: The sentences of every report; None where there are no reports.
        labels: Labels by study and finding; None where there are none.
    """

    path: Path
    records: list[ImageRecord]
    sentences: list[Sentence] | None
    labels: dict[str, dict[str, int | None]] | None


def _existing(folder: Path, stem: str) -> Path | None:
    for ending in (".csv", ".parquet"):
        path = folder / (stem + ending)
        if path.is_file():
            return path
    return None


def sentences_beside(manifest: Path, reports: Path | None = None) -> list[Sentence] | None:
    """The sentences of a data set's reports.

    Args:
        manifest: The manifest.
        reports: A table of reports; by default ``reports.csv`` beside the manifest, else the
            report columns of the manifest itself.

    Returns:
        Sentences of the sections that describe the image, or None where there are no reports.
    """
    path = reports or _existing(manifest.parent, "reports")
    if path is None and {"report", *SECTION_COLUMNS} & set(read_table(manifest).columns):
        path = manifest
    if path is None:
        return None
    return [sentence for study in read_reports(path) for sentence in study_sentences(study)]


def read_data_folder(folder: Path, *, allow_outside: bool = False) -> DataFolder:
    """Read a data folder.

    Args:
        folder: Holds ``manifest.csv`` (or ``.parquet``); reports are taken from ``reports.csv`` or
            from the report columns of the manifest, labels from ``labels.csv``.
        allow_outside: Whether images may lie outside the folder.

    Raises:
        DataError: There is no manifest, or a table is wrong.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    manifest = _existing(folder, "manifest")
    if manifest is None:
        raise DataError(f"{folder}: holds no manifest.csv; give the folder of a data set")
    labels = _existing(folder, "labels")
    return DataFolder(
        path=folder,
        records=read_manifest(manifest, allow_outside=allow_outside),
        sentences=sentences_beside(manifest),
        labels=None if labels is None else read_labels(labels),
    )
