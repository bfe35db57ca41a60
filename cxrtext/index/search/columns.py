"""The columns that filters can name, with what is in them."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import numpy as np

from cxrtext.index.search.filter import Test, as_cell
from cxrtext.index.search.index import Index
from cxrtext.index.store.catalogue import ID_COLUMNS, TEXT_COLUMNS, catalogue_errors, cells_of
from cxrtext.index.store.columns import NAME
from cxrtext.index.store.columns import Column as Cells
from cxrtext.index.store.snapshot import Numbers, Snapshot

MAX_VALUES = 20

Number = int | float


@dataclass(frozen=True, slots=True)
class Column:
    """A column that filters can name, with its commonest values if it holds text.

    A column whose cells name an image, a study or a patient has none of these.
    """

    name: str
    kind: Literal["number", "text"]  # "number" where every cell that is not empty is one
    least: Number | None = None  # the least number; None for text, and where all cells are empty
    most: Number | None = None
    values: tuple[str, ...] = ()  # the commonest first, at most 20

    def instead_of(self, test: Test) -> str:
        """What it holds, where a test asks for a value that it has nowhere; else ""."""
        if self.kind == "number" and any(isinstance(as_cell(str(v)), str) for v in test.values):
            return f"numbers, {self.least} to {self.most}"
        are_all = test.operator in ("=", "IN") and len(self.values) < MAX_VALUES
        if are_all and not {*map(str, test.values)} & {*self.values}:
            return ", ".join(f"'{value}'" for value in self.values)
        return ""


@dataclass(slots=True)
class ColumnCells:
    """What is in a column of an index, as it is added to that of others."""

    name: str
    filled: int = 0  # cells that are not empty
    numbers: int = 0  # those of them that are numbers
    ends: Sequence[Number] = ()  # among them the least and the greatest of these
    counts: Mapping[str, int] = field(default_factory=Counter)  # of the commonest texts


def columns_of(index: Index, snapshot: Snapshot) -> list[Column]:
    return [_column(cells) for cells in _columns(index, snapshot)]


def _together(columns: Sequence[ColumnCells]) -> ColumnCells:
    counts: Counter[str] = Counter()
    for cells in columns:
        counts.update(cells.counts)
    return ColumnCells(
        columns[0].name,
        sum(cells.filled for cells in columns),
        sum(cells.numbers for cells in columns),
        [end for cells in columns for end in cells.ends],
        counts,
    )


def _column(cells: ColumnCells) -> Column:
    name, ends, counts = cells.name, cells.ends, cells.counts
    if name in TEXT_COLUMNS or cells.numbers < cells.filled:
        commonest = sorted(counts, key=lambda value: (-counts[value], value))[:MAX_VALUES]
        return Column(name, "text", values=tuple(commonest))
    return Column(name, "number", min(ends), max(ends)) if ends else Column(name, "text")


def _columns(index: Index, snapshot: Snapshot) -> list[ColumnCells]:
    catalogue, columns = index.catalogue, snapshot.columns
    with catalogue_errors(catalogue.path), catalogue.transaction() as database:
        cells = cells_of(catalogue.columns())
        digest = database.execute("SELECT digest FROM structures WHERE name = ?", (NAME,))
        if columns is None or digest.fetchone() != (columns.digest,):
            return [_of_rows(database, name, cell) for name, cell in cells.items()]
        rows = database.execute("SELECT number FROM recent").fetchall()
        recent = np.array(rows, dtype=np.int64).reshape(-1)
        older = snapshot.numbers[: columns.places] >= 0
        places = snapshot.places_of(recent)
        older[places[places < len(older)]] = False
        chosen = None if older.all() else np.flatnonzero(older)
        found = []
        for name, cell in cells.items():
            where = "WHERE number IN (SELECT number FROM recent)"
            one = _of_rows(database, name, cell, where) if len(recent) else ColumnCells(name)
            codes = columns[name]
            found.append(one if codes is None else _together([one, _of_codes(one, codes, chosen)]))
        return found


def _of_rows(database: sqlite3.Connection, name: str, cell: str, where: str = "") -> ColumnCells:
    table = cell.partition(".")[0]
    number = f"typeof({cell}) IN ('integer', 'real')"
    row = database.execute(
        f"SELECT count({cell}), total({number} AND {cell} IS NOT NULL), "  # noqa: S608
        f"min(CASE WHEN {number} THEN {cell} END), max(CASE WHEN {number} THEN {cell} END) "
        f"FROM {table} {where}"
    ).fetchone()
    ends = [end for end in row[2:] if end is not None]
    counts: Mapping[str, int] = {}
    if name not in ID_COLUMNS and (where or row[0] > row[1]):
        rows = database.execute(
            f"SELECT CAST({cell} AS TEXT) AS text, count(*) FROM {table} {where} "  # noqa: S608
            "GROUP BY 1 HAVING text != '' ORDER BY 2 DESC, 1"
        )
        counts = dict(rows if where else islice(rows, MAX_VALUES))
    return ColumnCells(name, int(row[0]), int(row[1]), ends, counts)


def _of_codes(recent: ColumnCells, cells: Cells, places: Numbers | None) -> ColumnCells:
    """What is in a column beside the vectors, at some places or at all.

    The texts of recent images are counted, too, however rare they are.
    """
    codes = cells.codes if places is None else cells.codes[places]
    counts = np.bincount(codes, minlength=cells.distinct)[1:]
    of_numbers, of_texts = np.split(counts, [len(cells.numbers)])
    present = cells.numbers[of_numbers > 0]
    name, filled, numbers = recent.name, int(counts.sum()), int(of_numbers.sum())
    ends = [present[0].item(), present[-1].item()] if len(present) else []
    found: dict[str, int] = {}
    if name not in ID_COLUMNS and recent.numbers + numbers < recent.filled + filled:
        known = set(np.argsort(-of_texts, kind="stable")[:MAX_VALUES].tolist())
        known |= {at for text in recent.counts if (at := cells.texts.find(text)) is not None}
        found = {cells.texts[at]: int(of_texts[at]) for at in known}
        if cells.as_texts is not None:
            found |= dict(zip(cells.as_texts, of_numbers.tolist(), strict=True))
    found.pop("", None)
    return ColumnCells(
        name, filled, numbers, ends, {t: count for t, count in found.items() if count}
    )
