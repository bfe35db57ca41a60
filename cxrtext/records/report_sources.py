"""Text to be scored, from whatever file, folder or stream holds it, read without being held."""

import hashlib
import io
import json
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TextIO, cast

from cxrtext.errors import DataError, WorkError
from cxrtext.files import check_listed, note_source, open_regular, sha256
from cxrtext.records.columns import NO_COLUMNS, has_known_header
from cxrtext.records.decoding import LINE_LIMIT, NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.parquet_tables import cell_text
from cxrtext.records.report_folder import open_folder, open_report_file
from cxrtext.records.rows import EXCEL, OTHER_BOOKS, TABLES, Row, TableRows, clean_row
from cxrtext.records.study import LeftOut, Sentence, Study, none_left_out
from cxrtext.records.text_source import (
    REPORT_COLUMNS,
    SENTENCE_COLUMNS,
    TextSource,
    choose_columns,
    read_items,
)

LOOKED_AT = 100
"""Lines that are read to learn the keys: writers leave out the keys of missing values."""

SOURCE, LABELS = "source", "labels"
"""The column of a table of reports that says where they are from, and what it says of made ones."""
MADE = (
    "the sentences of the reports were made of labels: retrieval and likelihoods of sentences are "
    "figures of made sentences"
)

_KEYS = tuple(dict.fromkeys((*REPORT_COLUMNS, *SENTENCE_COLUMNS)))
_TOO_LONG = f"longer than {LINE_LIMIT:,} characters"


