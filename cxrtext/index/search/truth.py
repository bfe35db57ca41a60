"""Filters answered from columns beside the vectors: what is true, of all images at once.

SQL's logic has three values.  With 0 for false, 1 for neither and 2 for true, AND is the least of
its parts, OR the greatest, and NOT takes from 2.  A test of one column is asked of its distinct
cells, and looked up for each image by the code of its cell.
"""

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.index.search.filter import Joined, Not, Test, Tree, split
from cxrtext.index.store.columns import Column, Columns, Texts

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


def true_places(tree: Tree, columns: Columns) -> Iterator[NDArray[np.int64]] | None:
    """Places of the images of which a filter is true, in rising order, a range of them at a time.

    None where the columns cannot answer it: SQLite has to.
    """
    answer = _answer(tree, columns)
    return None if answer is None else _places(answer, columns.places)


def _places(answer: Answer, places: int) -> Iterator[NDArray[np.int64]]:
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
        of_numbers[:] = [_true(_compare(test.operator, t, texts)) for t in column.as_texts]
    if texts:
        _ask_texts(of_texts, test.operator, column.texts, texts)
    if numbers:
        if test.operator == "IN":
            holds = np.isin(column.numbers, numbers)
        else:
            holds = _COMPARE[test.operator](column.numbers, numbers[0])
        np.maximum(of_numbers if texts else FALSE, np.where(holds, TRUE, FALSE), out=of_numbers)
    return truth


def _true(holds: bool) -> np.uint8:
    return TRUE if holds else FALSE


def _compare(sign: str, text: str, values: Sequence[str]) -> bool:
    return text in values if sign == "IN" else bool(_COMPARE[sign](text, values[0]))


def _ask_texts(truth: Truth, sign: str, known: Texts, values: Sequence[str]) -> None:
    """Note what a test says of texts in rising order."""
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
