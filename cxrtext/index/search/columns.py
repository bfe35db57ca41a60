"""The columns that filters can name, and what they hold."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

from cxrtext.index.search.filter import Test, as_cell
from cxrtext.index.store.catalogue import (
    ID_COLUMNS,
    Catalogue,
    catalogue_errors,
    cells_of,
)

MAX_VALUES = 20

Number = int | float


@dataclass(frozen=True, slots=True)
class Column:
    """A column that filters can name, with its most common values if it holds text.

    A column that names images, studies or patients gives no values.
    """

    name: str
    kind: Literal["number", "text"]  # "number" if all cells are numbers or empty
    least: Number | None = None  # the least number; None for text, and if all cells are empty
    most: Number | None = None
    values: tuple[str, ...] = ()  # the most common first, at most 20

    def instead_of(self, test: Test) -> str:
        """What it holds if a test asks for a value that it does not have; else ""."""
        if self.kind == "number" and any(isinstance(as_cell(str(v)), str) for v in test.values):
            return f"numbers, {self.least} to {self.most}"
        are_all = test.operator in ("=", "IN") and len(self.values) < MAX_VALUES
        if are_all and not {*map(str, test.values)} & {*self.values}:
            return ", ".join(f"'{value}'" for value in self.values)
        return ""


def columns_of(catalogue: Catalogue) -> list[Column]:
    with catalogue_errors(catalogue.path), catalogue.transaction() as database:
        cells = cells_of(catalogue.columns())
        return [_column(database, name, cell) for name, cell in cells.items()]


def _column(database: sqlite3.Connection, name: str, cell: str) -> Column:
    table = cell.partition(".")[0]
    if name in ID_COLUMNS:
        return Column(name, "text")
    # SQLite sorts numbers before texts, so the greatest cell is a text if there is any.
    least, most = database.execute(f"SELECT min({cell}), max({cell}) FROM {table}").fetchone()  # noqa: S608
    if most is None or not isinstance(most, str):
        return Column(name, "text" if most is None else "number", least, most)
    rows = database.execute(
        f"SELECT CAST({cell} AS TEXT) AS text FROM {table} "  # noqa: S608
        "GROUP BY 1 HAVING text != '' ORDER BY count(*) DESC, 1 LIMIT ?",
        (MAX_VALUES,),
    )
    return Column(name, "text", values=tuple(text for (text,) in rows))