def _parse(line: str) -> dict[str, Any] | str:
    if len(line) > LINE_LIMIT:
        return f"{_TOO_LONG}; write one report a line"
    if undecoded(line):
        return NOT_UTF8
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"not JSON at character {error.colno}; write one JSON object a line"
    except (ValueError, RecursionError):
        return "not JSON that can be read; write one JSON object a line"
    if not isinstance(value, dict):
        return 'not a JSON object; write one object a line, such as {"study_id": ...}'
    for key in _KEYS:
        if isinstance(value.get(key), dict | list | bool):
            return f"{key} is no text; write it as a string"
    return value


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Number of a line of JSON Lines and its object, or what is wrong with it."""
    with open_regular(path) as raw, open_text(raw, str(path)) as handle:
        for number, line in enumerate(read_lines(handle), 1):
            if line.strip():
                yield number, _parse(line)


def _rows(path: Path) -> Iterator[Row | LeftOut]:
    for number, value in objects(path):
        if isinstance(value, str):
            yield LeftOut(f"line {number}", value)
            continue
        names = [key for key in _KEYS if key in value]
        yield clean_row(number, names, [cell_text(value[key]) for key in names], "line")


def open_jsonl(path: Path) -> TextSource:
    """Open a file of JSON Lines with reports or sentences."""
    keys: dict[str, None] = {}
    wrong = ""
    for number, value in islice(objects(path), LOOKED_AT):
        if isinstance(value, str):
            wrong = wrong or f"line {number}: {value}"
        else:
            keys.update(dict.fromkeys(value))
    if not keys:
        raise DataError(f"{path}: {wrong or 'the file is empty'}")
    holds, _ = choose_columns(str(path), list(keys))
    return TextSource(
        str(path), holds, partial(sha256, path), lambda: read_items(holds, _rows(path), "line")
    )


NAME = "standard input"


class _Spool:
    """A file without a name, for its owner alone, gone when the process ends however it ends."""

    def __init__(self, stream: IO[bytes]) -> None:
        digest, self.blank = hashlib.sha256(), True
        try:
            with tempfile.TemporaryFile() as file:
                while block := stream.read(1 << 20):
                    digest.update(block)
                    self.blank = self.blank and not block.strip()
                    file.write(block)
                file.flush()
                self.handle = os.dup(file.fileno())
        except OSError as error:
            raise WorkError(
                f"{NAME} cannot be kept in {tempfile.gettempdir()} ({error.strerror}); make room, "
                "or set TMPDIR to a folder that has some"
            ) from None
        weakref.finalize(self, os.close, self.handle)
        self.digest = digest.hexdigest()

    def open(self) -> TextIO:
        return open_text(io.BufferedReader(_Reader(self)), NAME)


class _Reader(io.RawIOBase):
    """A reader with a position of its own, so that several do not disturb each other."""

    def __init__(self, spool: _Spool) -> None:
        self._spool, self._place = spool, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = os.pread(self._spool.handle, len(buffer), self._place)
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def _sentences(spool: _Spool) -> Iterator[Sentence | LeftOut]:
    with spool.open() as handle:
        for number, line in enumerate(read_lines(handle), 1):
            item, text = f"line {number}", line.strip()
            if len(line) > LINE_LIMIT:
                yield LeftOut(item, f"{_TOO_LONG}; give one sentence a line")
            elif undecoded(text):
                yield LeftOut(item, NOT_UTF8)
            elif text:
                yield Sentence(str(number), "sentence", 0, text)


def open_stdin() -> TextSource:
    """Read standard input to its end, and open it as one sentence a line.

    Sentences have the number of their line for a study_id; blank lines are passed over.
    """
    stream = getattr(sys.stdin, "buffer", None)
    spool = None if stream is None else _Spool(stream)
    if spool is None or spool.blank:
        state = "closed" if spool is None else "empty"
        raise DataError(f"{NAME} is {state}; pipe sentences into it, one a line")
    with spool.open():
        pass
    return TextSource(NAME, "sentences", lambda: spool.digest, lambda: _sentences(spool))


def _open_table(path: Path, columns: Mapping[str, str] = NO_COLUMNS) -> TextSource:
    """Open a table of reports or sentences; ids may be whole numbers."""
    table = TableRows(path, given=tuple(columns.values()))
    if "sentence" not in table.headers or columns:
        table = TableRows.known(path, columns)
    names = table.columns
    if "study_id" not in names and "image" in names:
        names = tuple("study_id" if name == "image" else name for name in names)
        table = TableRows(path, {**table.names, "study_id": table.names["image"]})
    holds, wanted = choose_columns(str(path), table.columns)
    table.require_text(wanted)
    if next(table.read(wanted), None) is None:
        raise DataError(f"{path}: the table has no rows")
    digest = partial(sha256, path)
    return TextSource(str(path), holds, digest, lambda: read_items(holds, table.read(wanted)))


_BY_ENDING = {".jsonl": open_jsonl, ".txt": open_report_file}
_REFUSED = {
    ".gz": "it is compressed; unpack it first (gunzip)",
    ".zip": "it is an archive; unpack it first",
    **dict.fromkeys(OTHER_BOOKS, EXCEL),
    ".json": "write JSON Lines, one object a line, as .jsonl",
}


def is_table(path: Path) -> bool:
    """Whether a path names a table, and not messages, text or a folder (DataError: a workbook).

    A ``.txt`` is one where a known header has several cells, as in Excel's "Unicode text".
    """
    if path.suffix.lower() in OTHER_BOOKS:
        raise DataError(f"{path}: this workbook is not read; {EXCEL}")
    if not path.is_file() or path.suffix.lower() != ".txt":
        return path.is_file() and path.name.lower().endswith(TABLES)
    try:
        return has_known_header(TableRows(path).headers)
    except DataError:
        return False


def _opener(path: Path) -> Callable[[Path], TextSource]:
    if is_table(path):
        return _open_table
    ending = path.suffix.lower()
    if ending not in _BY_ENDING:
        advice = _REFUSED.get(ending, "give .csv, .xlsx, .parquet, .jsonl, .txt, a folder, or '-'")
        raise DataError(f"{path}: a file ending in {ending or 'nothing'} is not read: {advice}")
    return _BY_ENDING[ending]


def check_source(path: Path | str) -> None:
    """Refuse what :func:`open_source` cannot read by its place or name; nothing is opened."""
    path = Path(path)
    if str(path) == "-" or path.is_dir():
        return
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_file():
        raise DataError(f"{path}: not a file or folder; pipe sentences in and give '-'")
    _opener(path)


def open_source(path: Path | str, columns: Mapping[str, str] = NO_COLUMNS) -> TextSource:
    """Open reports or sentences to be read one by one.

    What is wrong with single rows or files comes as a ``LeftOut`` in its place; a report that is
    repeated under its study_id comes once.

    Args:
        path: A table (CSV, Excel, Parquet, JSON Lines) with ``study_id`` and either
            ``report`` or any of ``findings``, ``impression``, ``indication``, ``comparison``; a
            table with ``sentence``; a folder of ``.txt`` reports, or one of them; or "-" for
            sentences on standard input, one a line.
        columns: What columns of a table are called, by their own names; the others are guessed.
    """
    if str(path) == "-":
        return open_stdin()
    path = Path(path)
    try:
        check_source(path)
        opener = open_folder if path.is_dir() else _opener(path)
        if opener is _open_table:
            return _open_table(path, columns)
        if columns:
            raise DataError(f"{path}: --columns is of a table; leave it out")
        check_listed(path, DataError)
        note_source(path)
        return opener(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def open_reports(path: Path, columns: Mapping[str, str] = NO_COLUMNS) -> Iterable[Study | LeftOut]:
    """Open reports to be read one by one, as `open_source`; sentences are refused."""
    source = open_source(path, columns)
    if source.holds != "reports":
        raise DataError(f"{path}: holds sentences; give reports with a study_id each")
    return cast("Iterable[Study | LeftOut]", source)


def read_reports(path: Path) -> list[Study]:
    """Read reports whole, for instance the columns of a manifest; see `open_source`."""
    return list(none_left_out(path, open_reports(path)))


def made_of_labels(reports: Path | str | None) -> str:
    """:data:`MADE` where a table of reports says that any of them was made of labels, else ""."""
    if not str(reports or "").lower().endswith(TABLES):
        return ""
    table = TableRows(Path(str(reports)))
    rows = table.read([SOURCE]) if SOURCE in table.columns else iter(())
    made = (not isinstance(row, LeftOut) and row[1][SOURCE] == LABELS for row in rows)
    return MADE if any(made) else ""
