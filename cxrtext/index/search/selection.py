"""Filters at work: the images that they leave, and the columns that they can name."""

from collections import Counter
from collections.abc import Iterator, Sequence
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


def columns_of(parts: Sequence[Index]) -> list[Column]:
    """The columns that every one of some indexes has, in the order of the first."""
    cells = [_cells(part.catalogue) for part in parts]
    names = [name for name in cells[0] if all(name in one for one in cells)]
    return [
        _column(name, [(p.catalogue, one[name]) for p, one in zip(parts, cells, strict=True)])
        for name in names
    ]


def _cells(catalogue: Catalogue) -> dict[str, str]:
    """SQL of the columns, by name."""
    # Slots are numbers of the catalogue's own; nothing of a name is part of the SQL.
    cells = {name: f"images.{name}" for name in (*TEXT_COLUMNS, *NUMBER_COLUMNS)}
    return cells | {n: f"attributes.c{int(slot)}" for n, slot in catalogue.columns().items()}


def _column(name: str, cells: Sequence[tuple[Catalogue, str]]) -> Column:
    filled = numbers = 0
    ends: list[Number] = []
    counts: Counter[str] = Counter()
    for catalogue, cell in cells:
        table = cell.partition(".")[0]
        number = f"typeof({cell}) IN ('integer', 'real')"
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
                counts.update({str(value): count for value, count in texts})
        filled, numbers = filled + int(row[0]), numbers + int(row[1])
        ends += (end for end in row[2:] if end is not None)
    if name in TEXT_COLUMNS or numbers < filled:
        commonest = sorted(counts, key=lambda value: (-counts[value], value))[:MAX_VALUES]
        return Column(name, "text", values=tuple(commonest))
    return Column(name, "number", min(ends), max(ends)) if ends else Column(name, "text")
