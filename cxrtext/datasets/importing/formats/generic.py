"""A data folder, or a table of images or studies; tables of reports and labels."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from cxrtext.datasets.importing.folder import LEADS_OUT, Files, inside, without_ending
from cxrtext.datasets.importing.loose import refuse_lost_digits
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    LeftOutError,
    Names,
    Reading,
    Row,
    check_ids,
    columns_of,
    count_rows,
    find_table,
    findings_of,
    frontal_view,
    label_rows,
    label_values,
    make_each,
    read_rows,
    reject,
)
from cxrtext.datasets.importing.reports.sources import as_reports
from cxrtext.records import LeftOut, TableRows, iter_boxes
from cxrtext.records.cells import Meaning, meanings_of, moment, says_nothing
from cxrtext.records.columns import NAMES, NO_COLUMNS, SECTION_COLUMNS
from cxrtext.records.manifest import ACQUIRED, DAYS
from cxrtext.records.report_folder import printable
from cxrtext.records.report_sources import is_table

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
    "": "",
}
"""Spellings of the splits; an image without one gets the split drawn for its patient."""

_KNOWN = ("image", "study_id", "patient_id", "split", "view")
_TEXT = ("report", *SECTION_COLUMNS)
NOT_NAMED = "no row of the table names it"


def _image(
    files: Files, columns: Columns, findings: Columns, meanings: Mapping[str, Meaning],
    item: str, row: dict[str, str],
) -> FoundImage:  # fmt: skip
    if (split := SPLITS.get(row.get("split", "").lower())) is None:
        raise reject(item, "split is not one of train, val, test; fix the cell")
    view = frontal_view(item, row.get("view", ""))
    name, path = files.find(item, row["image"])
    labels = label_values(item, row, findings)
    given = (row.get(name, "") for name in ("study_id", "patient_id"))
    study, patient = ("" if says_nothing(one) else one for one in given)
    study = study if "study_id" in row else without_ending(name)
    refuse_lost_digits(item, study_id=study, patient_id=patient)
    check_ids(item, study, patient)
    return FoundImage(
        path=path,
        name=name,
        study_id=study,
        patient_id=patient,
        split=split,
        view=view,
        accession=row.get("accession", ""),
        box_key=row["image"],
        metadata={column: _cell(column, row, meanings) for column in columns},
        labels=labels,
    )


def _cell(column: str, row: Mapping[str, str], meanings: Mapping[str, Meaning]) -> str:
    """A metadata cell: of a date the year; `ACQUIRED` and `DAYS` get when the image was taken."""
    if column == ACQUIRED or (column == DAYS and column not in row):
        times = ((name, row.get(name, "")) for name in (ACQUIRED, "date") if name in meanings)
        return next((taken for n, cell in times if (taken := moment(meanings[n].read(cell)))), "")
    text = meanings[column].read(row[column]) if column in meanings else row[column]
    return text[:4] if column == "date" else text


def _tables(root: Path) -> list[Path]:
    return [p for p in sorted(root.glob("*.csv")) if p.is_file() and not p.name.startswith(".")]


def _manifest(root: Path) -> Path | None:
    if (named := find_table(root, "manifest")) is not None:
        return named
    tables = [path for path in _tables(root) if "image" in columns_of(path)]
    is_one = len(tables) == 1 and any(_there(tables[0], NO_COLUMNS, Files(root, root)))
    return tables[0] if is_one else None


def _there(table: Path, names: Names, files: Files) -> Iterator[bool]:
    """True for each of a table's first 100 images that exists: other tables have such columns."""
    for row in islice(read_rows(table, (), names), 100):
        if isinstance(row, tuple):
            with suppress(LeftOutError):
                yield bool(files.find(row[0], row[1]["image"]))


def _by_study(table: Path, names: Names, files: Files) -> Iterator[Row | LeftOut]:
    """The rows of a table of studies, once for each picture of the study."""
    rows = (row for row in read_rows(table, ["study_id"], names) if isinstance(row, tuple))
    folders = files.by_folder({row["study_id"] for _, row in rows})
    seen: set[str] = set()
    for entry in read_rows(table, ["study_id"], names):
        if isinstance(entry, LeftOut):
            yield entry
        elif (study := entry[1]["study_id"]) not in seen:
            seen.add(study)
            for name in folders.get(study, [study]):
                yield entry[0], {**entry[1], "image": name}


