"""The tables of public sets, plain or gzipped, read row by row; damaged rows are passed on."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from cxrtext.datasets.importing.reading import NotKeptError, Skipped
from cxrtext.errors import DataError
from cxrtext.records import Rejected, TableRows
from cxrtext.records.parquet_tables import ParquetTable

Made = TypeVar("Made")
Row = tuple[str, dict[str, str]]
"""Where a row stands ("train.csv row 17"), and its cells by column, without space around them."""


def find_table(folder: Path, *stems: str) -> Path | None:
    """The first table of some names without ending: ``.csv``, ``.csv.gz`` or ``.parquet``."""
    paths = (folder / (s + end) for s in stems for end in (".csv", ".csv.gz", ".parquet"))
    return next((path for path in paths if path.is_file()), None)


def columns_of(path: Path) -> tuple[str, ...]:
    """The names in the header of a table; () where there is none that can be read."""
    try:
        return tuple(name.strip() for name in TableRows(path).columns)
    except DataError:
        return ()


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
    """Give the rows of a table; one that is unreadable, or lacks a column, raises a DataError."""
    table = TableRows(path)
    columns = [name.strip() for name in table.columns]
    for name in required:
        if name not in columns:
            # A table without a header has a patient's row where the names should be.
            raise DataError(
                f"{path}: column '{name}' is missing from its first line; is it the right file?"
            )
    for entry in table:
        if isinstance(entry, Rejected):
            yield Rejected(f"{path.name} {entry.item}", entry.reason)
        else:
            number, cells = entry
            row = {name.strip(): text.strip() for name, text in cells.items()}
            yield f"{path.name} row {number}", row


def map_rows(
    path: Path, required: Iterable[str], make: Callable[[str, dict[str, str]], Made]
) -> Iterator[Made | Skipped | Rejected]:
    """Give what is made of where a row stands and its cells, or why nothing is; see `read_rows`."""
    for row in read_rows(path, required):
        if isinstance(row, Rejected):
            yield row
            continue
        try:
            yield make(*row)
        except NotKeptError as error:
            yield error.entry
