"""A figure with its 95 % interval, of rows that belong to patients.

Rows are [n], ``patients`` [n]; without them every row is its own.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.intervals.bootstrap import RESAMPLES_AT_ONCE, interval_of
from cxrtext.evaluation.intervals.delong import area
from cxrtext.evaluation.intervals.proportions import cluster_codes, proportion_interval
from cxrtext.evaluation.metrics import Floats, quotient

Patients = Sequence[Hashable] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; None where it is not defined, not finite, or has none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def share_of(right: ArrayLike, patients: Patients = None) -> Estimate:
    """A share with Wilson's interval, clustered by patient; values may lie between 0 and 1."""
    values = np.asarray(right)
    if not values.size:
        return Estimate()
    return Estimate(float(values.mean()), *proportion_interval(values, patients))


def area_of(scores: ArrayLike, labels: ArrayLike, patients: Patients = None) -> Estimate:
    """An AUC with its interval (:func:`~.delong.area`); no value where a class lacks."""
    truth = np.asarray(labels) == 1
    if not truth.any() or truth.all():
        return Estimate()
    found = area(scores, truth, None if patients is None else cluster_codes(patients))
    return Estimate(found.value, *found.interval())


def resampled_sums(
    values: ArrayLike, clusters: Sequence[Hashable], resamples: int, seed: Sequence[int]
) -> Floats:
    """Sums of rows [n, k] on resamples of the patients, [R, k].

    Each patient's rows are added up first.  Patients with equal sums are of one kind, and how many
    of each kind are drawn is multinomial: the work grows with the kinds, which are few where rows
    count something.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(clusters):
        raise ValueError(f"values {rows.shape} and {len(clusters)} clusters must be equally long")
    codes = cluster_codes(clusters)
    sums = np.stack([np.bincount(codes, column) for column in rows.T], axis=1)
    kinds, times = np.unique(sums, axis=0, return_counts=True)
    generator = np.random.default_rng(list(seed))
    parts: list[Floats] = [np.zeros((0, rows.shape[1]))]
    for start in range(0, resamples, RESAMPLES_AT_ONCE):
        some = min(RESAMPLES_AT_ONCE, resamples - start)
        drawn = generator.multinomial(len(sums), times / len(sums), size=some)
        parts.append(drawn.astype(np.float64) @ kinds)
    return np.concatenate(parts)


def means_of(
    columns: ArrayLike, patients: Sequence[Hashable], resamples: int, seed: Sequence[int]
) -> list[Estimate]:
    """Means of columns [n, k] without NaN, with percentiles over the same resamples of patients."""
    values = np.asarray(columns, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(patients):
        raise ValueError(f"columns {values.shape} and {len(patients)} patients must be equal")
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    found: list[Estimate] = []
    totals, counts = filled.sum(axis=0), known.sum(axis=0)
    sums = resampled_sums(np.concatenate([filled, known], axis=1), patients, resamples, seed)
    top, bottom = np.split(sums, 2, axis=1)
    drawn = quotient(top, bottom)
    codes = cluster_codes(patients)
    for number in range(values.shape[1]):
        if not counts[number]:
            found.append(Estimate())
            continue
        own = len(np.unique(codes[known[:, number]]))
        ends = interval_of(drawn[:, number], own) or (None, None)
        found.append(Estimate(float(totals[number] / counts[number]), *ends))
    return found