def by_image(path: Path, names: Names) -> bool:
    """Whether a table names studies only by their images."""
    columns = columns_of(path, names) if is_table(path) else ()
    return "image" in columns and "study_id" not in columns


def labels_of(columns: Columns) -> Columns:
    """The columns that are findings."""
    return tuple(name for name in columns if name not in (*NAMES, "subject_id", "dicom_id", ""))


def open_generic(
    root: Path, out: Path, table: Path | None = None, names: Names = NO_COLUMNS,
    files: Files | None = None, *, pictures: bool = False,
) -> Reading | None:  # fmt: skip
    """Open a data folder, or a table that names images; None if there is none.

    With ``pictures``, the user's table may name studies, and pictures without a row are listed.
    """
    if (manifest := table or _manifest(root)) is None:
        return None
    files = files or Files(root, out)
    if pictures and not files.pictures:
        return None
    present = columns_of(manifest, names)
    named = "image" in present
    if named and table:
        rows = read_rows(manifest, ["image"], names)
        files.settle(manifest, (row[1]["image"] for row in rows if isinstance(row, tuple)))
    if pictures and "study_id" in present:
        named = named and any(_there(manifest, names, files))
    elif not named:
        return None
    labels = find_table(root, "labels")
    own = () if labels else findings_of(present)
    findings = labels_of(columns_of(labels)) if labels else own
    texts = find_table(root, "reports") or (manifest if set(_TEXT) & set(present) else None)
    called = names if texts == manifest else NO_COLUMNS
    by_name = texts is not None and by_image(texts, called)
    if texts and not by_name and "study_id" not in columns_of(texts, called):
        texts = None
    boxes = next((p for p in (root / "boxes.json", root / "boxes.csv") if p.is_file()), None)

    opened = TableRows(manifest, names)
    meanings = meanings_of(opened, ("age", "sex", "date", ACQUIRED))
    dated = [name for name in (ACQUIRED, DAYS) if {ACQUIRED, "date"} & {*meanings}]

    def images(columns: Columns) -> Iterator[Entry]:
        rows = read_rows(manifest, ["image"], names) if named else _by_study(manifest, names, files)
        yield from make_each(rows, partial(_image, files, columns, own, meanings))
        for name in files.pictures if pictures else ():
            if name not in files.asked:
                yield LeftOut(printable(name), what=NOT_NAMED)

    return Reading(
        count=partial(count_rows, manifest),
        images=images,
        offered=tuple(
            c for c in dict.fromkeys((*present, *dated)) if c and c not in (*_KNOWN, *_TEXT, *own)
        ),
        unread={
            name: said
            for name, one in meanings.items()
            if (said := one.fault(name, opened.names.get(name, name)))
        },
        findings=findings,
        label_rows=partial(label_rows, labels, findings) if labels else None,
        by_image=by_name,
        reports=partial(as_reports, texts, called, files) if texts else None,
        boxes=partial(iter_boxes, boxes) if boxes else None,
    )


def open_pictures(root: Path, _: Path, files: Files, texts: Path | None = None) -> Reading | None:
    """Open pictures that each have a text file of the same name, beside them or in a folder."""
    beside = {name[:-4] for name in files.names if name.lower().endswith(".txt")}
    if texts is None and beside.isdisjoint(map(without_ending, files.pictures)):
        return None
    if not files.pictures:
        return None

    def images(_: Columns) -> Iterator[Entry]:
        for name in files.pictures:
            item, path = printable(name), inside(root, name)
            if path is None or not path.is_file():
                yield LeftOut(item, "put the file there", LEADS_OUT)
            else:
                yield FoundImage(path, name, without_ending(name), "", box_key=name)

    return Reading(
        count=lambda: len(files.pictures),
        images=images,
        by_image=True,
        reports=partial(as_reports, texts or root),
    )


def open_reports_alone(
    root: Path, _: Path, table: Path | None = None, names: Names = NO_COLUMNS
) -> Reading | None:
    """Open reports without images: one table of them, or a folder of text files."""
    if (path := table) is None:
        named = find_table(root, "indiana_reports", "reports")
        tables = [named] if named else _tables(root)
        if len(tables) > 1:
            return None
        path = tables[0] if tables else root
    if path.is_file() and not set(_TEXT) & set(columns_of(path, names)):
        return None
    if path.is_dir() and Files(root, root).pictures:
        return None
    if path.is_dir() and not any(path.rglob("*.txt")):
        return None
    return Reading(lambda: 0, lambda _: iter(()), reports=partial(as_reports, path, names))
