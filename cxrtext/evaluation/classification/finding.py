"""Every measure of one finding with its interval, by the scores of its prompts."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.calibration import (
    Calibration,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
)
from cxrtext.evaluation.intervals.bootstrap import Interval, interval_of, logit_interval
from cxrtext.evaluation.intervals.delong import Area, area
from cxrtext.evaluation.intervals.methods import AREA, LOGIT, RESAMPLED, SHARE
from cxrtext.evaluation.intervals.proportions import proportion
from cxrtext.evaluation.metrics import (
    Floats,
    Truth,
    average_precision,
    weighted_mean,
    youden_threshold,
)
from cxrtext.evaluation.rows import ZERO_SHOT, Rows, estimate

UNSCALED = Calibration()
"""Temperature 1."""


@dataclass(frozen=True, slots=True)
class ValidationFit:
    """What the validation images of a finding choose, and how many of them have it or not.

    ``calibration`` is by a temperature alone, ``platt`` by a scale and a shift.
    """

    threshold: float
    calibration: Calibration
    platt: Calibration
    positives: int
    negatives: int


UNFITTED = ValidationFit(0.0, UNSCALED, UNSCALED, 0, 0)


Counts = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Case:
    """What a measure of a finding is taken of: scores and labels of [n] images, and the fit.

    ``positive`` and ``negative`` are the scores of each prompt, ``scores`` their difference.
    """

    positive: Floats
    negative: Floats
    truth: Truth
    fit: ValidationFit = UNFITTED
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", self.positive - self.negative)

    def error(self, calibration: Calibration) -> float:
        return expected_calibration_error(calibration.probabilities(self.scores), self.truth)

    def precision(self, drawn: "Drawn") -> "Value":
        value = average_precision(self.scores, self.truth)
        resampled = average_precision(self.scores, self.truth, drawn.counts)
        positives = len(np.unique(drawn.codes[self.truth]))
        ends = logit_interval(value, resampled, positives) if drawn.patients > 1 else None
        return Value(value, ends)

    def brier(self, drawn: "Drawn") -> "Value":
        probabilities = self.fit.calibration.probabilities(self.scores)
        resampled = weighted_mean((probabilities - self.truth) ** 2, drawn.counts)
        return Value(brier_score(probabilities, self.truth), interval_of(resampled, drawn.patients))

    def right(self, threshold: float, rows: Truth, drawn: "Drawn") -> "Value":
        """Share of some images that are on the right side of a threshold."""
        share = proportion(self._right(threshold)[rows], drawn.codes[rows])
        return Value(share.value, share.interval())

    def accuracy(self, drawn: "Drawn") -> "Value":
        """Share of all images whose higher-scoring prompt is the label."""
        right = self._right(0.0)
        share = proportion(right, drawn.codes)
        resampled = weighted_mean(right, drawn.counts)
        return Value(share.value, share.interval(), share=(right, drawn.codes, resampled))

    def _right(self, threshold: float) -> Floats:
        right: Floats = ((self.scores > threshold) == self.truth).astype(np.float64)
        return right


Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Whose the [n] images of a finding are: numbers [n] of patients, of ``total`` in all.

    ``counts`` [R, n] say how often each image is in each of R resamples of the patients.
    """

    codes: Places
    total: int
    counts: Counts

    @property
    def patients(self) -> int:
        """How many patients these images are of."""
        return len(np.unique(self.codes))


@dataclass(frozen=True, slots=True)
class Value:
    """A measure of a finding with its interval, and what its mean over findings is made of.

    Of an AUC the ``area``, of a ``share`` whether each row is right, its patient's number, and the
    share in each resample, [R].  Nothing in it holds on to the resamples themselves, which take
    more room than all else.
    """

    value: float | None
    ends: Interval | None = None
    area: Area | None = None
    share: tuple[Floats, Places, Floats] | None = None


@dataclass(frozen=True, slots=True)
class FindingMeasure:
    """A measure of one finding, how it is computed, and by what ``method`` its interval.

    ``definition`` is what the report says of it, several under one ``title``; ``digits`` those
    after the point.  ``both``: it wants images with and without the finding; ``fitted``: a fit to
    validation images; ``sides``: scores of two prompts; ``mean``: its mean over findings is
    measured, by which models are compared.
    """

    name: str
    of: Callable[[Case, Drawn], Value]
    method: str = ""
    definition: str = ""
    title: str = ""
    digits: int = 3
    both: bool = False
    fitted: bool = False
    sides: bool = False
    mean: bool = False


