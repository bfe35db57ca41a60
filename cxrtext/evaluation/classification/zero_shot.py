"""Zero-shot classification: scores of prompts, thresholds and calibration, measures, intervals.

A score difference is that of a finding's positive prompt less that of its negative one, times γ²:
above 0 the positive prompt wins, and its logistic is the probability before calibration.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.classification.calibration import (
    Calibration,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
)
from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.intervals.bootstrap import (
    Interval,
    Resampled,
    draw,
    interval_of,
    known_intervals,
    logit_interval,
)
from cxrtext.evaluation.intervals.comparison import OF_FINDING, Compared, Ranked, rows_digest
from cxrtext.evaluation.intervals.delong import Area, area, mean_area
from cxrtext.evaluation.intervals.proportions import (
    cluster_codes,
    mean_proportion,
    proportion,
)
from cxrtext.evaluation.metrics import (
    Floats,
    Truth,
    average_precision,
    settled,
    weighted_mean,
    youden_threshold,
)
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.models import ImageTextModel

Labels = Mapping[str, Mapping[str, int | None]]
"""By study and finding."""
UNSCALED = Calibration()
"""Temperature 1."""


def prompt_embeddings(model: ImageTextModel, prompts: Mapping[str, Prompts]) -> Tensor:
    """Embed prompts, averaging several phrasings of a side as vectors.

    Returns:
        [F, 2, D], unit vectors; positive first.
    """
    sides = [side for entry in prompts.values() for side in (entry.positive, entry.negative)]
    vectors = model.embed_sentences([phrase for side in sides for phrase in side])
    means = [part.mean(dim=0) for part in vectors.split([len(side) for side in sides])]
    return F.normalize(torch.stack(means), dim=-1).view(len(prompts), 2, -1)


def score_differences(model: ImageTextModel, regions: Tensor, prompts: Tensor) -> Tensor:
    """Scaled scores of the positive prompt less the negative one.

    Regions [B, N, D] and the prompts [F, 2, D] of :func:`prompt_embeddings` give
    ``γ² (s_pos − s_neg)``, [F, B].
    """
    F_, _, D = prompts.shape
    scores = model.scores(regions, prompts.reshape(2 * F_, D)).view(F_, 2, -1)
    difference: Tensor = model.gamma_sq * (scores[:, 0] - scores[:, 1])
    return difference


def scorer(
    model: ImageTextModel, prompts: Mapping[str, Prompts], settings: Settings
) -> Callable[[Tensor], Floats]:
    """A function from regions [B, N, D] to scores [2, F, B], the prompts embedded once.

    Scores of the positive and of the negative prompts, times γ².  Of several phrasings of a side
    either the vectors are averaged or the scores.
    """
    sides = [side for one in prompts.values() for side in (one.positive, one.negative)]
    sizes = [len(side) for side in sides]
    if settings.average == "embeddings":
        vectors, sizes = prompt_embeddings(model, prompts).flatten(0, 1), [1] * len(sides)
    else:
        vectors = model.embed_sentences([phrase for side in sides for phrase in side])

    @torch.inference_mode()
    def score(regions: Tensor) -> Floats:
        parts = model.scores(regions, vectors).double().split(sizes)
        means = torch.stack([part.mean(dim=0) for part in parts])  # [2F, B]
        scaled = model.gamma_sq * means.view(len(prompts), 2, -1).transpose(0, 1)
        numbers: Floats = scaled.cpu().numpy()
        return numbers

    return score


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


@dataclass(frozen=True, slots=True)
class FindingScores:
    """Scores of one finding beside its labels: of the [n] images whose label is known.

    ``rows`` are their places in the cohort, ``fit`` what validation images chose.
    """

    scores: Floats
    truth: Truth
    rows: NDArray[np.intp]
    fit: ValidationFit | None


MEANS = {
    "AUC": "auc",
    "AUC, positive prompt": "auc_positive",
    "AUC, negative prompt": "auc_negative",
    "ACC": "accuracy",
}
"""Measures whose means over findings are compared among models."""


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Zero-shot classification of a cohort: results and scores by finding.

    ``intervals`` are of the means of :data:`MEANS` ("mean_auc" and the like); ``compared`` has
    those means by their names, where they are defined, and the AUC of each finding.
    """

    findings: dict[str, FindingResult]
    intervals: dict[str, Interval] = field(default_factory=dict)
    scores: dict[str, FindingScores] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)


