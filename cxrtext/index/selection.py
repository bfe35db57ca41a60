"""Which images a search looks at."""

from collections.abc import Iterator, Sequence

import numpy as np

from cxrtext.index.catalogue import Catalogue, told
from cxrtext.index.state import Numbers, State
from cxrtext.index.where import LABEL, Condition, parse
from cxrtext.pausing import Pausing

CELLS_AT_ONCE = 200_000
"""Cells that a filter looks at between two pauses."""

MOST_MARKS = 500
"""Numbers that one statement asks for."""


def select(
    catalogue: Catalogue,
    state: State,
    where: str | None = None,
    exclude_patients: Sequence[str] = (),
) -> Pausing[Numbers]:
    """Places of the images that a filter leaves, in rising order; work that pauses.

    Args:
        catalogue: Open.
        state: The view that the places are of.
        where: The filter; None leaves all.
        exclude_patients: Patients whose images are left out.

    Raises:
        DataError: The filter is wrong.
    """
    places: Numbers = np.flatnonzero(state.numbers >= 0)
    if where is not None:
        numbers: list[int] = []
        for some in _parts(state, parse(where, catalogue.columns())):
            # In one view: a slot may be given to another column between the two.
            with told(catalogue.path), catalogue.transaction() as database:
                condition = parse(where, catalogue.columns())
                rows = database.execute(
                    "SELECT number FROM images LEFT JOIN attributes USING (number) "  # noqa: S608
                    f"WHERE number BETWEEN ? AND ? AND ({condition.sql})",
                    (*some, *condition.values),
                )
                numbers += (number for (number,) in rows)
            yield
        places = state.places_of(np.array(numbers, dtype=np.int64))
    if exclude_patients:
        out: list[int] = []
        for patient in exclude_patients:
            out += [
                number
                for (number,) in catalogue.database.execute(
                    "SELECT number FROM images WHERE patient_id = ?", (patient,)
                )
            ]
        places = places[~np.isin(state.numbers[places], np.array(out, dtype=np.int64))]
    return places


def _parts(state: State, condition: Condition) -> Iterator[tuple[int, int]]:
    """Ranges of numbers that together hold all images, each of bounded work for a filter."""
    step = max(1, CELLS_AT_ONCE // (1 + len(condition.values)))
    last = int(state.numbers.max(initial=-1))
    for start in range(0, last + 1, step):
        yield start, start + step - 1


def said_where(catalogue: Catalogue, state: State, where: str) -> Pausing[set[int]]:
    """Numbers of the sentences that studies with an image that passes a filter say.

    Raises:
        DataError: The filter is wrong.
    """
    found: set[int] = set()
    for some in _parts(state, parse(where, catalogue.columns())):
        with told(catalogue.path), catalogue.transaction() as database:
            condition = parse(where, catalogue.columns())
            rows = database.execute(
                "SELECT DISTINCT sentence FROM said WHERE study_id IN (SELECT "  # noqa: S608
                "study_id FROM images LEFT JOIN attributes USING (number) "
                f"WHERE number BETWEEN ? AND ? AND ({condition.sql}))",
                (*some, *condition.values),
            )
            found.update(number for (number,) in rows)
        yield
    return found


def labels_of(catalogue: Catalogue, number: int) -> dict[str, float]:
    """The zero-shot probabilities that an index keeps of an image, by finding."""
    return labels_of_several(catalogue, [number]).get(number, {})


def labels_of_several(catalogue: Catalogue, numbers: Sequence[int]) -> dict[int, dict[str, float]]:
    """The zero-shot probabilities that an index keeps of some images, by number and finding."""
    slots = {n: s for n, s in catalogue.columns().items() if n.startswith(LABEL)}
    found: dict[int, dict[str, float]] = {}
    if not slots:
        return found
    chosen = ", ".join(f"c{int(slot)}" for slot in slots.values())
    names = [name.removeprefix(LABEL) for name in slots]
    for start in range(0, len(numbers), MOST_MARKS):
        part = list(numbers[start : start + MOST_MARKS])
        marks = ",".join("?" * len(part))
        rows = catalogue.database.execute(
            f"SELECT number, {chosen} FROM attributes WHERE number IN ({marks})",  # noqa: S608
            part,
        ).fetchall()
        for number, *values in rows:
            pairs = zip(names, values, strict=True)
            found[number] = {name: value for name, value in pairs if value is not None}
    return found