def _area(scores: Callable[[Case], Floats]) -> Callable[[Case, Drawn], Value]:
    def of(case: Case, drawn: Drawn) -> Value:
        one = area(scores(case), case.truth, drawn.codes, drawn.total)
        return Value(one.value, one.interval(), one)

    return of


SCORED = (
    FindingMeasure(
        "AUC", _area(lambda case: case.scores), AREA,
        "the chance that an image with the finding scores above one without; a tie is one half.",
        both=True, mean=True,
    ),
    FindingMeasure(
        "AUC, positive prompt", _area(lambda case: case.positive), AREA,
        "the AUC of the score of the prompt that says that the finding is there, alone.",
        both=True, sides=True, mean=True,
    ),
    FindingMeasure(
        "AUC, negative prompt", _area(lambda case: -case.negative), AREA,
        "the AUC of the score of the prompt that says that it is not, alone, counted for absence: "
        "below 0.5 the prompt ranks images the wrong way round.",
        both=True, sides=True, mean=True,
    ),
    FindingMeasure(
        "AP", Case.precision, LOGIT,
        "average precision: the sum over steps of recall of step times precision, not "
        "interpolated; of a random order it is the share of images with the finding.",
        both=True,
    ),
    FindingMeasure(
        "ACC", Case.accuracy, SHARE,
        "the share of images whose higher-scoring prompt is the label.",
        mean=True,
    ),
)  # fmt: skip
FITTED = (
    FindingMeasure(
        "threshold", lambda case, _: Value(case.fit.threshold), digits=2, fitted=True
    ),
    FindingMeasure(
        "sensitivity", lambda case, drawn: case.right(case.fit.threshold, case.truth, drawn), SHARE,
        "the shares of images with and without the finding on the right side of a threshold that "
        "validation images chose (the largest sum of both, Youden).",
        "Sensitivity, specificity", digits=2, both=True, fitted=True,
    ),
    FindingMeasure(
        "specificity", lambda case, drawn: case.right(case.fit.threshold, ~case.truth, drawn),
        SHARE, digits=2, both=True, fitted=True,
    ),
    FindingMeasure(
        "T", lambda case, _: Value(case.fit.calibration.temperature), digits=2, fitted=True
    ),
    FindingMeasure(
        "ECE before", lambda case, _: Value(case.error(UNSCALED)), "",
        "expected calibration error: the gap between mean probability and share of positives, "
        "averaged over 15 equal bins by their images. The probability is the logistic of the score "
        "difference (before), of the difference over a temperature (T), or scaled and shifted "
        "(Platt).",
        "ECE",
    ),
    FindingMeasure(
        "ECE with T", lambda case, _: Value(case.error(case.fit.calibration)), fitted=True
    ),
    FindingMeasure("ECE Platt", lambda case, _: Value(case.error(case.fit.platt)), fitted=True),
    FindingMeasure(
        "Brier", Case.brier, RESAMPLED,
        "the mean squared difference of probability and label, at temperature T.",
    ),
)  # fmt: skip
MEASURES = SCORED + FITTED
"""Every measure of a finding; the report's two tables of them and its definitions follow from it.

The accuracy is at 0; the threshold (Youden) and the temperature T are chosen on validation images,
the sensitivity and specificity are at that threshold, and the Brier score is at T, else at 1.
Where the calibration error (ECE) with Platt's scale and shift is far lower than with T, the prompts
are shifted, which no temperature corrects.
"""


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
    rows: Rows,
    finding: str,
    case: Case,
    left_out: int,
    drawn: Drawn,
    part: str = ZERO_SHOT,
) -> dict[str, Value]:
    """Measure one finding, of the [n] images whose label is known, into a part of the rows.

    ``left_out`` counts the other images.

    Returns by measure what each mean over findings is made of.
    """
    truth = case.truth
    positives = int(truth.sum())
    negatives = len(truth) - positives
    both, fitted = bool(positives and negatives), case.fit is not UNFITTED
    sides = bool(case.negative.any())  # a model without prompts has one score
    found = {
        one.name: one.of(case, drawn)
        for one in MEASURES
        if len(truth) and both >= one.both and fitted >= one.fitted and sides >= one.sides
    }
    for one in MEASURES:
        value = found.get(one.name, Value(None))
        known = estimate(value.value, value.ends)
        rows.add(part, finding, one.name, known, len(truth), one.method)
    for name, count in (("with", positives), ("without", negatives), ("left out", left_out)):
        rows.add(part, finding, name, count)
    return found
