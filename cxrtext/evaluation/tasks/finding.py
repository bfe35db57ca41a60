"""Every measure of one finding."""

from dataclasses import dataclass

import numpy as np

from cxrtext.evaluation.binary import Floats, Truth
from cxrtext.evaluation.calibration import Calibration, fit_platt, fit_temperature
from cxrtext.evaluation.classification import FindingResult, area_under_curve
from cxrtext.evaluation.curves import (
    accuracy,
    average_precision,
    sensitivity_and_specificity,
    youden_threshold,
)
from cxrtext.evaluation.reliability import brier_score, expected_calibration_error
from cxrtext.evaluation.tasks.resampling import Counts, intervals_of
from cxrtext.evaluation.weighted import (
    weighted_accuracy,
    weighted_auc,
    weighted_average_precision,
    weighted_mean,
)

UNSCALED = Calibration()
"""Temperature 1."""


@dataclass(frozen=True, slots=True)
class ValidationFit:
    """What the validation images of a finding choose.

    Args:
        threshold: Of the score difference.
        calibration: Turns score differences into probabilities, by a temperature.
        platt: Likewise, by a scale and a shift.
        positives: Validation images with the finding.
        negatives: Validation images without it.
    """

    threshold: float
    calibration: Calibration
    platt: Calibration
    positives: int
    negatives: int


def fit_validation(scores: Floats, truth: Truth) -> ValidationFit | None:
    """Choose a threshold and a temperature; None where validation images lack a class."""
    positives = int(truth.sum())
    if not positives or positives == len(truth):
        return None
    return ValidationFit(
        youden_threshold(scores, truth),
        fit_temperature(scores, truth),
        fit_platt(scores, truth),
        positives,
        len(truth) - positives,
    )


def measure_finding(
    scores: Floats,
    truth: Truth,
    left_out: int,
    fit: ValidationFit | None,
    counts: Counts,
) -> tuple[FindingResult, dict[str, Floats]]:
    """Measure one finding.

    Args:
        scores: [n], of the images whose label is known.
        truth: [n].
        left_out: Images whose label is not.
        fit: What validation images chose.
        counts: [R, n], resamples.

    Returns:
        The result, and each measure on every resample, [R].
    """
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not len(truth):
        return FindingResult(None, None, 0, 0, left_out), {}
    both = bool(positives and negatives)
    calibration = fit.calibration if fit else UNSCALED
    probabilities = calibration.probabilities(scores)
    found = (
        sensitivity_and_specificity(scores, truth, fit.threshold) if fit and both else (None, None)
    )
    resampled = _resampled(scores, truth, probabilities, fit.threshold if fit else None, counts)
    result = FindingResult(
        auc=area_under_curve(scores, truth) if both else None,
        accuracy=accuracy(scores, truth),
        positives=positives,
        negatives=negatives,
        left_out=left_out,
        average_precision=average_precision(scores, truth) if both else None,
        threshold=fit.threshold if fit else None,
        sensitivity=found[0],
        specificity=found[1],
        temperature=calibration.temperature if fit else None,
        calibration_error=expected_calibration_error(probabilities, truth) if fit else None,
        calibration_error_before=expected_calibration_error(UNSCALED.probabilities(scores), truth),
        calibration_error_platt=(
            expected_calibration_error(fit.platt.probabilities(scores), truth) if fit else None
        ),
        brier=brier_score(probabilities, truth),
        intervals=intervals_of(resampled),
    )
    return result, resampled


def _resampled(
    scores: Floats, truth: Truth, probabilities: Floats, threshold: float | None, counts: Counts
) -> dict[str, Floats]:
    found = {
        "accuracy": weighted_accuracy(scores, truth, counts),
        "brier": weighted_mean((probabilities - truth) ** 2, counts),
    }
    if truth.all() or not truth.any():
        return found
    found["auc"] = weighted_auc(scores, truth, counts)
    found["average_precision"] = weighted_average_precision(scores, truth, counts)
    if threshold is not None:
        above = (scores > threshold).astype(np.float64)
        found["sensitivity"] = weighted_mean(above[truth], counts[:, truth])
        found["specificity"] = weighted_mean(1 - above[~truth], counts[:, ~truth])
    return found
