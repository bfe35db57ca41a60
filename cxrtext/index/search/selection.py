"""Apply filters: the images that they leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cxrtext.errors import HeldError
from cxrtext.index.search.filter import Condition, parse
from cxrtext.index.search.index import Index
from cxrtext.index.store.catalogue import UNLIKE, Catalogue, catalogue_errors
from cxrtext.index.store.snapshot import Numbers, Snapshot
from cxrtext.pausing import Pausing
from cxrtext.records.manifest import LABEL

CELLS_AT_ONCE = 200_000  # cells for a filter to read between two pauses


@dataclass(frozen=True, slots=True)
class View:
    """An index at one moment, and the places in it to search, in rising order."""

    index: Index
    snapshot: Snapshot
    places: Numbers


def view_of(index: Index, where: str | None, exclude_patients: Sequence[str]) -> Pausing[View]:
    """The present view of an index; work that pauses (DataError)."""
    snapshot = index.snapshot
    places = yield from select(index.catalogue, snapshot, where, exclude_patients)
    return View(index, snapshot, places)


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
        numbers = yield from _found(catalogue, snapshot, where, query)
        places = snapshot.places_of(np.array(numbers, dtype=np.int64))
    if exclude_patients:
        out: list[int] = []
        for patient in exclude_patients:
            query = "SELECT number FROM images WHERE patient_id = ?"
            out += (number for (number,) in catalogue.database.execute(query, (patient,)))
        stays = np.ones(len(snapshot.numbers), dtype=bool)
        stays[snapshot.places_of(np.array(out, dtype=np.int64))] = False
        places = places[stays[places]]
    return places


def sentences_of(catalogue: Catalogue, snapshot: Snapshot, where: str) -> Pausing[set[int]]:
    """Numbers of the sentences of studies that have an image passing a filter (DataError)."""
    query = (
        "SELECT DISTINCT sentence FROM images LEFT JOIN attributes USING (number) "
        "JOIN said USING (study_id)"
    )
    return set((yield from _found(catalogue, snapshot, where, query)))


def _found(catalogue: Catalogue, snapshot: Snapshot, where: str, query: str) -> Pausing[list[int]]:
    """The numbers that a query gives for the images passing a filter, a range at a time."""
    numbers: list[int] = []
    of_model = LABEL in where.lower() or UNLIKE in where.lower()
    for some in _parts(snapshot, parse(where, catalogue.columns())):
        # In one transaction: otherwise a slot may change to another column in between.
        with catalogue_errors(catalogue.path), catalogue.transaction() as database:
            condition = parse(where, catalogue.columns())
            if of_model and catalogue.meta().get("model") != snapshot.meta["model"]:
                raise HeldError("the index was given another model; ask again in a moment")
            rows = database.execute(
                f"{query} WHERE images.number BETWEEN ? AND ? AND ({condition.sql})",
                (*some, *condition.values),
            )
            numbers += (number for (number,) in rows)
        yield
    return numbers


def _parts(snapshot: Snapshot, condition: Condition) -> Iterator[tuple[int, int]]:
    """Ranges of numbers that cover all images, each with limited work for a filter."""
    step = max(1, CELLS_AT_ONCE // (1 + len(condition.values)))
    for start in range(0, int(snapshot.numbers.max(initial=-1)) + 1, step):
        yield start, start + step - 1
