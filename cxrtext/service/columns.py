"""The columns that filters can name, with what is in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cxrtext.index import Index
from cxrtext.index.catalogue import Catalogue, told
from cxrtext.index.where import ID_COLUMNS, NUMBER_COLUMNS, TEXT_COLUMNS

MOST_VALUES = 20
Number = int | float


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Args:
        name: As filters write it.
        kind: "number" where every cell that is not empty is one, else "text".
        least: The least number; None for text, and where all cells are empty.
        most: The greatest number.
        values: The commonest values of text, the commonest first, at most 20; none of a column
            whose cells name an image, a study or a patient.
    """

    name: str
    kind: Literal["number", "text"]
    least: Number | None = None
    most: Number | None = None
    values: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    """One column of one index: filled cells, numbers among them, their range, and texts."""

    filled: int
    numbers: int
    least: Number | None
    most: Number | None
    counts: dict[str, int]


def columns_of(parts: Sequence[Index]) -> list[Column]:
    """The columns that every one of some indexes has, in the order of the first."""
    seen = [_columns(part.catalogue) for part in parts]
    names = [name for name in seen[0] if all(name in one for one in seen)]
    return [_column(name, [one[name] for one in seen]) for name in names]


def _columns(catalogue: Catalogue) -> dict[str, _Seen]:
    places = {name: f"images.{name}" for name in (*TEXT_COLUMNS, *NUMBER_COLUMNS)}
    # Slots are numbers of the catalogue's own; nothing of a name is part of the SQL.
    places |= {name: f"attributes.c{int(slot)}" for name, slot in catalogue.columns().items()}
    return {name: _look(catalogue, name, place) for name, place in places.items()}


def _look(catalogue: Catalogue, name: str, place: str) -> _Seen:
    table = place.partition(".")[0]
    number = f"typeof({place}) IN ('integer', 'real')"
    with told(catalogue.path):
        (row,) = catalogue.database.execute(
            f"SELECT count({place}), total({number} AND {place} IS NOT NULL), "  # noqa: S608
            f"min(CASE WHEN {number} THEN {place} END), max(CASE WHEN {number} THEN {place} END) "
            f"FROM {table}"
        ).fetchall()
        texts: list[tuple[object, int]] = []
        if name not in ID_COLUMNS and row[0] > row[1]:
            texts = catalogue.database.execute(
                f"SELECT {place}, count(*) FROM {table} WHERE {place} IS NOT NULL "  # noqa: S608
                f"AND {place} != '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST_VALUES}"
            ).fetchall()
    counts = {str(value): count for value, count in texts}
    return _Seen(int(row[0]), int(row[1]), row[2], row[3], counts)


def _column(name: str, seen: Sequence[_Seen]) -> Column:
    filled = sum(one.filled for one in seen)
    if name in TEXT_COLUMNS or sum(one.numbers for one in seen) < filled:
        counts: dict[str, int] = {}
        for one in seen:
            for value, count in one.counts.items():
                counts[value] = counts.get(value, 0) + count
        commonest = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES]
        return Column(name, "text", values=tuple(commonest))
    least = [one.least for one in seen if one.least is not None]
    most = [one.most for one in seen if one.most is not None]
    if not least or not most:
        return Column(name, "text")
    return Column(name, "number", min(least), max(most))