def label_rows(
    labels: Labels, studies: Sequence[str], finding: str, settings: Settings
) -> tuple[NDArray[np.intp], Truth]:
    """Places of the studies whose label is known, and what it says."""
    known, truth = settled(label_codes(labels, studies, [finding])[0], settings.uncertain)
    return np.flatnonzero(known), truth[known]


def classify(
    model: ImageTextModel,
    cohort: Cohort,
    prompts: Mapping[str, Prompts],
    labels: Labels,
    settings: Settings,
) -> Classified:
    """Score every finding in every image of a cohort, beside the labels; without thresholds."""
    score = scorer(model, prompts, settings)
    positive, negative = np.concatenate([score(part) for part in cohort.chunks(model)], axis=2)
    return Classified(
        tuple(prompts),
        images_of(cohort.records, (*SLICE_COLUMNS, *settings.slices)),
        positive,
        negative,
        label_codes(labels, cohort.studies, list(prompts)),
        np.ones(len(cohort.records), dtype=np.bool_),
    )


def measure_zero_shot(given: Classified, settings: Settings) -> ZeroShot:
    """Measure every finding, with thresholds and calibration by the validation images."""
    places = np.flatnonzero(given.measured)
    patients = [given.images.patients[place] for place in places]
    codes = cluster_codes(patients)
    total = len(set(patients))
    counts = draw(patients, settings.resamples, (settings.seed, 0))
    differences = given.scores
    results: dict[str, FindingResult] = {}
    scores: dict[str, FindingScores] = {}
    measured: list[dict[str, Found]] = []
    compared: dict[str, Compared] = {}
    names = [given.images.names[place] for place in places]
    for number, finding in enumerate(given.findings):
        seen, said = given.rows(number, settings.uncertain, measured=False)
        fit = fit_validation(differences[number][seen], said) if len(seen) else None
        own, truth = given.rows(number, settings.uncertain)
        positive, negative = given.positive[number][own], given.negative[number][own]
        case = Case(positive, negative, truth, fit or UNFITTED)
        rows = np.searchsorted(places, own)
        scores[finding] = FindingScores(case.scores, truth, rows, fit)
        drawn = Drawn(codes[rows], total, counts[:, rows])
        results[finding], found = measure_finding(case, len(places) - len(rows), drawn)
        measured.append(found)
        if (one := found.get("auc")) and one.area is not None:
            same = rows_digest([(names[row] for row in rows), codes[rows].tolist(), truth.tolist()])
            compared[OF_FINDING + finding] = Ranked(one.area, same)
    labels = given.labels[:, places].ravel().tolist()
    same = rows_digest([names, patients, given.findings, labels, [settings.uncertain]])
    means = {
        name: _mean([found[key] for found in measured], same)
        for name, key in MEANS.items()
        if measured and all(key in found for found in measured)
    }
    ends = {f"mean_{MEANS[name]}": one.interval() for name, one in means.items()}
    return ZeroShot(results, known_intervals(ends), scores, {**means, **compared})


def _mean(found: Sequence[Found], rows: tuple[Hashable, ...]) -> Compared:
    """The mean of a measure over findings, as it is compared among models."""
    areas = [one.area for one in found if one.area is not None]
    if areas:
        return Ranked(mean_area(areas), rows)
    shares = [one.share for one in found if one.share is not None]
    share = mean_proportion([(right, codes) for right, codes, _ in shares])
    values = np.mean([resampled for _, _, resampled in shares], axis=0)
    return Resampled(share.value, values, rows, share.interval(), share.patients)
