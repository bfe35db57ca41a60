"""Every measure of one finding, from the scores of its prompts."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.rows import ZERO_SHOT, Rows
from cxrtext.metrics.calibration import (
    Calibration,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
)
from cxrtext.metrics.intervals import Measured, area, mean_of, precision_of, share
from cxrtext.metrics.ranking import Floats, Truth, youden_threshold

UNSCALED = Calibration()
"""Temperature 1."""
Value = Measured | float | None


@dataclass(frozen=True, slots=True)
class ValidationFit:
    """What a finding's validation images choose, and how many of them have it or not.

    ``calibration`` has only a temperature, ``platt`` a scale and a shift.
    """

    threshold: float
    calibration: Calibration
    platt: Calibration
    positives: int
    negatives: int


UNFITTED = ValidationFit(0.0, UNSCALED, UNSCALED, 0, 0)


@dataclass(frozen=True, slots=True)
class Case:
    """What a finding is measured from: scores and labels of [n] images, and the fit.

    ``positive`` and ``negative`` are the scores of each prompt, ``scores`` their difference;
    ``codes`` [n] number the images' patients, ``total`` in all.
    """

    positive: Floats
    negative: Floats
    truth: Truth
    codes: NDArray[np.intp]
    total: int
    fit: ValidationFit = UNFITTED
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", self.positive - self.negative)

    def area(self, scores: Floats) -> Measured:
        return area(scores, self.truth, self.codes, self.total)

    def error(self, calibration: Calibration) -> float:
        return expected_calibration_error(calibration.probabilities(self.scores), self.truth)

    def brier(self) -> Measured | None:
        probabilities = self.fit.calibration.probabilities(self.scores)
        return mean_of((probabilities - self.truth) ** 2, self.codes, self.total)

    def right(self, threshold: float, rows: Truth | None = None) -> Measured:
        """The share of images, or of some rows, on the right side of a threshold."""
        right = (self.scores > threshold) == self.truth
        at = np.ones_like(self.truth) if rows is None else rows
        return share(right[at], self.codes[at], self.total)


@dataclass(frozen=True, slots=True)
class FindingMeasure:
    """A measure of one finding, and how it is computed.

    ``definition`` is its text in the report, where several share one ``title``; ``digits`` counts
    those after the point.  It needs images with and without the finding if ``both``, a fit to
    validation images if ``fitted``, and scores of two prompts if ``sides``.  ``mean``: models are
    compared by its mean over findings.
    """

    name: str
    of: Callable[[Case], Value]
    definition: str = ""
    title: str = ""
    digits: int = 3
    both: bool = False
    fitted: bool = False
    sides: bool = False
    mean: bool = False


SCORED = (
    FindingMeasure(
        "AUC", lambda case: case.area(case.scores),
        "the chance that an image with the finding scores above one without; a tie is one half.",
        both=True, mean=True,
    ),
    FindingMeasure(
        "AUC, positive prompt", lambda case: case.area(case.positive),
        "the AUC of the score of the prompt that says that the finding is there, alone.",
        both=True, sides=True, mean=True,
    ),
    FindingMeasure(
        "AUC, negative prompt", lambda case: case.area(-case.negative),
        "the AUC of the score of the prompt that says that it is not, alone, counted for absence: "
        "below 0.5 the prompt ranks images the wrong way round.",
        both=True, sides=True, mean=True,
    ),
    FindingMeasure(
        "AP", lambda case: precision_of(case.scores, case.truth, case.codes, case.total),
        "average precision: the sum over steps of recall of step times precision, not "
        "interpolated; of a random order it is the share of images with the finding.",
        both=True,
    ),
    FindingMeasure(
        "ACC", lambda case: case.right(0.0),
        "the share of images whose higher-scoring prompt is the label.",
        mean=True,
    ),
)  # fmt: skip
FITTED = (
    FindingMeasure("threshold", lambda case: case.fit.threshold, digits=2, fitted=True),
    FindingMeasure(
        "sensitivity", lambda case: case.right(case.fit.threshold, case.truth),
        "the shares of images with and without the finding on the right side of a threshold that "
        "validation images chose (the largest sum of both, Youden).",
        "Sensitivity, specificity", digits=2, both=True, fitted=True,
    ),
    FindingMeasure(
        "specificity", lambda case: case.right(case.fit.threshold, ~case.truth),
        digits=2, both=True, fitted=True,
    ),
    FindingMeasure("T", lambda case: case.fit.calibration.temperature, digits=2, fitted=True),
    FindingMeasure(
        "ECE before", lambda case: case.error(UNSCALED),
        "expected calibration error: the gap between mean probability and share of positives, "
        "averaged over 15 equal bins by their images. The probability is the logistic of the score "
        "difference (before), of the difference over a temperature (T), or scaled and shifted "
        "(Platt).",
        "ECE",
    ),
    FindingMeasure("ECE with T", lambda case: case.error(case.fit.calibration), fitted=True),
    FindingMeasure("ECE Platt", lambda case: case.error(case.fit.platt), fitted=True),
    FindingMeasure(
        "Brier", Case.brier,
        "the mean squared difference of probability and label, at temperature T.",
    ),
)  # fmt: skip
MEASURES = SCORED + FITTED
"""Every measure of a finding; the report takes its two tables and its definitions from here.

The accuracy is at 0; the threshold (Youden) and the temperature T are chosen on validation images,
the sensitivity and specificity are at that threshold, and the Brier score is at T, or else at 1.
If the calibration error (ECE) with Platt's scale and shift is far lower than with T, the prompts
are shifted, which no temperature corrects.
"""


def fit_validation(scores: Floats, truth: Truth) -> ValidationFit | None:
    """Choose a threshold and a temperature; None if validation images have one class only."""
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
    rows: Rows, finding: str, case: Case, left_out: int, part: str = ZERO_SHOT
) -> dict[str, Value]:
    """Measure one finding on the [n] images with a known label, into a part of the rows.

    ``left_out`` counts the other images.  Returns the measures by name.
    """
    truth = case.truth
    positives = int(truth.sum())
    negatives = len(truth) - positives
    both, fitted = bool(positives and negatives), case.fit is not UNFITTED
    sides = bool(case.negative.any())  # a model without prompts has one score
    values = {
        measure.name: measure.of(case)
        for measure in MEASURES
        if len(truth)
        and both >= measure.both
        and fitted >= measure.fitted
        and sides >= measure.sides
    }
    for measure in MEASURES:
        rows.add(part, finding, measure.name, values.get(measure.name), len(truth))
    for name, count in (("with", positives), ("without", negatives), ("left out", left_out)):
        rows.add(part, finding, name, count)
    return values
