"""Intervals of shares, where the rows of one patient are alike.

A share is the mean of values in [0, 1], mostly right or wrong: sensitivity, accuracy, recall at K,
the pointing game.  Rows of one patient count as fewer than they are: the share keeps its value,
and Wilson's interval gets the effective number of rows, their number over the design effect.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.intervals.bootstrap import Interval
from cxrtext.evaluation.intervals.quantiles import quantile

Clusters = Sequence[Hashable] | NDArray[np.integer[Any]]
"""The patient of each row, [n]."""
PRIOR = 2.0
"""Weight of a full correlation within patients, against the square of the patients seen."""


def cluster_codes(clusters: Clusters) -> NDArray[np.intp]:
    """Number clusters from 0, [n]: in the order in which they first occur; numbers by size."""
    if isinstance(clusters, np.ndarray):
        return np.unique(clusters, return_inverse=True)[1]
    numbers: dict[Hashable, int] = {}
    codes = (numbers.setdefault(cluster, len(numbers)) for cluster in clusters)
    return np.fromiter(codes, dtype=np.intp, count=len(clusters))


def codes_of_rows(clusters: Clusters | None, n: int) -> NDArray[np.intp]:
    """:func:`cluster_codes` of n rows; without clusters every row is its own."""
    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"{n} rows and {len(clusters)} clusters must be equally many")
    return cluster_codes(clusters)


@dataclass(frozen=True, slots=True)
class Share:
    """A share, how many independent rows it is worth, and the patients and rows behind it.

    ``design_effect`` is how many times the variance is that of independent rows; ``degrees`` are
    those of Student's t, infinite where no patient has two rows.
    """

    value: float
    rows: int
    patients: int
    design_effect: float
    degrees: float

    @property
    def effective_rows(self) -> float:
        return self.rows / self.design_effect

    def interval(self) -> Interval | None:
        """Wilson's (1927) with the effective number of rows; None of a single patient's rows."""
        if self.patients < 2 <= self.rows:
            return None
        share, rows, z = self.value, self.effective_rows, quantile(0.95, self.degrees)
        square = z**2 / rows
        middle = (share + square / 2) / (1 + square)
        half = z * sqrt(share * (1 - share) / rows + square / (4 * rows)) / (1 + square)
        # At 0 and 1 the end is the share itself, which rounding may miss.
        low = 0.0 if share == 0 else max(0.0, middle - half)
        return low, 1.0 if share == 1 else min(1.0, middle + half)


def proportion(right: ArrayLike, clusters: Clusters | None = None) -> Share:
    """The share of rows that are right, and its design effect.

    The variance is that of a ratio of sums over patients.  It says little where only few patients
    have a row that is right, or one that is wrong: with k of them, the design effect of the data
    gets the weight k² against 2 for that of a full correlation, Σ rows of a patient² / rows.

    Args:
        right: [n], booleans or values in [0, 1].
        clusters: [n], the patient of each row; without them every row is its own.

    Source: Rao and Scott 1992; Korn and Graubard 1998 (effective rows, Student's t with one
        degree fewer than patients); Kish 1965 (the design effect of full correlation).  The
        weight is ours: docs/decisions/07-evaluation.md.
    """
    values = np.asarray(right, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError("a share wants a list of at least one row")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("the rows of a share must be true or false, or lie in [0, 1]")
    codes = codes_of_rows(clusters, len(values))
    n, mean = len(values), float(values.mean())
    sizes = np.bincount(codes).astype(np.float64)
    patients = len(sizes)
    alone = patients == n
    if n == 1 or (alone and np.isin(values, (0, 1)).all()):
        return Share(mean, n, patients, 1.0, float("inf"))
    sums = np.bincount(codes, values)
    full = float((sizes**2).sum()) / n
    few = min(int((sums > 0).sum()), int((sums < sizes).sum()))
    found = full
    if 0 < mean < 1 and patients > 1:
        variance = patients / (patients - 1) * float(((sums - sizes * mean) ** 2).sum()) / n**2
        found = variance / (mean * (1 - mean) / (n - 1))
    weight = float(few) ** 2
    effect = (weight * found + PRIOR * full) / (weight + PRIOR)
    return Share(mean, n, patients, effect, float("inf") if alone else max(patients - 1, 1))


def mean_proportion(parts: Sequence[tuple[ArrayLike, NDArray[np.integer[Any]]]]) -> Share:
    """The mean of shares whose rows differ and whose patients are numbered alike.

    ``parts``: of each share its rows, as for :func:`proportion`, and the numbers of their patients.
    ``rows`` of what is returned are those of the largest share.
    """
    if not parts:
        raise ValueError("a mean wants at least one share")
    if len(parts) == 1:
        return proportion(*parts[0])
    rows = [(np.asarray(right, dtype=np.float64), np.asarray(codes)) for right, codes in parts]
    size = 1 + max(int(codes.max()) for _, codes in rows)
    moved, right, wrong, seen = (np.zeros(size) for _ in range(4))
    full = 0.0
    for values, codes in rows:
        proportion(values, codes)  # refuses what is none
        counts, sums = np.bincount(codes, minlength=size), np.bincount(codes, values, size)
        moved += (sums - counts * values.mean()) / (len(values) * len(rows))
        right, wrong, seen = right + sums, wrong + counts - sums, seen + counts
        full = max(full, float((counts**2).sum()) / len(values) ** 2)
    most = max(len(values) for values, _ in rows)
    mean, patients = float(np.mean([values.mean() for values, _ in rows])), int((seen > 0).sum())
    few = min(int((right > 0).sum()), int((wrong > 0).sum()))
    found = full
    if 0 < mean < 1 and patients > 1:
        found = patients / (patients - 1) * float(moved @ moved) / (mean * (1 - mean))
    variance = (few**2 * found + PRIOR * full) / (few**2 + PRIOR)
    return Share(mean, most, patients, most * variance, max(patients - 1, 1))


def proportion_interval(right: ArrayLike, clusters: Clusters | None = None) -> Interval:
    """The interval of a share, clustered by patient: see :func:`proportion`.

    >>> low, high = proportion_interval([True] * 5 + [False] * 5)
    >>> round(low, 4), round(high, 4)
    (0.2366, 0.7634)

    Rows of one single patient tell nothing of others: then it is (0, 1).
    """
    return proportion(right, clusters).interval() or (0.0, 1.0)
