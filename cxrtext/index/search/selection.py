"""Filters at work: the images that they leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cxrtext.errors import HeldError
from cxrtext.index.search.filter import Condition, parse
from cxrtext.index.search.index import Index
from cxrtext.index.search.truth import true_places
from cxrtext.index.store.catalogue import UNLIKE, Catalogue, catalogue_errors
from cxrtext.index.store.snapshot import Numbers, Snapshot
from cxrtext.pausing import Pausing
from cxrtext.records.manifest import LABEL

CELLS_AT_ONCE = 200_000  # cells that a filter looks at between two pauses


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
        places = yield from _passing(catalogue, snapshot, where)
    if exclude_patients:
        out: list[int] = []
        for patient in exclude_patients:
            query = "SELECT number FROM images WHERE patient_id = ?"
            out += (number for (number,) in catalogue.database.execute(query, (patient,)))
        places = _without(places, snapshot.places_of(np.array(out, dtype=np.int64)), snapshot)
    return places


def sentences_of(catalogue: Catalogue, snapshot: Snapshot, where: str) -> Pausing[set[int]]:
    """Numbers of the sentences that studies with an image that passes a filter say (DataError)."""
    query = (
        "SELECT DISTINCT sentence FROM images LEFT JOIN attributes USING (number) "
        "JOIN said USING (study_id)"
    )
    return set((yield from _by_rows(catalogue, snapshot, where, query)))


def _passing(catalogue: Catalogue, snapshot: Snapshot, where: str) -> Pausing[Numbers]:
    """Places of the images that pass a filter, in rising order."""
    recent = _recent(catalogue, snapshot, where)
    if recent is not None:
        places = yield from _by_columns(recent, snapshot)
        return places
    query = "SELECT number FROM images LEFT JOIN attributes USING (number)"
    numbers = yield from _by_rows(catalogue, snapshot, where, query)
    return snapshot.places_of(np.array(numbers, dtype=np.int64))


def _without(places: Numbers, others: Numbers, snapshot: Snapshot) -> Numbers:
    """Places less some others."""
    stays = np.ones(len(snapshot.numbers), dtype=bool)
    stays[others] = False
    return places[stays[places]]


@dataclass(frozen=True, slots=True)
class _Recent:
    """What a file of columns says of a filter, and what SQLite says where the file is too old."""

    true: Iterator[Numbers]  # places, a range of them at a time
    numbers: Numbers  # of the images that the file is too old for
    passing: Numbers  # of those of them that pass


def _recent(catalogue: Catalogue, snapshot: Snapshot, where: str) -> _Recent | None:
    """Ask both, in one view of the catalogue; None where all rows have to be read."""
    columns = snapshot.columns
    if columns is None:
        return None
    with catalogue_errors(catalogue.path), catalogue.transaction() as database:
        condition = parse(where, catalogue.columns())
        _require_same_model(catalogue, snapshot, where)
        named = "SELECT 1 FROM structures WHERE name = 'columns' AND digest = ?"
        if not database.execute(named, (columns.digest,)).fetchone():
            return None  # a writer has given the file up since
        true = true_places(condition.tree, columns)
        if true is None:
            return None
        numbers = database.execute("SELECT number FROM recent").fetchall()
        # Joined with the table, SQLite would read every row for some filters.
        passing = database.execute(
            "SELECT number FROM images LEFT JOIN attributes USING (number) "  # noqa: S608
            f"WHERE images.number IN (SELECT number FROM recent) AND ({condition.sql})",
            condition.values,
        ).fetchall()
        return _Recent(true, _flat(numbers), _flat(passing))


def _flat(rows: list[tuple[int]]) -> Numbers:
    return np.array(rows, dtype=np.int64).reshape(-1)


def _by_columns(recent: _Recent, snapshot: Snapshot) -> Pausing[Numbers]:
    """Places of the images that pass, those of recent cells by what SQLite says."""
    passes = np.zeros(len(snapshot.numbers), dtype=bool)
    for places in recent.true:
        # A view that is older than the file has fewer places.
        passes[places[places < len(passes)]] = True
        yield
    passes[snapshot.places_of(recent.numbers)] = False
    passes[snapshot.places_of(recent.passing)] = True
    passes &= snapshot.numbers >= 0
    return np.flatnonzero(passes)


def _by_rows(
    catalogue: Catalogue, snapshot: Snapshot, where: str, query: str
) -> Pausing[list[int]]:
    """What a query gives of the images that pass a filter, a range of them at a time."""
    found: list[int] = []
    for some in _parts(snapshot, parse(where, catalogue.columns())):
        # In one view: a slot may be given to another column between the two.
        with catalogue_errors(catalogue.path), catalogue.transaction() as database:
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
