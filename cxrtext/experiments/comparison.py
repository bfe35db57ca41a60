"""Rows compared on the same resamples of patients: paired differences, and the paper's order."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from cxrtext.evaluation import compare
from cxrtext.evaluation.bootstrap import SMALLER_IS_BETTER, TIED, Resampled, interval_of
from cxrtext.experiments.measures import Measures, mean_of_seeds
from cxrtext.experiments.papers.table1 import MEASURES

UNKNOWN = "not measured"

Trainings = Mapping[int, Measures]
"""The measures of a row's trainings, by seed."""


def _ahead(measure: str, first: float, second: float) -> bool:
    return first < second if measure == SMALLER_IS_BETTER else first > second


def compare_rows(first: Trainings | None, second: Trainings | None) -> dict[str, dict[str, Any]]:
    """Compare two rows on the seeds that both have.

    Args:
        first: Of one row; None where it was not measured.
        second: Of the other.

    Returns:
        By measure that both have: ``value`` (first less second), ``low``, ``high``, ``p``,
        ``verdict`` on the first by whether the interval leaves out 0 (a smaller MedR is better),
        ``seeds`` in common, and ``ahead``: in how many of them the first one's figure is better.
    """
    common = sorted(set(first or ()) & set(second or ()))
    if first is None or second is None or not common:
        return {}
    one = mean_of_seeds([first[seed] for seed in common])
    other = mean_of_seeds([second[seed] for seed in common])
    told = {found.measure: found for found in compare({"second": other, "first": one}).differences}
    differences = {}
    for name in MEASURES:
        if name not in one or name not in other:
            continue
        paired = told.get(name)
        pairs = [(first[seed][name].estimate, second[seed][name].estimate) for seed in common]
        differences[name] = {
            "value": one[name].estimate - other[name].estimate,
            "low": paired.low if paired else None,
            "high": paired.high if paired else None,
            "p": paired.p_value if paired else None,
            "verdict": paired.verdict if paired else TIED,
            "seeds": len(common),
            "ahead": sum(_ahead(name, *pair) for pair in pairs),
        }
    return differences


def paper_order(
    rows: Mapping[str, Measures], paper: Mapping[str, Mapping[str, float]], measure: str = "AUC"
) -> dict[str, Any] | None:
    """How far rows stand in the paper's order.

    Args:
        rows: Measures by row.
        paper: The paper's figures by row and measure.
        measure: By which the rows are ordered.

    Returns:
        ``pairs`` that the paper's figures tell apart; ``agree`` and ``contrary`` of them, and of
        those ``agree told apart`` and ``contrary told apart`` by a difference whose interval
        leaves out 0; ``tau``, ``low``, ``high``; None where there is no pair.

    Source: Kendall 1938 (tau), over the pairs without a tie in the paper.
    """
    known = [name for name in rows if measure in rows[name] and measure in paper.get(name, {})]
    pairs = []
    for name, other in combinations(known, 2):
        sign = float(np.sign(paper[name][measure] - paper[other][measure]))
        if sign:
            one, two = rows[name][measure], rows[other][measure]
            pairs.append((one, two) if sign > 0 else (two, one))
    found = order_of(pairs)
    return None if found is None else {"measure": measure, **found}


def order_of(
    pairs: Sequence[tuple[Resampled, Resampled]], smaller: Sequence[bool] | None = None
) -> dict[str, Any] | None:
    """How many pairs stand in an expected order.

    Args:
        pairs: The one expected to be better, and the other, on the same resamples.
        smaller: Of each pair, whether a smaller figure is better; by default none is.

    Returns:
        ``pairs``, ``agree``, ``contrary``, ``agree told apart``, ``contrary told apart``, ``tau``,
        ``low``, ``high``, as :func:`paper_order` tells them; None where there is no pair.

    Source: Kendall 1938 (tau), over the pairs without a tie in the paper.
    """
    if not pairs:
        return None
    signs = [-1.0 if turned else 1.0 for turned in smaller or [False] * len(pairs)]
    # Turned so that a positive difference is the expected order.
    estimates = [
        sign * (one.estimate - two.estimate) for sign, (one, two) in zip(signs, pairs, strict=True)
    ]
    values = [
        sign * (one.values - two.values) for sign, (one, two) in zip(signs, pairs, strict=True)
    ]
    ends = [interval_of(row) or (0.0, 0.0) for row in values]
    # A resample in which a row has no figure is NaN, and left out of the interval.
    tau = interval_of(np.mean(np.sign(values), axis=0)) or (None, None)
    return {
        "pairs": len(pairs),
        "agree": sum(one > 0 for one in estimates),
        "contrary": sum(one < 0 for one in estimates),
        "agree told apart": sum(low > 0 for low, _ in ends),
        "contrary told apart": sum(high < 0 for _, high in ends),
        "tau": float(np.mean(np.sign(estimates))),
        "low": tau[0],
        "high": tau[1],
    }
