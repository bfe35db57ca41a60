"""Several comparisons, and too few images: what a difference says."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from cxrtext.evaluation.intervals.delong import hanley_mcneil_variance
from cxrtext.evaluation.intervals.quantiles import NORMAL, quantile

FEW = 25
"""Images with a finding, or without, below which a report warns."""
POWER = 0.8


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted so that the chance of any false finding among all stays at the level.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]

    The smallest of k is multiplied by k, the next by k − 1, and so on; none falls below one before
    it.  Needs no independence.

    Source: Holm 1979.
    """
    given = np.asarray(p_values, dtype=np.float64)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise ValueError("p-values must be a list of numbers in [0, 1]")
    order = np.argsort(given, kind="stable")
    stepped = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(one) for one in adjusted]


def detectable_difference(
    area: float, positives: int, negatives: int, *, design_effect: float = 1.0
) -> float | None:
    """How much lower an AUC a test could tell from this one with a power of 80 %.

    >>> round(detectable_difference(0.85, 12, 400), 3)
    0.231

    None where even an AUC of 0 would not be far enough.  The other AUC is a fixed value, such as
    one that is claimed; the test is two-sided at 5 %.

    Source: Hanley and McNeil 1982 (the variance); Obuchowski 1997 (sizes of samples).
    """
    from scipy.optimize import brentq

    if not 0 < area <= 1 or min(positives, negatives) < 1 or not design_effect > 0:
        raise ValueError(f"no AUC of {positives} positives and {negatives} negatives is {area}")
    edge = 0.5 / (positives * negatives)

    def variance(one: float) -> float:
        inside = min(max(one, edge), 1 - edge)
        return design_effect * hanley_mcneil_variance(inside, positives, negatives)

    def missing(lower: float) -> float:
        """How far the difference is from being large enough; falls as the other AUC falls."""
        errors = sqrt(variance(area)), sqrt(variance(lower))
        needed = quantile(0.95) * errors[1] + NORMAL.inv_cdf(POWER) * errors[0]
        return needed - (area - lower)

    if missing(0.0) > 0:
        return None
    return area - float(brentq(missing, 0.0, area))
