"""Rows of CSV and Parquet tables, one at a time, going on past the bad ones."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records import BadItem, TableRows
from cxrtext.records.parquet_tables import ParquetError

Cells = dict[str, str]

_NAME = re.compile(r"[A-Za-z_][\w ]{0,39}")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read: its number, the first after the header being 1, and why."""

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
        self._table = TableRows(path)
        self.columns = self._table.columns
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            name = f"'{twice[0]}'" if _NAME.fullmatch(twice[0]) else "of one name"
            raise DataError(f"{path}: column {name} occurs more than once; keep one of them")

    def require(self, *columns: str) -> None:
        """Raise a DataError for a column that is missing."""
        for name in columns:
            if name not in self.columns:
                raise DataError(f"{self.path}: column '{name}' is missing ({self._found()})")

    def _found(self) -> str:
        # A table without a header has report text where the names should be.
        if all(map(_NAME.fullmatch, self.columns)):
            return f"columns found: {', '.join(self.columns[:40]) or 'none'}"
        return f"{len(self.columns)} columns found, not all of them names; is the header missing?"

    def __iter__(self) -> Iterator[tuple[int, Cells] | BadRow]:
        number = 0
        try:
            for entry in self._table:
                if isinstance(entry, BadItem):
                    number = int(entry.item.removeprefix("row "))
                    yield BadRow(number, entry.reason)
                else:
                    number = entry[0]
                    yield entry
        except ParquetError as error:
            yield BadRow(number + 1, f"cannot be read, nor what follows: {error.reason}")
