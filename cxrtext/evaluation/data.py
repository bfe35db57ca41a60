"""A data folder: ``manifest.csv`` and any reports, labels and boxes."""

from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records import (
    CHEX5,
    Absent,
    Box,
    ImageRecord,
    LeftOut,
    Sentence,
    iter_boxes,
    read_labels,
    read_manifest,
    read_reports,
    require_match,
)
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.report_sources import made_of_labels
from cxrtext.records.tables import read_table
from cxrtext.text import study_sentences

TABLE_ENDINGS, BOX_ENDINGS = (".csv", ".parquet"), (".json", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class DataFolder:
    """What a data folder holds; None if it has no reports, labels of the findings, or boxes.

    ``records`` are all images of the manifest, ``labels`` are by study and finding, ``absent`` are
    the phrases of the box file without a box, ``bad_boxes`` its rejected entries: where they are,
    and why they were rejected.
    """

    path: Path
    records: list[ImageRecord]
    sentences: list[Sentence] | None
    labels: dict[str, dict[str, int | None]] | None
    boxes: list[Box] | None = None
    absent: tuple[Absent, ...] = ()
    bad_boxes: tuple[LeftOut, ...] = ()
    made: str = ""  # says so if its reports were made from labels


def find_table(folder: Path, stem: str) -> Path | None:
    """A table of a data folder by its name without the suffix, or None."""
    endings = BOX_ENDINGS if stem == "boxes" else TABLE_ENDINGS
    paths = (folder / (stem + ending) for ending in endings)
    return next((path for path in paths if path.is_file()), None)


def reports_of(manifest: Path) -> Path | None:
    """``reports.csv`` beside the manifest, or the manifest itself if it has report columns."""
    beside = find_table(manifest.parent, "reports")
    if beside is None and {"report", *SECTION_COLUMNS} & set(read_table(manifest).columns):
        return manifest
    return beside


def sentences_beside(manifest: Path, reports: Path | None = None) -> list[Sentence] | None:
    """The sentences of the sections that describe the image; None without reports.

    They come from a table of reports: by default ``reports.csv`` beside the manifest, or else the
    report columns of the manifest itself.
    """
    path = reports or reports_of(manifest)
    if path is None:
        return None
    return [sentence for study in read_reports(path) for sentence in study_sentences(study)]


def manifest_of(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    manifest = find_table(folder, "manifest")
    if manifest is None:
        raise DataError(f"{folder}: holds no manifest.csv; give the folder of a data set")
    return manifest


def _labels(
    path: Path | None, findings: tuple[str, ...]
) -> dict[str, dict[str, int | None]] | None:
    if path is None or not set(findings) & set(read_table(path, ["study_id"]).columns):
        return None
    return read_labels(path, findings)


def _boxes(
    folder: Path, boxes: Path | None
) -> tuple[list[Box] | None, list[Absent], list[LeftOut]]:
    path = boxes or find_table(folder, "boxes")
    if path is None:
        return None, [], []
    if not path.is_file():
        raise DataError(f"{path}: no such box file")
    entries = list(iter_boxes(path))
    return (
        [entry for entry in entries if isinstance(entry, Box)],
        [entry for entry in entries if isinstance(entry, Absent)],
        [entry for entry in entries if isinstance(entry, LeftOut)],
    )


def read_data_folder(
    folder: Path,
    *,
    allow_outside: bool = False,
    findings: tuple[str, ...] = CHEX5,
    boxes: Path | None = None,
    labels: Path | None = None,
) -> DataFolder:
    """Read a data folder: ``manifest.csv`` (or ``.parquet``) and the files beside it.

    Reports come from ``reports.csv`` or from the report columns of the manifest, labels of the
    findings from ``labels.csv``, boxes from ``boxes.json`` (or ``.csv``, ``.parquet``); ``boxes``
    and ``labels`` name other files.  ``allow_outside``: images may lie outside the folder.
    """
    manifest = manifest_of(folder)
    good, absent, bad = _boxes(folder, boxes)
    records = read_manifest(manifest, allow_outside=allow_outside)
    sentences, table = sentences_beside(manifest), labels or find_table(folder, "labels")
    values = _labels(table, findings)
    studies = {record.study_id for record in records}
    reported = {sentence.study_id for sentence in sentences or ()}
    table_of_reports = find_table(folder, "reports") or manifest
    require_match(table_of_reports, "reports", reported, studies, "study_id", manifest)
    require_match(table or folder, "labels", values or {}, studies, "study_id", manifest)
    images = {record.name for record in records}
    drawn = {box.image for box in (*(good or ()), *absent)}
    file = boxes or find_table(folder, "boxes") or folder
    require_match(file, "boxes", drawn, images, "image", manifest)
    return DataFolder(
        path=folder,
        records=records,
        sentences=sentences,
        labels=values,
        boxes=good,
        absent=tuple(absent),
        bad_boxes=tuple(bad),
        made=made_of_labels(table_of_reports),
    )
