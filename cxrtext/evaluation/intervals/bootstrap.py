"""Intervals and differences by resampling patients.

Images of one patient are alike, so patients are drawn, not images.  A resample is kept as counts:
``counts[r, i]`` is how often row i occurs in resample r; the measures of
:mod:`cxrtext.evaluation.metrics` take all resamples together.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import exp, hypot, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.intervals.quantiles import quantile, two_sided
from cxrtext.evaluation.metrics import Floats

Counts = NDArray[np.int64]
Interval = tuple[float, float]
RESAMPLES_AT_ONCE = 64
"""Resamples drawn at the same time; bounds memory."""
SMALLER_IS_BETTER = "MedR"
"""How the names of measures end of which a smaller one is better."""


def resample_patients(
    patients: Sequence[Hashable], resamples: int, generator: np.random.Generator
) -> Counts:
    """Draw patients with replacement, as many as there are: the patients of n rows -> [R, n].

    Source: Efron 1979; Davison and Hinkley 1997, section 3.8 (clusters).
    """
    if not len(patients) or resamples < 1:
        raise ValueError("at least one row and one resample are wanted")
    numbers: dict[Hashable, int] = {}
    rows = np.array([numbers.setdefault(patient, len(numbers)) for patient in patients])
    P = len(numbers)
    drawn = np.empty((resamples, P), dtype=np.int64)
    for counts in drawn:
        counts[:] = np.bincount(generator.integers(P, size=P), minlength=P)
    return drawn[:, rows]


def draw(patients: Sequence[Hashable], resamples: int, seed: Sequence[int]) -> NDArray[np.uint16]:
    """:func:`resample_patients` in 16 bits, the same for equal patients and seed; R may be 0."""
    generator = np.random.default_rng(list(seed))
    counts = np.empty((resamples if len(patients) else 0, len(patients)), dtype=np.uint16)
    for start in range(0, len(counts), RESAMPLES_AT_ONCE):
        some = counts[start : start + RESAMPLES_AT_ONCE]
        some[:] = resample_patients(patients, len(some), generator)
    return counts


def interval(values: ArrayLike, patients: int | None = None) -> Interval:
    """95 % percentile interval of a measure over resamples, [R] without NaN -> (low, high).

    Percentiles over few patients lie too close together, by as much as for a mean: with their
    number, at least 2, they are moved apart by √(n / (n − 1)) and Student's t.

    Source: Efron and Tibshirani 1993, section 13.3; Hesterberg 2015 (expanded percentiles).
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size or np.isnan(numbers).any():
        raise ValueError("values must be [R] without NaN")
    tail = (1 - 0.95) / 2
    if patients is not None:
        if patients < 2:
            raise ValueError("an interval wants at least two patients")
        reach = sqrt(patients / (patients - 1)) * quantile(0.95, patients - 1)
        tail = two_sided(reach) / 2
    low, high = np.quantile(numbers, [tail, 1 - tail])
    return float(low), float(high)


def interval_of(values: Floats, patients: int | None = None) -> Interval | None:
    """The interval of a measure; None where there are no resamples, or a single patient.

    Resamples in which the measure is not defined (NaN), because no row of a small group was
    drawn, are left out; where they are more than a tenth there is no interval.
    """
    known = values[~np.isnan(values)]
    if not len(values) or len(known) < 0.9 * len(values) or (patients or 2) < 2:
        return None
    return interval(known, patients=patients)


