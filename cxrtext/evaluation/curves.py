"""Curves of a score against labels, their points, and thresholds chosen from them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.binary import Floats, scores_and_truth


@dataclass(frozen=True, slots=True)
class RocCurve:
    """The points of a ROC curve, from the strictest threshold to the loosest.

    Args:
        thresholds: [k + 1], the distinct scores from the highest, after infinity; a score at or
            above the threshold says present.
        false_positive_rate: [k + 1], from 0 to 1.
        true_positive_rate: [k + 1], from 0 to 1.
    """

    thresholds: Floats
    false_positive_rate: Floats
    true_positive_rate: Floats


@dataclass(frozen=True, slots=True)
class PrecisionRecallCurve:
    """The points of a precision-recall curve, from the strictest threshold to the loosest.

    Args:
        thresholds: [k], the distinct scores from the highest; a score at or above it says present.
        precision: [k].
        recall: [k], rising to 1.
    """

    thresholds: Floats
    precision: Floats
    recall: Floats


def _counts(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Distinct scores from the highest, and true and false positives at or above each."""
    values, truth = scores_and_truth(scores, labels, negative=False)
    distinct, place = np.unique(-values, return_inverse=True)
    true: Floats = np.cumsum(np.bincount(place, weights=truth.astype(np.float64)))
    false: Floats = np.cumsum(np.bincount(place, weights=(~truth).astype(np.float64)))
    return -distinct, true, false


def roc_curve(scores: ArrayLike, labels: ArrayLike) -> RocCurve:
    """The points of the ROC curve; equal scores make one point.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; both must occur.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Fawcett 2006, algorithm 1.
    """
    scores_and_truth(scores, labels)
    thresholds, true, false = _counts(scores, labels)
    return RocCurve(
        np.concatenate([[np.inf], thresholds]),
        np.concatenate([[0.0], false / false[-1]]),
        np.concatenate([[0.0], true / true[-1]]),
    )


def precision_recall_curve(scores: ArrayLike, labels: ArrayLike) -> PrecisionRecallCurve:
    """The points of the precision-recall curve; equal scores make one point.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; at least one is 1.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Davis and Goadrich 2006.
    """
    thresholds, true, false = _counts(scores, labels)
    return PrecisionRecallCurve(thresholds, true / (true + false), true / true[-1])


def average_precision(scores: ArrayLike, labels: ArrayLike) -> float:
    """Precision averaged over the steps of recall, without interpolation.

    Equal scores are one step, so that their order does not matter; the value for a random order
    is the share of positives.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; at least one is 1.

    Returns:
        In (0, 1].

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Manning, Raghavan and Schütze 2008, section 8.4; ties as in scikit-learn.
    """
    curve = precision_recall_curve(scores, labels)
    return float((np.diff(curve.recall, prepend=0.0) * curve.precision).sum())


def accuracy(scores: ArrayLike, labels: ArrayLike, threshold: float = 0.0) -> float:
    """Share of rows on the right side of a threshold; above it says present.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0.
        threshold: 0 for the difference of two prompts' scores.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.
    """
    values, truth = scores_and_truth(scores, labels, positive=False, negative=False)
    return float(((values > threshold) == truth).mean())


def sensitivity_and_specificity(
    scores: ArrayLike, labels: ArrayLike, threshold: float
) -> tuple[float, float]:
    """Share of positives above a threshold, and of negatives not above it.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; both must occur.
        threshold: Chosen on other rows (:func:`youden_threshold`,
            :func:`sensitivity_threshold`), or the figures flatter.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Yerushalmy 1947.
    """
    values, truth = scores_and_truth(scores, labels)
    above = values > threshold
    return float(above[truth].mean()), float((~above)[~truth].mean())


def _just_below(thresholds: Floats, place: int) -> float:
    """A number above which stand exactly the scores down to ``thresholds[place]``."""
    high = float(thresholds[place])
    if place + 1 == len(thresholds):
        return float(np.nextafter(high, -np.inf))
    low = float(thresholds[place + 1])
    # Halfway suits new rows best.  Each is halved first so that the sum cannot overflow, and
    # between neighbouring numbers halfway may round up to the upper one.
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def youden_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """The threshold with the largest sensitivity + specificity − 1.

    Args:
        scores: [n], finite: of the validation images.
        labels: [n], 1 or 0; both must occur.

    Returns:
        Halfway between two scores; above it says present.  The highest of several equally good.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Youden 1950.
    """
    scores_and_truth(scores, labels)
    thresholds, true, false = _counts(scores, labels)
    # Whole numbers, so that equally good thresholds are equal.
    gain = true * false[-1] - false * true[-1]
    return _just_below(thresholds, int(gain.argmax()))


def sensitivity_threshold(scores: ArrayLike, labels: ArrayLike, sensitivity: float) -> float:
    """The highest threshold that finds at least a given share of the positives.

    Args:
        scores: [n], finite: of the validation images.
        labels: [n], 1 or 0; at least one is 1.
        sensitivity: The share wanted, in (0, 1].

    Returns:
        Halfway between two scores; above it says present.

    Raises:
        ValueError: ``sensitivity`` is out of range; or see
            :func:`~cxrtext.evaluation.binary.scores_and_truth`.
    """
    if not 0 < sensitivity <= 1:
        raise ValueError(f"sensitivity must lie in (0, 1], not {sensitivity}")
    thresholds, true, _ = _counts(scores, labels)
    # A share such as 0.95 of 20 positives must not be missed by a rounding.
    enough = true >= sensitivity * true[-1] * (1 - 1e-12)
    return _just_below(thresholds, int(enough.argmax()))
