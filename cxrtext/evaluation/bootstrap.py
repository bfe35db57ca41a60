"""Intervals and differences by resampling patients.

Images of one patient are alike, so patients are drawn, not images.  A resample is kept as counts:
``counts[r, i]`` is how often row i occurs in resample r.  Sorting is done once, and the measures of
``cxrtext.evaluation.weighted`` take all resamples together.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Resamples:
    """Resamples each of which can be measured.

    Args:
        counts: [R, n], how often each row occurs.
        redrawn: Draws that were thrown away because a class was missing from them.
    """

    counts: Counts
    redrawn: int


def resample_patients(
    patients: Sequence[Hashable], resamples: int, generator: np.random.Generator
) -> Counts:
    """Draw patients with replacement, as many as there are.

    Args:
        patients: [n], the patient of each row.
        resamples: R.
        generator: Source of randomness.

    Returns:
        [R, n]; the rows of a patient occur equally often.

    Raises:
        ValueError: There is no row, or no resample is wanted.

    Source: Efron 1979; Davison and Hinkley 1997, section 3.8 (clusters).
    """
    if not len(patients) or resamples < 1:
        raise ValueError("at least one row and one resample are wanted")
    numbers: dict[Hashable, int] = {}
    rows = np.array([numbers.setdefault(patient, len(numbers)) for patient in patients])
    shares = np.full(len(numbers), 1 / len(numbers))
    drawn: Counts = generator.multinomial(len(numbers), shares, size=resamples)
    return drawn[:, rows]


def resample_covering(
    patients: Sequence[Hashable],
    needed: ArrayLike,
    resamples: int,
    generator: np.random.Generator,
) -> Resamples:
    """Draw patients, and draw again whatever lacks a row of a set that is needed.

    Args:
        patients: [n], the patient of each row.
        needed: [k, n], boolean: sets of rows; a resample must hold a row of each.  For AUC the
            positives and the negatives.
        resamples: R.
        generator: Source of randomness.

    Returns:
        The resamples, and how many were drawn again; where those are many, the interval is that
        of resamples that happen to hold both classes, and too narrow.

    Raises:
        ValueError: The shapes do not fit, a set has no row, or the sets are so rare that 1,000
            draws for each resample do not do.
    """
    sets = np.atleast_2d(np.asarray(needed, dtype=np.bool_))
    if sets.shape[1] != len(patients):
        raise ValueError(f"needed must be [k, {len(patients)}], got {list(sets.shape)}")
    if not sets.any(axis=1).all():
        raise ValueError("a class has no row at all, so no resample can hold it")
    counts = resample_patients(patients, resamples, generator)
    redrawn = 0
    lacking = _lacking(counts, sets)
    while lacking.size:
        redrawn += lacking.size
        if redrawn > 1000 * resamples:
            raise ValueError("a class is in so few patients that resamples hardly ever hold it")
        counts[lacking] = resample_patients(patients, lacking.size, generator)
        lacking = lacking[_lacking(counts[lacking], sets)]
    return Resamples(counts, redrawn)


def _lacking(counts: Counts, sets: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Resamples that lack a set: [R, n], [k, n] -> places in R."""
    # Products of float32 are fast, and no sum of counts is taken for 0 by rounding.
    held = counts.astype(np.float32) @ sets.T.astype(np.float32)
    return np.flatnonzero((held == 0).any(axis=1))


def interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of a measure's values over resamples.

    Args:
        values: [R], without NaN.
        level: Share of the values between the ends.

    Returns:
        (low, high).

    Raises:
        ValueError: There is no value, one is NaN, or the level is out of range.

    Source: Efron and Tibshirani 1993, section 13.3.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size or np.isnan(numbers).any():
        raise ValueError("values must be [R] without NaN; draw with resample_covering")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    low, high = np.quantile(numbers, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another.

    Args:
        estimate: First less second, on the rows as they are.
        low: Lower end of the interval.
        high: Upper end of the interval.
        p_value: Two-sided.
    """

    estimate: float
    low: float
    high: float
    p_value: float


def paired_difference(
    first: ArrayLike, second: ArrayLike, estimate: float, level: float = 0.95
) -> Difference:
    """Compare two models on the same resamples.

    Args:
        first: [R], a measure of the one model over resamples.
        second: [R], that of the other over the same resamples.
        estimate: First less second on the rows as they are.
        level: Of the interval.

    Returns:
        The p-value is twice the smaller share of differences at or beyond 0, the observed data
        counted as one more resample: never 0, at most 1.

    Raises:
        ValueError: The shapes differ, or see :func:`interval`.

    Source: Davison and Hinkley 1997, section 4.2 (counting the observed data); Efron and
        Tibshirani 1993, section 15.4 (a test by the level at which the interval leaves out 0).
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise ValueError(f"first {one.shape} and second {other.shape} must be equally long")
    differences = one - other
    low, high = interval(differences, level)
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return Difference(estimate, low, high, min(1.0, 2 * (tail + 1) / (len(differences) + 1)))