def logit_interval(estimate: float, values: Floats, positives: int) -> Interval | None:
    """The interval of average precision, on the logit scale, by its deviation over resamples.

    ``positives`` are the patients with the finding.  Within a quarter of a patient of 1 resamples
    say nothing; then the deviation is that of a share of as many patients, and the interval
    reaches to 1.  None where :func:`interval_of` has none.

    Source: Boyd, Eng and Page 2013 (the logit, and the deviation of a share).
    """
    known = values[~np.isnan(values)]
    if not len(values) or len(known) < 0.9 * len(values) or not 0 < estimate <= 1 or positives < 1:
        return None
    middle = min(estimate, 1 - 0.25 / positives)
    deviation = float(known.std())
    if estimate > middle:
        deviation = max(deviation, sqrt(middle * (1 - middle) / positives))
    at = log(middle / (1 - middle))
    reach = quantile(0.95) * deviation / (middle * (1 - middle))
    low, high = (1 / (1 + exp(min(-end, 700.0))) for end in (at - reach, at + reach))
    return low, 1.0 if estimate > middle else high


@dataclass(frozen=True, slots=True)
class Resampled:
    """A measure on the data as they are, and on every resample of them, [R].

    ``rows`` is what was resampled: measures of two models on equal rows are paired.  ``ends`` are
    those of its interval where it is not the percentiles', ``patients`` how many were drawn from.
    """

    estimate: float
    values: Floats
    rows: tuple[Hashable, ...] = field(repr=False)
    ends: Interval | None = None
    patients: int | None = None

    def interval(self) -> Interval | None:
        return self.ends or interval_of(self.values, self.patients)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another, with the ends of its interval, two-sided."""

    estimate: float
    low: float
    high: float
    p_value: float


def paired_difference(
    first: ArrayLike, second: ArrayLike, estimate: float, patients: int | None = None
) -> Difference:
    """Compare two models by a measure on the same resamples, [R] each.

    ``estimate`` is first less second on the rows as they are.  The p-value is twice the smaller
    share of differences at or beyond 0, the observed data counted as one more resample: never 0,
    at most 1.  With the number of patients both are for few of them, as in :func:`interval`.

    Source: Davison and Hinkley 1997, section 4.2 (counting the observed data); Efron and
        Tibshirani 1993, section 15.4 (a test by the level at which the interval leaves out 0).
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise ValueError(f"first {one.shape} and second {other.shape} must be equally long")
    differences = one - other
    low, high = interval(differences, patients=patients)
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    p_value = min(1.0, 2 * (tail + 1) / (len(differences) + 1))
    if patients is not None:
        reach = quantile(1 - p_value) if p_value < 1 else 0.0
        p_value = two_sided(reach * sqrt((patients - 1) / patients), patients - 1)
    return Difference(estimate, low, high, p_value)


BETTER, WORSE, TIED = "better", "worse", "not distinguishable"


def difference_of(one: Resampled, other: Resampled) -> Difference | None:
    """The first less the second; None without resamples, or where a tenth lacks one of the two."""
    defined = ~(np.isnan(one.values) | np.isnan(other.values))
    patients = one.patients
    if not len(defined) or defined.mean() < 0.9 or (patients or 2) < 2:
        return None
    estimate = one.estimate - other.estimate
    return paired_difference(one.values[defined], other.values[defined], estimate, patients)


def verdict_of(ends: Interval, *, smaller: bool = False) -> str:
    """What a difference says of the first, by whether its interval leaves out 0."""
    low, high = ends
    if low > 0 or high < 0:
        return BETTER if (low > 0) != smaller else WORSE
    return TIED


TRAININGS = 3
"""From so many trainings on, the interval of their mean includes the randomness of training."""


def with_training(estimates: Sequence[float], ends: Interval) -> Interval:
    """The interval of a mean of trainings over patients and trainings.

    ``ends`` are over the patients alone, for these trainings; what trainings differ by on the same
    patients adds Student's t with one degree fewer than there are trainings.

    Source: Zou and Donner 2008 (MOVER, of a sum of two independent parts).
    """
    mean, n = float(np.mean(estimates)), len(estimates)
    reach = quantile(0.95, n - 1) * float(np.std(estimates, ddof=1)) / sqrt(n)
    return mean - hypot(mean - ends[0], reach), mean + hypot(ends[1] - mean, reach)
