"""Grids of cases: ``make test`` runs a sample of them, ``make test-all`` every case.

``@grid(name=NAMES, scale=[1, 14], half=[True, False])`` in place of three ``parametrize``: as few
cases as hold every two values of different parameters together run by default; the others are
marked slow.  With ``@grid(1, ...)`` each value runs once, with some of the others.  Of one long
list of like cases ``parametrize("case", some(CASES, 4))`` marks all but every fourth slow.  The
sample is the same each time; a slow mark that a test has of its own is for all of its cases.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest


def grid(together: int = 2, /, **values: Sequence[Any]) -> pytest.MarkDecorator:
    """Every combination of the parameters' values; all are slow but a sample."""
    groups = list(combinations(range(len(values)), min(together, len(values))))
    # What each combination is the first to hold: values, by their places, of a group of parameters.
    new = {
        row: {(group, tuple(row[i] for i in group)) for group in groups}
        for row in product(*(range(len(column)) for column in values.values()))
    }
    sample = set()
    while new[best := max(new, key=lambda row: len(new[row]))]:
        sample.add(best)
        found = set(new[best])
        for left in new.values():
            left -= found
    cases = []
    for row in new:
        case = [column[i] for column, i in zip(values.values(), row, strict=True)]
        cases.append(pytest.param(*case, marks=() if row in sample else pytest.mark.slow))
    return pytest.mark.parametrize(list(values), cases)


def some(cases: Sequence[Any], one_in: int) -> list[Any]:
    """The cases of a list; all are slow but one in so many."""
    slow = pytest.mark.slow
    return [
        one if i % one_in == 0 else pytest.param(one, marks=slow) for i, one in enumerate(cases)
    ]
