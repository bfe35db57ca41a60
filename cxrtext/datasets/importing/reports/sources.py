"""Where versions of reports come from: tables, text, HL7, structured reports, folders."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cxrtext.datasets.importing.folder import Files
from cxrtext.datasets.importing.reading import LeftOutError, Names, columns_of, read_rows
from cxrtext.datasets.importing.reports.hl7 import (
    MAX_BYTES,
    MessageError,
    looks_like_hl7,
    messages,
    read_message,
)
from cxrtext.datasets.importing.reports.sr import read_sr
from cxrtext.datasets.importing.versions import ReportVersion, of_study, read_status, whole
from cxrtext.errors import DataError, ImageError
from cxrtext.files import open_regular
from cxrtext.images.dicom.file import is_dicom
from cxrtext.records import LeftOut, Study, TableRows, open_reports
from cxrtext.records.cells import TIME_DIGITS, meanings_of, says_nothing
from cxrtext.records.columns import NO_COLUMNS, SECTION_COLUMNS
from cxrtext.records.report_folder import printable, read_report_file, walk
from cxrtext.records.report_sources import is_table
from cxrtext.records.text_source import REPORT_COLUMNS, choose_columns

_HEAD = 256

Versions = Iterator[ReportVersion | LeftOut]


def as_reports(
    path: Path, names: Names = NO_COLUMNS, files: Files | None = None
) -> Iterable[Study | ReportVersion | LeftOut]:
    """Open a table, a file of messages or of text, or a folder as reports; see `open_table`."""
    if path.is_dir():
        return _folder(path)
    if is_table(path):
        is_openi = "uid" in (columns := columns_of(path, names)) and "study_id" not in columns
        return whole(open_table(path, {"study_id": "uid"} if is_openi else names, files))
    return _messages(path, path.name) if _kind(path) == "hl7" else open_reports(path)


def open_table(path: Path, names: Names = NO_COLUMNS, files: Files | None = None) -> Versions:
    """The rows of a table; without a ``study_id``, the image found in ``files`` is the study."""
    table = TableRows(path, names)
    columns = table.columns
    texts = [name for name in columns if name in REPORT_COLUMNS]
    if files is None or "image" not in columns:
        choose_columns(str(path), texts)
    table.require_text(texts)
    times = meanings_of(table, ("time", "date"))
    known = [name for name in ("time", "date") if name in times]
    table.errors.clear()
    for entry in read_rows(table):
        if isinstance(entry, LeftOut):
            yield entry
            continue
        item, row = entry
        line, version = (row.get(n, "").removesuffix(".0") for n in ("line", "version"))
        ids = (n for n in ("study_id", "accession", "patient_id") if n in row)
        row |= {name: "" for name in ids if says_nothing(row[name])}
        try:
            image = files.study(item, {"image": row["image"]}) if files and "image" in row else ""
        except LeftOutError as error:
            if "study_id" not in row:
                yield error.entry
                continue
            image = ""
        study = row.get("study_id", image)
        word = row.get("status", "")
        word *= len(word) > 1 or "status" in names.get("status", "status").lower()  # not a code
        status, addendum = read_status(word)
        if word and not (status or addendum) and "status" in table.headers:
            reason = "status is not one of preliminary, final, corrected, addendum; fix the cell"
            yield LeftOut(item, reason)
        elif not (study or row.get("accession")):
            yield LeftOut(item, "empty study_id; give every report one")
        else:
            yield ReportVersion(
                item=item,
                study=study,
                accession=row.get("accession", ""),
                issuer=row.get("issuer", ""),
                image=image,
                patient=row.get("patient_id", ""),
                status=status,
                time=next(filter(None, (times[n].read(row[n]) for n in known)), "")
                or (version.zfill(TIME_DIGITS) if version.isdecimal() else ""),
                part=(row.get("section", "").upper(), int(line) + 1 if line.isdecimal() else 0),
                addendum=addendum,
                report=row.get("report", ""),
                sections={name: row[name] for name in SECTION_COLUMNS if name in columns},
            )
    for name, count in table.errors.items():
        why = f"{name}: {count} cells hold an error of the spreadsheet, such as #NAME?; left blank"
        yield LeftOut(path.name, why)


def _folder(root: Path) -> Versions:
    has_report = False
    root = root.resolve()
    for name in walk(root, lambda _: True):
        if isinstance(name, LeftOut):
            yield name
            continue
        item, path = printable(name), (root / name)
        if not path.resolve().is_relative_to(root) or not path.is_file():
            yield LeftOut(item, "a link that leads out of the folder; put the file itself there")
            continue
        for version in file_versions(path, item):
            has_report = True
            yield version
    if not has_report:
        raise DataError(
            f"{root}: no report in this folder or below; give text files (.txt), HL7 messages or "
            "structured reports, or a table of reports (.csv, .xlsx, .parquet)"
        )


def file_versions(path: Path, item: str) -> Versions:
    """The versions in one file; none if it holds no report."""
    if (kind := _kind(path)) == "hl7":
        yield from _messages(path, item)
    elif kind == "dicom":
        try:
            version = read_sr(path, item)
        except ImageError as error:
            yield LeftOut(item, str(error))
        else:
            if version is not None:
                yield version
    elif path.suffix.lower() == ".txt":
        read = read_report_file(path, item, 1)
        # MIMIC-CXR's tables leave out the s of its file names, other tables do not.
        yield read if isinstance(read, LeftOut) else replace(of_study(read[1]), accession=path.stem)


def _kind(path: Path) -> str:
    """The kind of a file's content: "hl7", "dicom" or ""."""
    try:
        with open_regular(path) as handle:
            start = handle.read(_HEAD)
    except OSError:
        return ""
    return "hl7" if looks_like_hl7(start) else "dicom" if is_dicom(start) else ""


def _messages(path: Path, item: str) -> Versions:
    """The reports in a file of HL7 messages; messages without a report are skipped."""
    try:
        with open_regular(path) as handle:
            data = handle.read(MAX_BYTES + 1)
    except OSError as error:
        yield LeftOut(item, f"cannot be read ({error.strerror}); see its permissions")
        return
    if len(data) > MAX_BYTES:
        yield LeftOut(item, f"larger than {MAX_BYTES >> 20} MiB; divide it")
        return
    for number, message in enumerate(messages(data), 1):
        where = item if number == 1 else f"{item} message {number}"
        try:
            yield from read_message(message, where)
        except MessageError as error:
            yield LeftOut(where, str(error))
