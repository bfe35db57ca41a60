"""The tables of public sets, plain or gzipped, read row by row; damaged rows are passed on."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from cxrtext.datasets.importing.reading import NotKeptError, Skipped
from cxrtext.errors import DataError
from cxrtext.records import Rejected
from cxrtext.records.decoding import NOT_UTF8, open_text, read_lines, undecoded
from cxrtext.records.parquet_process import CELL_LIMIT
from cxrtext.records.parquet_tables import ParquetTable
from cxrtext.records.rows import RowLines

Made = TypeVar("Made")
Row = tuple[str, dict[str, str]]
"""Where a row stands ("train.csv row 17"), and its cells by column, without space around them."""


def find_table(folder: Path, stem: str) -> Path | None:
    """A table by its name without ending: ``.csv``, ``.csv.gz`` or ``.parquet``."""
    for ending in (".csv", ".csv.gz", ".parquet"):
        path = folder / (stem + ending)
        if path.is_file():
            return path
    return None


def _open(path: Path) -> io.TextIOWrapper:
    raw: io.BufferedReader
    if path.suffix.lower() == ".gz":
        raw = io.BufferedReader(gzip.GzipFile(path))
    else:
        raw = path.open("rb")
    return open_text(raw, str(path))


def columns_of(path: Path) -> tuple[str, ...]:
    """The names in the header of a table; () where there is none.

    Raises:
        DataError: The file cannot be read as text.
    """
    if path.suffix.lower() == ".parquet":
        with ParquetTable(path) as table:
            return table.columns
    csv.field_size_limit(max(csv.field_size_limit(), CELL_LIMIT))
    try:
        with _open(path) as handle:
            header = next(csv.reader(RowLines(read_lines(handle)), strict=True), [])
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: the header is not readable; copy the file again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return tuple(name.strip() for name in header)


def count_rows(path: Path) -> int:
    """About how many rows a table has: its lines, of which a quoted cell may hold several."""
    if path.suffix.lower() == ".parquet":
        with ParquetTable(path) as table:
            return table.count
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    lines = 0
    try:
        with opener(path, "rb") as handle:
            while block := handle.read(1 << 20):
                lines += block.count(b"\n")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass  # reading the rows will say so
    return max(lines - 1, 1)


def read_rows(path: Path, required: Iterable[str] = ()) -> Iterator[Row | Rejected]:
    """Give the rows of a table.

    Raises:
        DataError: The file cannot be read, or a column is missing.
    """
    columns = columns_of(path)
    for name in required:
        if name not in columns:
            # A table without a header has a patient's row where the names should be.
            raise DataError(
                f"{path}: column '{name}' is missing from its first line; is it the right file?"
            )
    if path.suffix.lower() == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        with _open(path) as handle:
            yield from _csv_rows(path.name, columns, RowLines(read_lines(handle)))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: the compressed file is cut off or damaged; copy it again") from (
            None
        )


def map_rows(
    path: Path, required: Iterable[str], make: Callable[[str, dict[str, str]], Made]
) -> Iterator[Made | Skipped | Rejected]:
    """Give what is made of where a row stands and its cells, or why nothing is.

    Raises:
        DataError: As :func:`read_rows`.
    """
    for row in read_rows(path, required):
        if isinstance(row, Rejected):
            yield row
            continue
        try:
            yield make(*row)
        except NotKeptError as error:
            yield error.entry


def _parquet_rows(path: Path) -> Iterator[Row | Rejected]:
    with ParquetTable(path) as table:
        for number, cells in enumerate(table.rows(), 1):
            item = f"{path.name} row {number}"
            if any(map(undecoded, cells)):
                yield Rejected(item, NOT_UTF8)
            else:
                yield item, dict(zip(table.columns, map(str.strip, cells), strict=True))


def _csv_rows(name: str, columns: tuple[str, ...], lines: RowLines) -> Iterator[Row | Rejected]:
    reader = csv.reader(lines, strict=True)
    next(reader, None)
    number = 0
    while True:
        lines.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            number += 1
            yield Rejected(f"{name} row {number}", "its quotes are broken; quote the cell again")
            lines.go_back()
            reader = csv.reader(lines, strict=True)
            continue
        if not any(map(str.strip, cells)):
            continue
        number += 1
        yield _checked(f"{name} row {number}", columns, cells)


def _checked(item: str, columns: tuple[str, ...], cells: list[str]) -> Row | Rejected:
    # Rows and headers of some sets end in commas, not always equally many.
    width = len(columns)
    if len(cells) < width and not any(columns[len(cells) :]):
        cells = cells + [""] * (width - len(cells))
    if len(cells) < width or any(cells[width:]):
        return Rejected(item, f"{len(cells)} cells where the header has {width}; fix the row")
    if any(map(undecoded, cells)):
        return Rejected(item, NOT_UTF8)
    values = ("" if cell in ("nan", "NaN") else cell.strip() for cell in cells)
    return item, dict(zip(columns, values, strict=False))
