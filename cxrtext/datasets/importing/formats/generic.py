"""A data folder or a table with an ``image`` column, checked and normalized; tables of reports."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from cxrtext.datasets.importing.folder import existing, inside
from cxrtext.datasets.importing.formats.mimic import label_rows
from cxrtext.datasets.importing.formats.openi import read_indiana_reports
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    Reading,
    check_ids,
    columns_of,
    count_rows,
    find_table,
    findings_of,
    frontal_view,
    label_values,
    map_rows,
    read_rows,
    reject,
)
from cxrtext.datasets.importing.reports.sources import has_versions, open_versions
from cxrtext.datasets.importing.versions import ReportVersion
from cxrtext.records import LeftOut, Study, iter_boxes, open_reports
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
    root: Path, columns: Columns, findings: Columns, item: str, row: dict[str, str]
) -> FoundImage:
    if (split := SPLITS.get(row.get("split", "").lower())) is None:
        raise reject(item, "split is not one of train, val, test; fix the cell")
    view = frontal_view(item, row.get("view", ""))
    name = PurePosixPath(row["image"].replace("\\", "/"))
    if name.is_absolute() or inside(root, str(name)) is None:
        raise reject(item, "image is empty or lies outside the folder; move it there")
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
    if (named := find_table(root, "manifest")) is not None:
        return named
    found = [path for path in _tables(root) if {"image", "study_id"} <= set(columns_of(path))]
    return found[0] if len(found) == 1 and _has_images(root, found[0]) else None


def _has_images(root: Path, table: Path) -> bool:
    """Whether an image of a table is there: the Indiana reports have a column of that name."""
    names = (row[1]["image"] for row in read_rows(table) if isinstance(row, tuple))
    return any((path := inside(root, name)) and path.is_file() for name in islice(names, 100))


def as_reports(path: Path) -> Iterable[Study | ReportVersion | LeftOut]:
    """Open a table, a file of messages or a folder as reports."""
    if path.is_file() and {"uid"} <= set(columns_of(path)) - {"study_id"}:
        return read_indiana_reports(path)
    return open_versions(path) if has_versions(path) else open_reports(path)


def open_generic(root: Path, _: Path, table: Path | None = None) -> Reading | None:
    """Open a data folder, or a table with a column ``image``; None where there is none."""
    if (manifest := _manifest(root, table)) is None:
        return None
    present = columns_of(manifest)
    labels = find_table(root, "labels")
    own = () if labels else findings_of(present)
    findings = own
    if labels:
        findings = tuple(name for name in columns_of(labels) if name not in _NO_LABEL)
    texts = find_table(root, "reports") or (manifest if set(_TEXT) & set(present) else None)
    if texts and "study_id" not in columns_of(texts):
        texts = None
    boxes = next((p for p in (root / "boxes.json", root / "boxes.csv") if p.is_file()), None)

    def images(columns: Columns) -> Iterator[Entry]:
        return map_rows(manifest, ["image"], partial(_image, root, columns, own))

    return Reading(
        count=partial(count_rows, manifest),
        images=images,
        offered=tuple(c for c in present if c and c not in (*_KNOWN, *_TEXT, *own)),
        findings=findings,
        label_rows=partial(label_rows, labels, findings) if labels else None,
        reports=partial(as_reports, texts) if texts else None,
        boxes=partial(iter_boxes, boxes) if boxes else None,
    )


def open_reports_alone(root: Path, _: Path, table: Path | None = None) -> Reading | None:
    """Open reports without images: one table of them, or a folder of text files."""
    path = table
    if path is None:
        named = find_table(root, "indiana_reports", "reports")
        tables = [named] if named else _tables(root)
        if len(tables) > 1:
            return None
        path = tables[0] if tables else root
    if path.is_file() and not set(_TEXT) & set(columns_of(path)):
        return None
    if path.is_dir() and not any(path.rglob("*.txt")):
        return None
    return Reading(lambda: 0, lambda _: iter(()), reports=partial(as_reports, path))
