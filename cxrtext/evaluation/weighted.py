"""Measures of many resamples at once: rows weighed by how often each occurs.

``weights`` is [R, n], as :func:`~cxrtext.evaluation.bootstrap.resample_patients` gives it; a row of
ones is the data as they are.  Rows of scores are sorted once for all resamples, and resamples are
taken in blocks, so that memory stays bounded.  A resample without what a measure needs is NaN.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.binary import Floats, scores_and_truth

WEIGHTS_AT_ONCE = 1 << 21
"""Weights looked at at the same time; bounds memory."""


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


def _share(part: Floats, whole: Floats) -> Floats:
    share: Floats = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return share


def weighted_auc(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike) -> Floats:
    """Area under the ROC curve of each resample; a tie counts one half.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; both must occur.
        weights: [R, n].

    Returns:
        [R]; NaN where a resample lacks a class.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

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
        return _share(wins, present.sum(axis=1) * below[:, -1])

    return _blocks(weights, len(values), area)


def weighted_average_precision(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike) -> Floats:
    """Average precision of each resample; equal scores are one step.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; at least one is 1.
        weights: [R, n].

    Returns:
        [R]; NaN where a resample lacks positives.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: As :func:`~cxrtext.evaluation.curves.average_precision`.
    """
    values, truth = scores_and_truth(scores, labels, negative=False)
    order = np.argsort(-values, kind="stable")
    ordered = truth[order]
    starts = _group_starts(values[order])

    def precision(block: Floats) -> Floats:
        block = block[:, order]
        total = np.add.reduceat(block, starts, axis=1).cumsum(axis=1)
        present = np.add.reduceat(block * ordered, starts, axis=1)
        found = present.cumsum(axis=1)
        # Before the first drawn row precision is 0 / 0, but recall makes no step there.
        steps = present * np.divide(found, total, out=np.zeros_like(found), where=total > 0)
        return _share(steps.sum(axis=1), found[:, -1])

    return _blocks(weights, len(values), precision)


def _group_starts(ordered: Floats) -> NDArray[np.intp]:
    """Where each run of equal values starts."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Mean of a value a row in each resample.

    Args:
        values: [n], without NaN: a contrast-to-noise ratio, a reciprocal rank, right or wrong.
        weights: [R, n].

    Returns:
        [R].

    Raises:
        ValueError: A value is NaN, or the shapes do not fit.
    """
    numbers = _numbers(values)
    return _blocks(weights, len(numbers), lambda block: _share(block @ numbers, block.sum(axis=1)))


def weighted_accuracy(
    scores: ArrayLike, labels: ArrayLike, weights: ArrayLike, threshold: float = 0.0
) -> Floats:
    """Accuracy of each resample; a score above the threshold says present.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0.
        weights: [R, n].
        threshold: 0 for the difference of two prompts' scores.

    Returns:
        [R].

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.
    """
    values, truth = scores_and_truth(scores, labels, positive=False, negative=False)
    return weighted_mean((values > threshold) == truth, weights)


def weighted_recall(ranks: ArrayLike, cutoff: int, weights: ArrayLike) -> Floats:
    """Recall at a cut-off in each resample of the queries; the candidates stay as they are.

    Args:
        ranks: [n], from 1.
        cutoff: K.
        weights: [R, n].

    Returns:
        [R].

    Raises:
        ValueError: The shapes do not fit.
    """
    return weighted_mean(np.asarray(ranks) <= cutoff, weights)


def weighted_median(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Median of a value a row in each resample, such as the median rank.

    Args:
        values: [n], without NaN.
        weights: [R, n], whole numbers.

    Returns:
        [R]; of an even number of rows the mean of the middle two.

    Raises:
        ValueError: A value is NaN, or the shapes do not fit.
    """
    numbers = _numbers(values)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]

    def median(block: Floats) -> Floats:
        upto = block[:, order].cumsum(axis=1)
        total = upto[:, -1:]
        lower = ordered[(upto > (total - 1) // 2).argmax(axis=1)]
        upper = ordered[(upto > total // 2).argmax(axis=1)]
        return np.where(total[:, 0] > 0, (lower + upper) / 2, np.nan)

    return _blocks(weights, len(numbers), median)


def _numbers(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size or np.isnan(numbers).any():
        raise ValueError("values must be a list of numbers without NaN; leave NaN rows out first")
    return numbers
