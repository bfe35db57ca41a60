"""CSV tables of text read row by row; a broken row is set aside and does not take others along."""

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records.csv_recovery import ROW_LIMIT, RowLines, StudyIds
from cxrtext.records.rejects import BadItem
from cxrtext.records.tables import CELL_LIMIT
from cxrtext.records.text_files import NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.text_rows import Row, choose_columns, read_items
from cxrtext.records.text_source import StreamedSource

PASSED_OVER = 1_000
"""Most lines that one message accounts for after a broken row."""

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def _broken(row: int, first: int, last: int) -> BadItem:
    lines = f"line {first} was" if first == last else f"lines {first} to {last} were"
    return BadItem(
        f"row {row}",
        f"a quote is not closed or not doubled, or the row is longer than {ROW_LIMIT:,} "
        f"characters; {lines} passed over: quote the cell and double every quote in it",
    )


class _Rows:
    """The rows after the header, or what was set aside instead of them."""

    def __init__(self, lines: RowLines, columns: Sequence[str]) -> None:
        self._lines = lines
        self._width = len(columns)
        self._id = columns.index("study_id") if "study_id" in columns else None
        self._ids = StudyIds()

    def _plausible(self, cells: list[str]) -> bool:
        """Whether a line within or after a broken row begins a row, rather than is report text."""
        if len(cells) != self._width or self._id is None:
            return len(cells) == self._width
        return self._ids.fits(cells[self._id].strip())

    def _good(self, cells: list[str]) -> None:
        if self._id is not None and cells[self._id].strip():
            self._ids.learn(cells[self._id].strip())

    def __iter__(self) -> Iterator[tuple[int, list[str]] | BadItem]:
        lines, row, broken = self._lines, 0, 0  # broken: the line where a broken row begins
        reader = csv.reader(lines, strict=True)
        while True:
            lines.begin_row()
            first = lines.number + 1
            try:
                cells: list[str] | None = next(reader)
            except StopIteration:
                break
            except csv.Error:
                cells = None
            if cells == []:
                continue
            if cells is None or (broken and not self._plausible(cells)):
                lines.go_back()
                if not broken:
                    row, broken = row + 1, first
                elif first - broken >= PASSED_OVER:
                    yield _broken(row, broken, first - 1)
                    row, broken = row + 1, first
                continue
            if broken:
                yield _broken(row, broken, first - 1)
                broken = 0
            row += 1
            if not any(map(str.strip, cells)):
                continue  # spreadsheets leave rows of nothing but commas
            if len(cells) == self._width:
                self._good(cells)
                yield row, cells
            else:
                yield BadItem(
                    f"row {row}",
                    f"{len(cells)} cells where the header has {self._width} (line {first}); quote "
                    "cells that hold a comma or a line break",
                )
        if broken:
            yield _broken(row, broken, lines.number)


def _header(path: Path, lines: RowLines) -> list[str]:
    try:
        columns = next(csv.reader(lines, strict=True), [])
    except csv.Error:
        raise DataError(
            f"{path}: the header is not readable: a quote in it is not closed, or it is longer "
            f"than {ROW_LIMIT:,} characters"
        ) from None
    if not columns:
        raise DataError(f"{path}: the first line is empty; a table begins with column names")
    if any(map(undecoded, columns)):
        raise DataError(f"{path}: the header is {NOT_UTF8}")
    if len(columns) == 1:
        for separator, name in _SEPARATORS.items():
            if separator in columns[0]:
                raise DataError(
                    f"{path}: the columns are separated by {name}; save the table separated by "
                    "commas (CSV in UTF-8)"
                )
    return columns


def _rows(path: Path, wanted: Sequence[str]) -> Iterator[Row | BadItem]:
    with path.open("rb") as raw, open_text(raw, str(path)) as handle:
        lines = RowLines(read_lines(handle))
        columns = _header(path, lines)
        places = [(name, columns.index(name)) for name in wanted]
        for entry in _Rows(lines, columns):
            if isinstance(entry, BadItem):
                yield entry
            else:
                row, cells = entry
                yield row, {name: cells[place] for name, place in places}


def open_csv(path: Path) -> StreamedSource:
    """Open a CSV table of reports or sentences.

    A row is set aside where its bytes are not UTF-8, its cells are too many or too few, or its
    quotes are broken.  After broken quotes reading goes on at the next line that can begin a row:
    one with as many cells as the header and a study_id that looks like those before it.

    Args:
        path: The file: UTF-8, or UTF-16 with its mark.

    Raises:
        DataError: The file is empty, has no rows, no header of accepted columns, or is no CSV.
    """
    if not path.stat().st_size:
        raise DataError(f"{path}: the file is empty")
    csv.field_size_limit(max(csv.field_size_limit(), CELL_LIMIT))
    with path.open("rb") as raw, open_text(raw, str(path)) as handle:
        columns = _header(path, RowLines(read_lines(handle)))
    holds, wanted = choose_columns(str(path), columns)
    if next(_rows(path, wanted), None) is None:
        raise DataError(f"{path}: the table has no rows")
    return StreamedSource(
        str(path),
        holds,
        digest=partial(sha256, path),
        items=lambda: read_items(holds, _rows(path, wanted)),
    )
