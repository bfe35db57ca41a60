"""Rows of CSV and Parquet tables and of workbooks, one at a time, skipping bad ones.

Every reader treats a file alike: UTF-8, UTF-16 with its mark or, judged by its beginning,
Windows-1252 or Mac Roman; commas, semicolons, tabs or bars between cells; titles or ``sep=;``
before the header.  A row with bytes that are not text, or with too many or too few cells, is
rejected alone; an unclosed quote ends the reading with an error that names its line.
"""

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import check_listed, note_source
from cxrtext.records.columns import (
    HEADER_WITHIN,
    called,
    found_columns,
    header_place,
    match_columns,
    second,
)
from cxrtext.records.decoding import LEGACY, NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.parquet_tables import WORKBOOKS, ParquetTable, workbook_rows
from cxrtext.records.study import LeftOut

Row = tuple[int, dict[str, str]]
"""The number of a row, counted from 1 after the header, and its text by column."""

ROW_LIMIT = 1_000_000
"""Longest row, in characters: an unclosed quote makes one row of the rest of a file."""

TABLES = (".csv", ".csv.gz", ".tsv", ".parquet", *WORKBOOKS)  # endings of tables
EXCEL = "save the table as .xlsx, or as CSV UTF-8 (in Excel: Save as, 'CSV UTF-8')"
OTHER_BOOKS = (".xls", ".xlsb", ".ods", ".numbers")
ERRORS = frozenset(
    ["#NAME?", "#REF!", "#VALUE!", "#N/A", "#DIV/0!", "#NULL!", "#NUM!", "#SPILL!", "#CALC!"]
)
"""What a spreadsheet shows instead of a value; read as blank."""
FORMULA = re.compile("'* *[=+\\-@\t\r\n]")
"""The beginning of a text that a spreadsheet takes for a formula, or that was made plain before."""
_SEP = re.compile(r"\ufeff?sep=(.)\s*", re.IGNORECASE)
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def as_written(cell: str) -> str:
    """A cell of CSV without the apostrophe that `cxrtext.records.tables.plain` put before it."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell, 1) else cell


def separator_of(header: str) -> str:
    """The separator of a table's cells: the one that divides its header into most cells."""
    cells = {one: next(csv.reader([header], delimiter=one), []) for one in _SEPARATORS}
    return max(cells, key=lambda one: len(cells[one]))  # if equal, the first: a comma


class RowLines:
    """The lines of a file for ``csv.reader``, counted; a row over `ROW_LIMIT` is a csv.Error."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.number = 0  # number of the last line given, counted from 1
        self.first = 1  # number of the current row's first line
        self._lines, self._size = lines, 0

    def __iter__(self) -> "RowLines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        self._size += len(line)
        if self._size > ROW_LIMIT:
            raise csv.Error("the row is too long")
        return line

    def begin_row(self) -> None:
        self.first, self._size = self.number + 1, 0

    def ahead(self, count: int) -> list[str]:
        """Look at the next lines without consuming them."""
        some = list(islice(self._lines, count))
        self._lines = chain(some, self._lines)
        return some

    def skip(self, count: int) -> None:
        self.number += len(list(islice(self._lines, count)))


def _fitted(cells: list[str], columns: Sequence[str]) -> list[str]:
    """A row as wide as the header: in some sets, rows end in varying numbers of commas."""
    missing = len(columns) - len(cells)
    if missing > 0 and not any(columns[len(cells) :]):
        return [*cells, *[""] * missing]
    return cells[: len(columns)] if missing < 0 and not any(cells[len(columns) :]) else cells


def _csv_cells(
    path: Path, lines: RowLines, columns: Sequence[str], separator: str
) -> Iterator[tuple[int, list[str]] | LeftOut]:
    """The rows after the header, or what was rejected instead of them."""
    width, row = len(columns), 0
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        lines.begin_row()
        try:
            cells = next(reader, None)
        except csv.Error:
            begin = f"the row that begins in line {lines.first}"
            raise DataError(
                f"{path}: {begin}: a quote is not closed or not doubled, or the row is longer than "
                f"{ROW_LIMIT:,} characters; quote the cell and double every quote in it"
            ) from None
        if cells is None:
            return
        if not cells:
            continue
        row += 1
        cells = _fitted(cells, columns)
        if not any(map(str.strip, cells)):
            continue  # spreadsheets leave rows with only commas
        if len(cells) == width:
            yield row, cells
        else:
            yield LeftOut(
                f"row {row}",
                f"{len(cells)} cells where the header has {width} (line {lines.first}); quote "
                f"cells that hold a {_SEPARATORS.get(separator, repr(separator))} or a line break",
            )


def _header(path: Path, lines: RowLines, given: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The column names and the separator; titles before the header are skipped."""
    try:
        mark = _SEP.fullmatch("".join(lines.ahead(1)))
        lines.skip(int(mark is not None))
        some = [line[:ROW_LIMIT] for line in lines.ahead(HEADER_WITHIN)]
        cells = [next(csv.reader([s], delimiter=separator_of(s)), []) for s in some]
        place, _ = header_place(cells, given)
        lines.skip(place)
        lines.begin_row()
        separator = mark[1] if mark else separator_of(some[place] if some else "")
        columns = next(csv.reader(lines, delimiter=separator, strict=True), [])
    except csv.Error:
        raise DataError(
            f"{path}: the header is not readable: a quote in it is not closed, or it is longer "
            f"than {ROW_LIMIT:,} characters"
        ) from None
    if not columns:
        raise DataError(f"{path}: the first line is empty; a table begins with column names")
    if any(map(undecoded, columns)):
        raise DataError(f"{path}: the header is not UTF-8 text; {EXCEL}")
    return tuple(map(as_written, columns)), separator


