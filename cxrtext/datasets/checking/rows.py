"""Rows of CSV and Parquet tables, one at a time, going on past the bad ones."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import check_listed
from cxrtext.records.parquet_tables import ParquetError, ParquetTable
from cxrtext.records.tables import CELL_LIMIT

Cells = dict[str, str]

_NAME = re.compile(r"[A-Za-z_][\w ]{0,39}")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read.

    Args:
        row: Its number, the first after the header being 1.
        reason: What is wrong.
    """

    row: int
    reason: str


class Rows:
    """A table that is read anew by each loop over it, holding little of it in memory.

    Args:
        path: A file ending in ``.csv`` or ``.parquet``.

    Raises:
        DataError: It is missing, unreadable, of another kind, or has a column twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise DataError(f"{path}: a table ends in .csv or .parquet; save it as one of these")
        check_listed(path, DataError)
        self.columns = self._columns()
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            name = f"'{twice[0]}'" if _NAME.fullmatch(twice[0]) else "of one name"
            raise DataError(f"{path}: column {name} occurs more than once; keep one of them")

    def require(self, *columns: str) -> None:
        """Check that columns are there.

        Raises:
            DataError: One is not.
        """
        for name in columns:
            if name not in self.columns:
                raise DataError(f"{self.path}: column '{name}' is missing ({self._found()})")

    def _found(self) -> str:
        # A table without a header has report text where the names should be.
        if all(map(_NAME.fullmatch, self.columns)):
            return f"columns found: {', '.join(self.columns[:40]) or 'none'}"
        return f"{len(self.columns)} columns found, not all of them names; is the header missing?"

    def __iter__(self) -> Iterator[tuple[int, Cells] | BadRow]:
        yield from self._parquet() if self._is_parquet() else self._csv()

    def _is_parquet(self) -> bool:
        return self.path.suffix.lower() == ".parquet"

    def _columns(self) -> tuple[str, ...]:
        if self._is_parquet():
            with ParquetTable(self.path) as table:
                return table.columns
        try:
            with self.path.open(encoding="utf-8-sig", newline="", errors="replace") as handle:
                return tuple(next(csv.reader(handle), ()))
        except csv.Error as error:
            raise DataError(f"{self.path}: not a readable CSV file ({error})") from None
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror})") from None

    def _csv(self) -> Iterator[tuple[int, Cells] | BadRow]:
        csv.field_size_limit(CELL_LIMIT)
        number = 0
        with self.path.open(encoding="utf-8-sig", newline="", errors="surrogateescape") as handle:
            reader = csv.reader(handle, strict=True)
            next(reader, None)
            while True:
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    number += 1
                    yield BadRow(number, f"not readable as CSV ({error})")
                    continue
                if cells is None:
                    return
                if cells:
                    number += 1
                    yield self._row(number, cells)

    def _row(self, number: int, cells: Sequence[str]) -> tuple[int, Cells] | BadRow:
        if len(cells) != len(self.columns):
            return BadRow(number, f"has {len(cells)} cells, the header {len(self.columns)}")
        if any(not cell.isascii() and _undecoded(cell) for cell in cells):
            return BadRow(number, "is not UTF-8 text")
        return number, dict(zip(self.columns, map(_blank_nan, cells), strict=True))

    def _parquet(self) -> Iterator[tuple[int, Cells] | BadRow]:
        number = 0
        try:
            with ParquetTable(self.path) as table:
                for cells in table.rows():
                    number += 1
                    yield self._row(number, cells)
        except ParquetError as error:
            yield BadRow(number + 1, f"cannot be read, nor what follows: {error.reason}")


def _undecoded(cell: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in cell)


def _blank_nan(cell: str) -> str:
    return "" if cell in ("nan", "NaN") else cell
