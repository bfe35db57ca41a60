"""Filters at work: the images that they leave, and the columns that they can name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cxrtext.errors import HeldError
from cxrtext.index.search.filter import ID_COLUMNS, NUMBER_COLUMNS, TEXT_COLUMNS, Condition, parse
from cxrtext.index.search.index import Index
from cxrtext.index.store.catalogue import LABEL, UNLIKE, Catalogue, sqlite_errors
from cxrtext.index.store.snapshot import Numbers, Snapshot
from cxrtext.pausing import Pausing

CELLS_AT_ONCE = 200_000  # cells that a filter looks at between two pauses

MAX_VALUES = 20

Number = int | float


@dataclass(frozen=True, slots=True)
class View:
    """An index at one moment, and the places in it that a search looks at, in rising order."""

    part: Index
    snapshot: Snapshot
    places: Numbers


def views_of(
    parts: Sequence[Index], where: str | None, exclude_patients: Sequence[str], views: list[View]
) -> Pausing[None]:
    """Add a view of each index, as it is now, to those there; work that pauses (DataError)."""
    for part, snapshot in [(part, part.snapshot) for part in parts]:
        places = yield from select(part.catalogue, snapshot, where, exclude_patients)
        views.append(View(part, snapshot, places))


def select(
    catalogue: Catalogue,
    snapshot: Snapshot,
    where: str | None = None,
    exclude_patients: Sequence[str] = (),
) -> Pausing[Numbers]:
    """Places of the images that a filter leaves, in rising order; work that pauses (DataError)."""
    places = snapshot.live
    if where is not None:
        query = "SELECT number FROM images LEFT JOIN attributes USING (number)"
        numbers = yield from _filtered(catalogue, snapshot, where, query)
        places = snapshot.places_of(np.array(numbers, dtype=np.int64))
    if exclude_patients:
        out: list[int] = []
        for patient in exclude_patients:
            query = "SELECT number FROM images WHERE patient_id = ?"
            out += (number for (number,) in catalogue.database.execute(query, (patient,)))
        places = places[~np.isin(snapshot.numbers[places], np.array(out, dtype=np.int64))]
    return places


def sentences_of(catalogue: Catalogue, snapshot: Snapshot, where: str) -> Pausing[set[int]]:
    """Numbers of the sentences that studies with an image that passes a filter say (DataError)."""
    query = (
        "SELECT DISTINCT sentence FROM images LEFT JOIN attributes USING (number) "
        "JOIN said USING (study_id)"
    )
    return set((yield from _filtered(catalogue, snapshot, where, query)))


def _filtered(
    catalogue: Catalogue, snapshot: Snapshot, where: str, query: str
) -> Pausing[list[int]]:
    """What a query gives of the images that pass a filter, a range of them at a time."""
    found: list[int] = []
    for some in _parts(snapshot, parse(where, catalogue.columns())):
        # In one view: a slot may be given to another column between the two.
        with sqlite_errors(catalogue.path), catalogue.transaction() as database:
            condition = parse(where, catalogue.columns())
            _require_same_model(catalogue, snapshot, where)
            rows = database.execute(
                f"{query} WHERE images.number BETWEEN ? AND ? AND ({condition.sql})",
                (*some, *condition.values),
            )
            found += (number for (number,) in rows)
        yield
    return found


def _require_same_model(catalogue: Catalogue, snapshot: Snapshot, where: str) -> None:
    """Refuse to filter by what another model than the snapshot's says (HeldError)."""
    names_labels = LABEL in where.lower() or UNLIKE in where.lower()
    if names_labels and catalogue.meta().get("model") != snapshot.meta["model"]:
        raise HeldError("the index is turning to another model; ask again in a moment")


def _parts(snapshot: Snapshot, condition: Condition) -> Iterator[tuple[int, int]]:
    """Ranges of numbers that together hold all images, each of bounded work for a filter."""
    step = max(1, CELLS_AT_ONCE // (1 + len(condition.values)))
    last = int(snapshot.numbers.max(initial=-1))
    for start in range(0, last + 1, step):
        yield start, start + step - 1


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


@dataclass(frozen=True, slots=True)
class ColumnCells:
    """What is in a column of an index, as it is added to that of others."""

    name: str
    filled: int  # cells that are not empty
    numbers: int  # those of them that are numbers
    ends: Sequence[Number]  # the least and the greatest of these
    counts: Mapping[str, int]  # of the commonest texts


def columns_of(parts: Sequence[Index]) -> list[Column]:
    """The columns that every one of some indexes has, in the order of the first."""
    return merged_columns([_columns(part.catalogue) for part in parts])


def column_cells(parts: Sequence[Index]) -> list[ColumnCells]:
    """The same, to be merged with those of other archives."""
    return _in_all([_columns(part.catalogue) for part in parts])


def merged_columns(indexes: Sequence[Sequence[ColumnCells]]) -> list[Column]:
    """The columns that every one of some indexes has, in the order of the first."""
    return [_column(cells) for cells in _in_all(indexes)]


def _in_all(indexes: Sequence[Sequence[ColumnCells]]) -> list[ColumnCells]:
    by_name = [{cells.name: cells for cells in columns} for columns in indexes]
    names = [name for name in by_name[0] if all(name in one for one in by_name)]
    return [_together([one[name] for one in by_name]) for name in names]


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


def _cells(catalogue: Catalogue) -> dict[str, str]:
    """SQL of the columns, by name."""
    # Slots are numbers of the catalogue's own; nothing of a name is part of the SQL.
    cells = {name: f"images.{name}" for name in (*TEXT_COLUMNS, *NUMBER_COLUMNS)}
    return cells | {n: f"attributes.c{int(slot)}" for n, slot in catalogue.columns().items()}


def _columns(catalogue: Catalogue) -> list[ColumnCells]:
    return [_cells_of(catalogue, name, cell) for name, cell in _cells(catalogue).items()]


def _cells_of(catalogue: Catalogue, name: str, cell: str) -> ColumnCells:
    table = cell.partition(".")[0]
    number = f"typeof({cell}) IN ('integer', 'real')"
    counts: dict[str, int] = {}
    with sqlite_errors(catalogue.path):
        (row,) = catalogue.database.execute(
            f"SELECT count({cell}), total({number} AND {cell} IS NOT NULL), "  # noqa: S608
            f"min(CASE WHEN {number} THEN {cell} END), max(CASE WHEN {number} THEN {cell} END) "
            f"FROM {table}"
        ).fetchall()
        if name not in ID_COLUMNS and row[0] > row[1]:
            texts = catalogue.database.execute(
                f"SELECT {cell}, count(*) FROM {table} WHERE {cell} IS NOT NULL "  # noqa: S608
                f"AND {cell} != '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MAX_VALUES}"
            ).fetchall()
            counts = {str(value): count for value, count in texts}
    ends = [end for end in row[2:] if end is not None]
    return ColumnCells(name, int(row[0]), int(row[1]), ends, counts)


def _column(cells: ColumnCells) -> Column:
    name, ends, counts = cells.name, cells.ends, cells.counts
    if name in TEXT_COLUMNS or cells.numbers < cells.filled:
        commonest = sorted(counts, key=lambda value: (-counts[value], value))[:MAX_VALUES]
        return Column(name, "text", values=tuple(commonest))
    return Column(name, "number", min(ends), max(ends)) if ends else Column(name, "text")