def _clean_row(number: int, names: Sequence[str], cells: Sequence[str]) -> Row | LeftOut:
    """The cells by column, with "nan" and `ERRORS` as ""; a rejected row if one is not text."""
    if undecoded("".join(cells)):
        name = next(name for name, text in zip(names, cells, strict=True) if undecoded(text))
        return LeftOut(f"row {number}", f"{name}: {NOT_UTF8}")
    texts = ("" if text in ("nan", "NaN") or text in ERRORS else text for text in cells)
    return number, dict(zip(names, texts, strict=True))


def _numbered(names: Iterable[str]) -> tuple[str, ...]:
    """Stripped names; repeated ones are numbered by `second`."""
    seen, numbered = Counter[str](), list[str]()
    for name in map(str.strip, names):
        seen[name] += 1
        numbered.append(second(name, seen[name]) if name and seen[name] > 1 else name)
    return tuple(numbered)


class TableRows:
    """A table that each loop reads anew: ``.csv``, ``.csv.gz``, ``.tsv``, ``.parquet``, Excel.

    Blank rows are skipped.  ``headers`` are the names in the header; a second column of the same
    name is "name (2)".  ``columns`` are the names they are read under, "" if another column is read
    under that name.  ``no_text`` has the types of Parquet columns with lists, structs or dates;
    ``legacy`` names an encoding before Unicode.  ``errors`` counts, by column, the cells read so
    far with a spreadsheet's error.  ``sheets`` are a workbook's sheet that is read, and others with
    known columns.

    Args:
        names: Headers by the names they are read under; the others keep theirs.
        given: Further headers that help to find the header's row.
    """

    def __init__(
        self, path: Path, names: Mapping[str, str] | None = None, given: Sequence[str] = ()
    ) -> None:
        self.path, self.legacy, self.names = path, "", dict(names or {})
        self._given = (*self.names.values(), *given)
        self.no_text: dict[str, str] = {}
        self.errors, self.sheets = Counter[str](), list[str]()
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        check_listed(path, DataError)
        note_source(path)
        csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
        ending = path.suffix.lower()
        try:
            if self.is_parquet:
                headers = self._parquet.columns
                self.no_text = self._parquet.no_text
            elif ending in WORKBOOKS:
                headers = next(workbook_rows(path, self._given, self.sheets), ())
            elif not path.name.lower().endswith((*TABLES, ".txt")):
                advice = f"; {EXCEL}" if ending in OTHER_BOOKS else ""
                why = f"a table ends in .csv, .xlsx or .parquet, not in {ending or 'nothing'}"
                raise DataError(f"{path}: {why}{advice}")
            elif not path.stat().st_size:
                raise DataError(f"{path}: the file is empty")
            else:
                with self._lines() as lines:
                    headers, _ = _header(path, lines, self._given)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        self.headers = _numbered(headers)
        own = {header: name for name, header in self.names.items()}
        self.columns = tuple(
            own.get(name, "" if name in self.names else name) for name in self.headers
        )

    @classmethod
    def known(
        cls, path: Path, given: Mapping[str, str] | None = None, *, text: bool = True
    ) -> "TableRows":
        """A table with its known columns read under our names; see `match_columns`."""
        given = given or {}
        headers = cls(path, given=tuple(given.values())).headers
        return cls(path, match_columns(path, headers, given, text=text))

    @property
    def is_parquet(self) -> bool:
        return self.path.suffix.lower() == ".parquet"

    @cached_property
    def _parquet(self) -> ParquetTable:
        return ParquetTable(self.path)

    @contextmanager
    def _lines(self) -> Iterator[RowLines]:
        opener = gzip.open if self.path.suffix.lower() == ".gz" else open
        try:
            with (
                opener(self.path, "rb") as raw,
                open_text(raw, str(self.path), table=True) as handle,
            ):
                self.legacy = LEGACY.get(handle.encoding, "")
                yield RowLines(read_lines(handle))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            reason = "the compressed file is cut off or damaged; copy it again"
            raise DataError(f"{self.path}: {reason}") from None

    def require(self, *columns: str) -> None:
        """Raise a DataError for a column that is missing or occurs more than once."""
        for name in columns:
            if name not in self.columns:
                raise DataError(
                    f"{self.path}: column '{name}' is missing ({found_columns(self.columns)})"
                )
            if second(name) in self.columns:
                raise DataError(
                    f"{self.path}: column {called(name)} occurs more than once; keep one of them"
                )

    def require_text(self, columns: Iterable[str]) -> None:
        """Raise a DataError for a column that does not hold text."""
        for name in columns:
            if name in self.no_text:
                raise DataError(
                    f"{self.path}: column '{name}' holds {self.no_text[name]}; write it as text"
                )

    def read(self, wanted: Sequence[str] | None = None) -> Iterator[Row | LeftOut]:
        """Give the rows with the wanted columns, by default all, and the rejected rows."""
        names = tuple(filter(None, self.columns if wanted is None else wanted))
        places = [self.columns.index(name) for name in names]
        if self.is_parquet:
            asked = None if wanted is None else [self._parquet.columns[place] for place in places]
            places = places if asked is None else list(range(len(asked)))
            for number, row in enumerate(self._parquet.rows(asked), 1):
                yield _clean_row(number, names, [row[place] for place in places])
            return
        for entry in self._cells():
            if isinstance(entry, LeftOut):
                yield entry
            else:
                cells = [as_written(entry[1][place]) for place in places]
                self.errors.update(n for n, c in zip(names, cells, strict=True) if c in ERRORS)
                yield _clean_row(entry[0], names, cells)

    def _cells(self) -> Iterator[tuple[int, Sequence[str]] | LeftOut]:
        if self.path.suffix.lower() in WORKBOOKS:
            for number, cells in enumerate(workbook_rows(self.path, self._given)):
                if number and any(map(str.strip, cells)):
                    yield number, (*cells, *[""] * (len(self.headers) - len(cells)))
            return
        with self._lines() as lines:
            _, separator = _header(self.path, lines, self._given)
            yield from _csv_cells(self.path, lines, self.headers, separator)

    def __iter__(self) -> Iterator[Row | LeftOut]:
        return self.read()

    @property
    def count(self) -> int:
        """About how many rows there are; a line break within quotes begins no row."""
        if self.is_parquet:
            return self._parquet.count
        if self.path.suffix.lower() in WORKBOOKS:
            return sum(1 for _ in workbook_rows(self.path, self._given)) - 1
        with self._lines() as lines:
            _header(self.path, lines, self._given)
            open_quotes, rows = 0, 0
            for line in lines:
                lines.begin_row()
                open_quotes += line.count('"')
                rows += open_quotes % 2 == 0 and not line.isspace()
        return rows
