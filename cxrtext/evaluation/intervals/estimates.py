"""A figure with its 95 % interval, of rows that belong to patients.

Rows are [n], ``patients`` [n]; without them every row is its own.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.intervals.bootstrap import draw, interval_of
from cxrtext.evaluation.intervals.delong import area
from cxrtext.evaluation.intervals.proportions import cluster_codes, proportion_interval
from cxrtext.evaluation.metrics import weighted_mean

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


def mean_of(
    values: ArrayLike, patients: Sequence[Hashable], resamples: int, seed: Sequence[int]
) -> Estimate:
    """A mean with percentiles over resamples of the patients; NaN rows are left out."""
    rows = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(rows)
    if not known.any():
        return Estimate()
    own = [patients[row] for row in np.flatnonzero(known).tolist()]
    ends = interval_of(weighted_mean(rows[known], draw(own, resamples, seed)))
    return Estimate(float(rows[known].mean()), *(ends or (None, None)))
