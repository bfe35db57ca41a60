"""Every measure of one finding with its interval, by the scores of its prompts."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.classification.calibration import (
    Calibration,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
)
from cxrtext.evaluation.intervals.bootstrap import (
    Interval,
    interval_of,
    known_intervals,
    logit_interval,
)
from cxrtext.evaluation.intervals.delong import Area, area
from cxrtext.evaluation.intervals.proportions import proportion
from cxrtext.evaluation.metrics import (
    Floats,
    Truth,
    average_precision,
    weighted_mean,
    youden_threshold,
)

UNSCALED = Calibration()
"""Temperature 1."""


@dataclass(frozen=True, slots=True)
class FindingResult:
    """Zero-shot classification of one finding; None where a class or a validation image lacks.

    ``auc`` is of the score difference, ``auc_positive`` and ``auc_negative`` of each prompt alone;
    the negative prompt counts for absence, so that 0.5 is chance for all three.

    ``left_out`` counts images with an unknown label, or an uncertain one that is ignored.  The
    accuracy is at 0; threshold (Youden) and temperature are chosen on validation images, and the
    sensitivity and specificity are at that threshold.  Calibration errors are of probabilities at
    that temperature, at temperature 1, and with a scale and a shift; where the last is far lower,
    the prompts are shifted, which no temperature corrects.  The Brier score is at that temperature,
    else at 1.  ``intervals`` has (low, high) by measure, as far as measured.
    """

    auc: float | None = None
    auc_positive: float | None = None
    auc_negative: float | None = None
    accuracy: float | None = None
    positives: int = 0
    negatives: int = 0
    left_out: int = 0
    average_precision: float | None = None
    threshold: float | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    temperature: float | None = None
    calibration_error: float | None = None
    calibration_error_before: float | None = None
    calibration_error_platt: float | None = None
    brier: float | None = None
    intervals: dict[str, Interval] = field(default_factory=dict)


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
        """Expected calibration error with a calibration."""
        return expected_calibration_error(calibration.probabilities(self.scores), self.truth)

    def precision(self, drawn: "Drawn") -> "Found":
        """Average precision."""
        value = average_precision(self.scores, self.truth)
        resampled = average_precision(self.scores, self.truth, drawn.counts)
        positives = len(np.unique(drawn.codes[self.truth]))
        ends = logit_interval(value, resampled, positives) if drawn.patients > 1 else None
        return Found(value, ends)

    def brier(self, drawn: "Drawn") -> "Found":
        """Mean squared difference of probability and label."""
        probabilities = self.fit.calibration.probabilities(self.scores)
        resampled = weighted_mean((probabilities - self.truth) ** 2, drawn.counts)
        value = brier_score(probabilities, self.truth)
        return Found(value, interval_of(resampled, drawn.patients))

    def right(self, threshold: float, rows: Truth, drawn: "Drawn") -> "Found":
        """Share of some images that are on the right side of a threshold."""
        share = proportion(self._right(threshold)[rows], drawn.codes[rows])
        return Found(share.value, share.interval())

    def accuracy(self, drawn: "Drawn") -> "Found":
        """Share of all images whose higher-scoring prompt is the label."""
        right = self._right(0.0)
        share = proportion(right, drawn.codes)
        resampled = weighted_mean(right, drawn.counts)
        return Found(share.value, share.interval(), share=(right, drawn.codes, resampled))

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
class Found:
    """A measure of a finding with its interval, and what its mean over findings is made of.

    Of an AUC the ``area``, of a ``share`` whether each row is right, its patient's number, and the
    share in each resample, [R].  Nothing in it holds on to the resamples themselves, which take
    more room than all else.
    """

    value: float
    ends: Interval | None = None
    area: Area | None = None
    share: tuple[Floats, Places, Floats] | None = None


Measured = Callable[[Case, Drawn], Found]


@dataclass(frozen=True, slots=True)
class FindingMeasure:
    """A measure of one finding: a field of :class:`FindingResult`, and how it is computed.

    One with a ``column`` stands in the report's table of findings, and with its ``definition``
    below.  ``both``: it wants images with and without the finding; ``fitted``: a fit to validation
    images; ``sides``: scores of two prompts.
    """

    field: str
    of: Measured
    column: str = ""
    definition: str = ""
    both: bool = False
    fitted: bool = False
    sides: bool = False


def _area(scores: Callable[[Case], Floats]) -> Measured:
    """The AUC of some scores."""

    def of(case: Case, drawn: Drawn) -> Found:
        one = area(scores(case), case.truth, drawn.codes, drawn.total)
        return Found(one.value, one.interval(), one)

    return of


MEASURES = (
    FindingMeasure(
        "auc", _area(lambda case: case.scores), "AUC",
        "the chance that an image with the finding scores above one without; a tie is one half.",
        both=True,
    ),
    FindingMeasure(
        "auc_positive", _area(lambda case: case.positive), "AUC, positive prompt",
        "the AUC of the score of the prompt that says that the finding is there, alone.",
        both=True, sides=True,
    ),
    FindingMeasure(
        "auc_negative", _area(lambda case: -case.negative), "AUC, negative prompt",
        "the AUC of the score of the prompt that says that it is not, alone, counted for absence: "
        "below 0.5 the prompt ranks images the wrong way round.",
        both=True, sides=True,
    ),
    FindingMeasure(
        "average_precision", Case.precision, "AP",
        "average precision: the sum over steps of recall of step times precision, not "
        "interpolated; of a random order it is the share of images with the finding.",
        both=True,
    ),
    FindingMeasure(
        "accuracy", Case.accuracy, "ACC",
        "the share of images whose higher-scoring prompt is the label.",
    ),
    FindingMeasure("brier", Case.brier),
    FindingMeasure(
        "sensitivity", lambda case, drawn: case.right(case.fit.threshold, case.truth, drawn),
        both=True, fitted=True,
    ),
    FindingMeasure(
        "specificity", lambda case, drawn: case.right(case.fit.threshold, ~case.truth, drawn),
        both=True, fitted=True,
    ),
    FindingMeasure("calibration_error_before", lambda case, _: Found(case.error(UNSCALED))),
    FindingMeasure(
        "calibration_error", lambda case, _: Found(case.error(case.fit.calibration)), fitted=True
    ),
    FindingMeasure(
        "calibration_error_platt", lambda case, _: Found(case.error(case.fit.platt)), fitted=True
    ),
)  # fmt: skip
"""Every measure of a finding; the report's table and definitions follow from this list."""


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
    case: Case, left_out: int, drawn: Drawn
) -> tuple[FindingResult, dict[str, Found]]:
    """Measure one finding, of the [n] images whose label is known; ``left_out`` counts the others.

    Returns:
        The figures, and by field what each mean over findings is made of.
    """
    truth, fit = case.truth, case.fit
    positives = int(truth.sum())
    negatives = len(truth) - positives
    result = FindingResult(positives=positives, negatives=negatives, left_out=left_out)
    if not len(truth):
        return result, {}
    both, fitted = bool(positives and negatives), fit is not UNFITTED
    sides = bool(case.negative.any())  # a model without prompts has one score
    known = [
        one for one in MEASURES if both >= one.both and fitted >= one.fitted and sides >= one.sides
    ]
    found = {one.field: one.of(case, drawn) for one in known}
    values: dict[str, Any] = {name: one.value for name, one in found.items()}
    if fitted:
        values |= {"threshold": fit.threshold, "temperature": fit.calibration.temperature}
    ends = known_intervals({name: one.ends for name, one in found.items()})
    return replace(result, intervals=ends, **values), found
