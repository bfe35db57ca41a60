"""SSD figure 3 and the grids of its section 3.2: one row a value, else as table 1.

The paper prints which a and k its grid chose and no value of another; those here are ours, around
the defaults.

Source: Wang et al. 2023 (sample-specific debiasing), figure 3; section 3.2.
"""

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.experiments.experiment import Claim, Trial
from cxrtext.experiments.papers.table1 import (
    BASELINE,
    DIFFERENT,
    PROPOSED,
    TABLE1,
    PairTable,
    table_row,
)

CONSTANTS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""η of figure 3."""
GRIDS: tuple[tuple[str, str, str, tuple[Any, ...]], ...] = (
    ("remove-by-text", "threshold", "threshold", (0.5, 0.7, 0.9)),
    ("resample-by-text", "keep", "R / batch", (0.25, 0.5, 0.75)),
    ("reweight-by-text", "beta", "β", (0.5, 1, 2, 4)),
)
"""Of each baseline the row of table 1, the key, its name and its values."""
TASKS = ("AUC", "CNR", "Recall")
"""One measure of each of its three tasks."""


def constant(eta: float) -> str:
    """The row of an η that all sentences share."""
    return f"dcl-eta-{eta:g}"


def _grid() -> tuple[Trial, ...]:
    known = {row.name: row for row in TABLE1}
    constants = [
        table_row(constant(eta), f"DCL-η, η = {eta:g}", "dcl-eta", eta=eta) for eta in CONSTANTS
    ]
    etas = [
        replace(
            table_row(f"{PROPOSED}-{a:g}-{k:g}", f"DCL-η_LM, a = {a:g}, k = {k:g}", PROPOSED),
            eta=(a, k),
        )
        for a, k in product((0.1, DEFAULT_A, 0.4), (0.2, DEFAULT_K, 0.5))
        if (a, k) != (DEFAULT_A, DEFAULT_K)
    ]
    baselines = [
        table_row(
            f"{name}-{value:g}", f"{known[name].title}, {said} {value:g}", name, **{key: value}
        )
        for name, key, said, values in GRIDS
        for value in values
    ]
    return (known[BASELINE], *constants, known[PROPOSED], *etas, *baselines)


def _claims() -> tuple[Claim, ...]:
    """Figure 3 as section 3.2 reads it: a larger η classifies better and retrieves worse."""
    pairs = [(constant(less), constant(more)) for less, more in pairwise(CONSTANTS)]
    return (
        *(Claim(more, less, "AUC") for less, more in pairs),
        *(Claim(less, more, "Recall") for less, more in pairs),
        *(Claim(PROPOSED, constant(eta), task) for eta in CONSTANTS for task in TASKS),
    )


SWEEP = PairTable(
    "sweep",
    "Figure 3: how much to correct, and the grids of every correction",
    "which values of η, a, k, threshold, R and β suit which task?",
    _grid(),
    claims=_claims(),
    different=(
        *DIFFERENT,
        "The best of many rows is better by chance too: choose a value on other patients than "
        "those it is reported on.",
    ),
)
