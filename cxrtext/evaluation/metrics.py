"""Measures of scores [n] beside labels [n], as they are and on resamples of the rows.

Scores are finite, labels 1 or 0; anything else is a ValueError, as is a class that a measure wants
and the labels lack.  ``weights`` [R, n] say how often each row occurs in each of R resamples
(:func:`~.intervals.bootstrap.resample_patients`): with them a measure returns [R], NaN for a
resample that lacks a class.  Rows are sorted once for all resamples, and resamples are taken in
blocks, so that memory stays bounded.
"""

from collections.abc import Callable
from typing import Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]
Uncertain = Literal["ignore", "positive", "negative"]
UNKNOWN_LABEL = -2
"""What a label that is not known is written as in an array of labels."""
WEIGHTS_AT_ONCE = 1 << 21
"""Weights looked at at the same time; bounds memory."""


def settled(labels: NDArray[np.int8], uncertain: Uncertain) -> tuple[Truth, Truth]:
    """Which labels are known, and what they say, once the uncertain ones are settled.

    Labels [n] are 1, 0, −1 (uncertain; "ignore" leaves it out) or :data:`UNKNOWN_LABEL`, which is
    always left out -> (known, truth), both [n]; truth is False where the label is not known.

    Source: Irvin et al. 2019 (U-Ignore, U-Ones, U-Zeros).
    """
    if uncertain not in get_args(Uncertain):
        raise ValueError(f"uncertain must be one of {get_args(Uncertain)}, not {uncertain!r}")
    known = (labels == 1) | (labels == 0)
    truth = labels == 1
    if uncertain != "ignore":
        known |= labels == -1
    if uncertain == "positive":
        truth |= labels == -1
    return known, truth


