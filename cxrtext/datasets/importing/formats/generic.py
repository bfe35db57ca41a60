"""A data folder or a table with an ``image`` column, checked and normalized; tables of reports."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import cast

from cxrtext.datasets.importing.files import existing, inside
from cxrtext.datasets.importing.formats.mimic import label_rows
from cxrtext.datasets.importing.formats.openi import read_indiana_reports
from cxrtext.datasets.importing.reading import (
    FoundImage,
    ImportOptions,
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
from cxrtext.datasets.importing.values import check_ids, findings_of, frontal_view, label_values
from cxrtext.errors import DataError
from cxrtext.records import Rejected, Study, iter_boxes, open_source
from cxrtext.records.text_source import SECTION_COLUMNS

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
    "": "",
}
"""Spellings of the splits; an image without one gets the split that is drawn for its patient."""

_KNOWN = ("image", "study_id", "patient_id", "split", "view")
_TEXT = ("report", *SECTION_COLUMNS)
_NO_LABEL = {*_KNOWN, "subject_id", "dicom_id", "accession", "age", "sex"}


def _image(
    root: Path, columns: tuple[str, ...], findings: tuple[str, ...], item: str, row: dict[str, str]
) -> FoundImage:
    split = SPLITS.get(row.get("split", "").lower())
    if split is None:
        reason = "split is not one of train, val, test; fix the cell"
        raise NotKeptError(Rejected(item, reason))
    view = frontal_view(item, row.get("view", ""))
    name = PurePosixPath(row["image"].replace("\\", "/"))
    if name.is_absolute() or inside(root, str(name)) is None:
        reason = "image is empty or lies outside the folder; move it there"
        raise NotKeptError(Rejected(item, reason))
    _, path = existing(root, item, str(name))
    labels = label_values(item, row, findings)
    study = row.get("study_id") or ("" if "study_id" in row else str(name.with_suffix("")))
    patient = row.get("patient_id", "")
    check_ids(item, study, patient)
    return FoundImage(
        path=path,
        name=path.relative_to(root).as_posix() if ".." in name.parts else str(name),
        study_id=study,
        patient_id=patient,
        split=split,
        view=view,
        accession=row.get("accession", ""),
        box_key=row["image"],
        metadata={column: row[column] for column in columns},
        labels=labels,
    )


def _tables(root: Path) -> list[Path]:
    return [p for p in sorted(root.glob("*.csv")) if p.is_file() and not p.name.startswith(".")]


def _manifest(root: Path, table: Path | None) -> Path | None:
    if table is not None:
        return table if "image" in columns_of(table) else None
    named = find_table(root, "manifest")
    if named is not None:
        return named
    found = [path for path in _tables(root) if {"image", "study_id"} <= set(columns_of(path))]
    return found[0] if len(found) == 1 and not _texts_only(root, found[0]) else None


def _texts_only(root: Path, table: Path) -> bool:
    """Whether no image of a table is there: the Indiana reports have a column of that name."""
    rows = (row[1]["image"] for row in read_rows(table) if not isinstance(row, Rejected))
    first = [name for name, _ in zip(rows, range(100), strict=False)]
    return not any((path := inside(root, name)) and path.is_file() for name in first)


def as_reports(path: Path) -> Iterable[Study | Rejected]:
    """Open a table or a folder as reports."""
    if path.is_file() and {"uid"} <= set(_csv_columns(path)) - {"study_id"}:
        return read_indiana_reports(path)
    source = open_source(path)
    if source.holds != "reports":
        raise DataError(f"{path}: holds sentences; give reports with a study_id each")
    return cast("Iterable[Study | Rejected]", source)


def _csv_columns(path: Path) -> tuple[str, ...]:
    return columns_of(path) if path.name.lower().endswith((".csv", ".csv.gz", ".parquet")) else ()


def open_generic(
    root: Path, options: ImportOptions, _: Path, table: Path | None = None
) -> Reading | None:
    """Open a data folder, or a table with a column ``image``; None where there is none."""
    manifest = _manifest(root, table)
    if manifest is None:
        return None
    present = columns_of(manifest)
    labels = find_table(root, "labels")
    own = () if labels else findings_of(present)
    offered = [c for c in present if c and c not in (*_KNOWN, *_TEXT, *own)]
    columns, left_out = columns_kept(options.keep, {c: c for c in offered}, "generic")
    findings = own
    if labels:
        findings = tuple(name for name in columns_of(labels) if name not in _NO_LABEL)
    reports = None
    if options.reports is None:
        texts = find_table(root, "reports") or (manifest if set(_TEXT) & set(present) else None)
        reports = as_reports(texts) if texts and "study_id" in columns_of(texts) else None
    boxes = None
    if options.boxes is None:
        files = [root / "boxes.json", root / "boxes.csv"]
        boxes = next((iter_boxes(path) for path in files if path.is_file()), None)
    return Reading(
        layout="generic",
        count=partial(count_rows, manifest),
        images=partial(map_rows, manifest, ["image"], partial(_image, root, columns, own)),
        columns=columns,
        findings=findings,
        label_rows=label_rows(labels, findings) if labels else None,
        reports=reports,
        boxes=boxes,
        left_out=left_out,
    )


def open_reports(
    root: Path, options: ImportOptions, _: Path, table: Path | None = None
) -> Reading | None:
    """Open reports without images: one table of them, or a folder of text files."""
    path = table
    if path is None:
        named = find_table(root, "indiana_reports") or find_table(root, "reports")
        tables = [named] if named else _tables(root)
        if len(tables) > 1:
            return None
        path = tables[0] if tables else root
    if path.is_file() and not set(_TEXT) & set(_csv_columns(path)):
        return None
    if path.is_dir() and not any(path.rglob("*.txt")):
        return None
    columns_kept(options.keep, {}, "reports")
    return Reading("reports", lambda: 0, lambda: iter(()), reports=as_reports(path))
