"""Which images a search looks at."""

from collections.abc import Sequence

import numpy as np

from cxrtext.index.catalogue import Catalogue, told
from cxrtext.index.state import Numbers, State
from cxrtext.index.where import LABEL, parse


def select(
    catalogue: Catalogue,
    state: State,
    where: str | None = None,
    exclude_patients: Sequence[str] = (),
) -> Numbers:
    """Places of the images that a filter leaves, in rising order.

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
        condition = parse(where, catalogue.columns())
        with told(catalogue.path):
            rows = catalogue.database.execute(
                "SELECT number FROM images LEFT JOIN attributes USING (number) "  # noqa: S608
                f"WHERE {condition.sql}",
                condition.values,
            ).fetchall()
        places = state.places_of(np.array(rows, dtype=np.int64).ravel())
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


def said_where(catalogue: Catalogue, where: str) -> set[int]:
    """Numbers of the sentences that studies with an image that passes a filter say.

    Raises:
        DataError: The filter is wrong.
    """
    condition = parse(where, catalogue.columns())
    with told(catalogue.path):
        rows = catalogue.database.execute(
            "SELECT DISTINCT sentence FROM said WHERE study_id IN (SELECT study_id "  # noqa: S608
            f"FROM images LEFT JOIN attributes USING (number) WHERE {condition.sql})",
            condition.values,
        )
        return {number for (number,) in rows}


def labels_of(catalogue: Catalogue, number: int) -> dict[str, float]:
    """The zero-shot probabilities that an index keeps of an image, by finding."""
    slots = {n: s for n, s in catalogue.columns().items() if n.startswith(LABEL)}
    if not slots:
        return {}
    chosen = ", ".join(f"c{int(slot)}" for slot in slots.values())
    row = catalogue.database.execute(
        f"SELECT {chosen} FROM attributes WHERE number = ?",  # noqa: S608 - numbers
        (number,),
    ).fetchone()
    found = zip(slots, row or (), strict=False)
    return {name.removeprefix(LABEL): value for name, value in found if value is not None}