def scores_and_truth(
    scores: ArrayLike, labels: ArrayLike, *, positive: bool = True, negative: bool = True
) -> tuple[Floats, Truth]:
    """Check scores and labels, and give them as arrays; by default both classes must occur."""
    values, given = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if values.ndim != 1 or values.shape != given.shape or not values.size:
        raise ValueError(
            f"scores {values.shape} and labels {given.shape} must be equally long and not empty"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    if not np.isin(given, (0, 1)).all():
        raise ValueError("labels must be 1 or 0")
    truth: Truth = given == 1
    if positive and not truth.any():
        raise ValueError("no label is 1; this measure wants at least one positive")
    if negative and truth.all():
        raise ValueError("no label is 0; this measure wants at least one negative")
    return values, truth


def _blocks(weights: ArrayLike, n: int, measure: Callable[[Floats], Floats]) -> Floats:
    """Apply a measure of [r, n] weights to blocks of resamples, [R, n] -> [R]."""
    given = np.asarray(weights)
    if given.ndim != 2 or given.shape[1] != n or given.dtype.kind not in "iuf":
        raise ValueError(f"weights must be [R, {n}] numbers, got {list(given.shape)}")
    if (given < 0).any():
        raise ValueError("weights must be 0 or more")
    at_once = max(1, WEIGHTS_AT_ONCE // max(n, 1))
    parts = [np.empty(0)]
    for start in range(0, len(given), at_once):
        parts.append(measure(given[start : start + at_once].astype(np.float64)))
    return np.concatenate(parts)


def quotient(part: Floats, whole: Floats) -> Floats:
    """A share of each whole, NaN where that is 0."""
    share: Floats = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return share


def _group_starts(ordered: Floats) -> NDArray[np.intp]:
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


@overload
def area_under_curve(scores: ArrayLike, labels: ArrayLike, weights: None = None) -> float: ...


@overload
def area_under_curve(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike) -> Floats: ...


def area_under_curve(
    scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None
) -> float | Floats:
    """Area under the ROC curve: the chance that a positive scores above a negative.

    In [0, 1]; a tie counts one half.  Both classes must occur.

    Source: Mann and Whitney 1947.
    """
    values, truth = scores_and_truth(scores, labels)
    order = np.argsort(values, kind="stable")
    ordered = truth[order]
    starts = _group_starts(values[order])

    def area(block: Floats) -> Floats:
        block = block[:, order]
        total = np.add.reduceat(block, starts, axis=1)
        present = np.add.reduceat(block * ordered, starts, axis=1)
        absent = total - present
        below = absent.cumsum(axis=1)
        wins = (present * (below - absent / 2)).sum(axis=1)
        return quotient(wins, present.sum(axis=1) * below[:, -1])

    if weights is None:
        return float(area(np.ones((1, len(values))))[0])
    return _blocks(weights, len(values), area)


@overload
def average_precision(scores: ArrayLike, labels: ArrayLike, weights: None = None) -> float: ...


@overload
def average_precision(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike) -> Floats: ...


def average_precision(
    scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None
) -> float | Floats:
    """Precision averaged over the steps of recall, without interpolation; in (0, 1].

    Equal scores are one step, so that their order does not matter; the value for a random order
    is the share of positives.  At least one label is 1.

    Source: Manning, Raghavan and Schütze 2008, section 8.4; ties as in scikit-learn.
    """
    if weights is None:
        _, true, false = _counts(scores, labels)
        return float((np.diff(true / true[-1], prepend=0.0) * (true / (true + false))).sum())
    values, truth = scores_and_truth(scores, labels, negative=False)
    order = np.argsort(-values, kind="stable")
    ordered = truth[order]
    starts = _group_starts(values[order])
    group = np.searchsorted(starts, np.flatnonzero(ordered), side="right") - 1
    # Recall makes a step where a group of equal scores holds a positive; others only add up.
    stops, first = np.unique(group, return_index=True)
    ends = np.append(starts[1:], len(values))[stops]
    positives, upto = order[ordered], order[: ends[-1]]
    begins = np.append(0, ends[:-1])

    def precision(block: Floats) -> Floats:
        total = np.add.reduceat(block[:, upto], begins, axis=1).cumsum(axis=1)
        present = np.add.reduceat(block[:, positives], first, axis=1)
        found = present.cumsum(axis=1)
        # Before the first drawn row precision is 0 / 0, but recall makes no step there.
        steps = present * np.divide(found, total, out=np.zeros_like(found), where=total > 0)
        return quotient(steps.sum(axis=1), found[:, -1])

    return _blocks(weights, len(values), precision)


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Mean of a value a row on each resample, [n] and [R, n] -> [R].

    The values have no NaN: a contrast-to-noise ratio, a reciprocal rank, right or wrong.
    """
    numbers = _numbers(values)
    return _blocks(
        weights, len(numbers), lambda block: quotient(block @ numbers, block.sum(axis=1))
    )


def weighted_median(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Median of a value a row on each resample, [n] and whole numbers [R, n] -> [R].

    Of an even number of rows it is the mean of the middle two.
    """
    numbers = _numbers(values)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]

    def median(block: Floats) -> Floats:
        medians = np.full(len(block), np.nan)
        for row, upto in enumerate(block[:, order].cumsum(axis=1)):
            if total := upto[-1]:
                middle = upto.searchsorted([(total - 1) // 2, total // 2], side="right")
                medians[row] = ordered[middle].mean()
        return medians

    return _blocks(weights, len(numbers), median)


def _numbers(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size or np.isnan(numbers).any():
        raise ValueError("values must be a list of numbers without NaN; leave NaN rows out first")
    return numbers


def _counts(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Distinct scores from the highest, and true and false positives at or above each."""
    values, truth = scores_and_truth(scores, labels, negative=False)
    distinct, place = np.unique(-values, return_inverse=True)
    true: Floats = np.cumsum(np.bincount(place, weights=truth.astype(np.float64)))
    return -distinct, true, np.cumsum(np.bincount(place, weights=(~truth).astype(np.float64)))


def youden_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """The threshold with the largest sensitivity + specificity − 1, of the validation images.

    Halfway between two scores; above it says present.  The highest of several equally good.

    Source: Youden 1950.
    """
    scores_and_truth(scores, labels)
    thresholds, true, false = _counts(scores, labels)
    # Whole numbers, so that equally good thresholds are equal.
    place = int((true * false[-1] - false * true[-1]).argmax())
    high = float(thresholds[place])
    if place + 1 == len(thresholds):
        return float(np.nextafter(high, -np.inf))
    low = float(thresholds[place + 1])
    # Halfway suits new rows best.  Each is halved first so that the sum cannot overflow, and
    # between neighboring numbers halfway may round up to the upper one.
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low
