"""Grids of cases, of which a sample runs.

``@grid(name=NAMES, scale=[1, 14], half=[True, False])`` in place of three ``parametrize``: as few
cases as hold every two values of different parameters together.  With ``@grid(1, ...)`` each value
runs once, with some of the others.  Of one long list of like cases ``parametrize("case",
some(CASES, 4))`` marks all but every fourth slow.  The sample is the same each time.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest


def grid(together: int = 2, /, **values: Sequence[Any]) -> pytest.MarkDecorator:
    """A sample of the combinations of the parameters' values."""
    groups = list(combinations(range(len(values)), min(together, len(values))))
    # What each combination is the first to hold: values, by their places, of a group of parameters.
    new = {
        row: {(group, tuple(row[i] for i in group)) for group in groups}
        for row in product(*(range(len(column)) for column in values.values()))
    }
    cases = []
    while new[best := max(new, key=lambda row: len(new[row]))]:
        cases.append([column[i] for column, i in zip(values.values(), best, strict=True)])
        found = set(new[best])
        for left in new.values():
            left -= found
    return pytest.mark.parametrize(list(values), cases)


def some(cases: Sequence[Any], one_in: int) -> list[Any]:
    """The cases of a list; all are slow but one in so many."""
    slow = pytest.mark.slow
    return [
        one if i % one_in == 0 else pytest.param(one, marks=slow) for i, one in enumerate(cases)
    ]
