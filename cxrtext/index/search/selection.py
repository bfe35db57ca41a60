"""Filters at work: the images that they leave, by SQLite's rows or by columns beside the vectors.

SQL's logic has three values.  With 0 for false, 1 for neither and 2 for true, AND is the least of
its parts, OR the greatest, and NOT takes from 2.  A test of one column is asked of its distinct
cells, and looked up for each image by the code of its cell.
"""

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import HeldError
from cxrtext.index.search.filter import Condition, Joined, Not, Test, Tree, parse, split
from cxrtext.index.search.index import Index
from cxrtext.index.store.catalogue import UNLIKE, Catalogue, catalogue_errors
from cxrtext.index.store.columns import Column, Columns, Texts
from cxrtext.index.store.snapshot import Numbers, Snapshot
from cxrtext.pausing import Pausing
from cxrtext.records.manifest import LABEL

CELLS_AT_ONCE = 200_000  # cells that a filter looks at between two pauses


FALSE, NEITHER, TRUE = np.uint8(0), np.uint8(1), np.uint8(2)

PLACES_AT_ONCE = 2**16
"""Places that a filter is answered for at once: what it works on stays in a processor's cache."""

Truth = NDArray[np.uint8]
Answer = Callable[[slice], Truth | np.uint8]
"""What is true at some places, [places], or at all of them alike."""

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class View:
    """An index at one moment, and the places in it that a search looks at, in rising order."""

    index: Index
    snapshot: Snapshot
    places: Numbers


def view_of(index: Index, where: str | None, exclude_patients: Sequence[str]) -> Pausing[View]:
    """An index as it is now; work that pauses (DataError)."""
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
        recent = _recent(catalogue, snapshot, where)
        if recent is not None:
            places = yield from _by_columns(recent, snapshot)
        else:
            query = "SELECT number FROM images LEFT JOIN attributes USING (number)"
            places = snapshot.places_of(
                np.array((yield from _by_rows(catalogue, snapshot, where, query)), dtype=np.int64)
            )
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
    """Numbers of the sentences that studies with an image that passes a filter say (DataError)."""
    query = (
        "SELECT DISTINCT sentence FROM images LEFT JOIN attributes USING (number) "
        "JOIN said USING (study_id)"
    )
    return set((yield from _by_rows(catalogue, snapshot, where, query)))


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
        answer = _answer(condition.tree, columns)
        if answer is None:  # SQLite has to
            return None
        numbers = database.execute("SELECT number FROM recent").fetchall()
        # Joined with the table, SQLite would read every row for some filters.
        passing = database.execute(
            "SELECT number FROM images LEFT JOIN attributes USING (number) "  # noqa: S608
            f"WHERE images.number IN (SELECT number FROM recent) AND ({condition.sql})",
            condition.values,
        ).fetchall()
        return _Recent(_places(answer, columns.places), _flat(numbers), _flat(passing))


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
    for start in range(0, int(snapshot.numbers.max(initial=-1)) + 1, step):
        yield start, start + step - 1


def _places(answer: Answer, places: int) -> Iterator[NDArray[np.int64]]:
    """Places of the images of which a filter is true, in rising order, a range at a time."""
    for start in range(0, places, PLACES_AT_ONCE):
        stop = min(start + PLACES_AT_ONCE, places)
        truth = np.broadcast_to(answer(slice(start, stop)), stop - start)
        yield start + np.flatnonzero(truth == TRUE)


def _answer(tree: Tree, columns: Columns) -> Answer | None:
    if isinstance(tree, Not):
        inner = _answer(tree.of, columns)
        return None if inner is None else lambda some: TRUE - inner(some)
    if isinstance(tree, Joined):
        found = [_answer(part, columns) for part in tree.parts]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        join = np.minimum if tree.word == "AND" else np.maximum

        def joined(some: slice) -> Any:
            truth = parts[0](some)
            for part in parts[1:]:
                truth = join(truth, part(some))
            return truth

        return joined
    column = columns[tree.column]
    if column is None:  # all of its cells are empty
        empty = {"IS NULL": TRUE, "IS NOT NULL": FALSE}.get(tree.operator, NEITHER)
        return lambda _: empty
    table = truth_of_codes(tree, column)
    return None if table is None else lambda some: np.take(table, column.codes[some])


def truth_of_codes(test: Test, column: Column) -> Truth | None:
    """What a test says of each distinct cell, [codes]; None where that is not known."""
    truth = np.full(column.distinct, NEITHER)
    if not test.values:
        truth[0] = TRUE if test.operator == "IS NULL" else FALSE
        truth[1:] = TRUE - truth[0]
        return truth
    numbers, texts = split(test.values)
    of_numbers, of_texts = truth[1 : 1 + len(column.numbers)], truth[1 + len(column.numbers) :]
    if texts and len(column.numbers):
        if column.as_texts is None:
            return None
        of_numbers[:] = [
            TRUE if _compare(test.operator, t, texts) else FALSE for t in column.as_texts
        ]
    if texts:
        _ask_texts(of_texts, test.operator, column.texts, texts)
    if numbers:
        if test.operator == "IN":
            holds = np.isin(column.numbers, numbers)
        else:
            holds = _COMPARE[test.operator](column.numbers, numbers[0])
        np.maximum(of_numbers if texts else FALSE, np.where(holds, TRUE, FALSE), out=of_numbers)
    return truth


def _compare(sign: str, text: str, values: Sequence[str]) -> bool:
    return text in values if sign == "IN" else bool(_COMPARE[sign](text, values[0]))


def _ask_texts(truth: Truth, sign: str, known: Texts, values: Sequence[str]) -> None:
    truth[:] = FALSE
    for value in values:
        first, last = bisect_left(known, value), bisect_right(known, value)
        if sign in ("=", "IN"):
            truth[first:last] = TRUE
        elif sign == "<>":
            truth[:first] = truth[last:] = TRUE
        elif sign[0] == "<":
            truth[: last if sign == "<=" else first] = TRUE
        else:
            truth[first if sign == ">=" else last :] = TRUE
