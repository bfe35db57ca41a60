"""Zero-shot classification: scores of prompts, thresholds and calibration, measures, intervals.

A score difference is that of a finding's positive prompt less that of its negative one, times γ²:
above 0 the positive prompt wins, and its logistic is the probability before calibration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.bootstrap import Interval, Resampled, draw, intervals_of
from cxrtext.evaluation.calibration import (
    Calibration,
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
)
from cxrtext.evaluation.metrics import (
    Floats,
    Truth,
    accuracy,
    area_under_curve,
    average_precision,
    known_labels,
    sensitivity_and_specificity,
    weighted_mean,
    youden_threshold,
)
from cxrtext.evaluation.prompts import Prompts
from cxrtext.evaluation.settings import Settings
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


def phrasing_scores(
    model: ImageTextModel, regions: Tensor, phrasings: Sequence[tuple[Tensor, Tensor]]
) -> Tensor:
    """:func:`score_differences` where the scores of several phrasings are averaged.

    Of F findings the vectors of the positive and of the negative phrasings, [k, D] each.
    """
    sides = [side for pair in phrasings for side in pair]
    scores = model.scores(regions, torch.cat(sides)).split([len(side) for side in sides])
    means = torch.stack([part.mean(dim=0) for part in scores]).view(len(phrasings), 2, -1)
    difference: Tensor = model.gamma_sq * (means[:, 0] - means[:, 1])
    return difference


def scorer(
    model: ImageTextModel, prompts: Mapping[str, Prompts], settings: Settings
) -> Callable[[Tensor], Floats]:
    """A function from regions [B, N, D] to score differences [F, B], the prompts embedded once."""
    sides = [
        (model.embed_sentences(one.positive), model.embed_sentences(one.negative))
        for one in prompts.values()
    ]
    vectors = prompt_embeddings(model, prompts)

    @torch.inference_mode()
    def score(regions: Tensor) -> Floats:
        if settings.average == "embeddings":
            scores = score_differences(model, regions, vectors)
        else:
            scores = phrasing_scores(model, regions, sides)
        numbers: Floats = scores.double().cpu().numpy()
        return numbers

    return score


@dataclass(frozen=True, slots=True)
class FindingResult:
    """Zero-shot classification of one finding; None where a class or a validation image lacks.

    ``left_out`` counts images with an unknown label, or an uncertain one that is ignored.  The
    accuracy is at 0; threshold (Youden) and temperature are chosen on validation images, and the
    sensitivity and specificity are at that threshold.  Calibration errors are of probabilities at
    that temperature, at temperature 1, and with a scale and a shift; where the last is far lower,
    the prompts are shifted, which no temperature mends.  The Brier score is at that temperature,
    else at 1.  ``intervals`` has (low, high) by measure, as far as measured.
    """

    auc: float | None
    accuracy: float | None
    positives: int
    negatives: int
    left_out: int
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
    counts: NDArray[np.uint16],
) -> tuple[FindingResult, dict[str, Floats]]:
    """Measure one finding, and each measure on every resample, [R].

    Args:
        scores: [n], of the images whose label is known.
        truth: [n].
        left_out: Images whose label is not.
        fit: What validation images chose.
        counts: [R, n], resamples.
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
    scores: Floats,
    truth: Truth,
    probabilities: Floats,
    threshold: float | None,
    counts: NDArray[np.uint16],
) -> dict[str, Floats]:
    found = {
        "accuracy": accuracy(scores, truth, weights=counts),
        "brier": weighted_mean((probabilities - truth) ** 2, counts),
    }
    if truth.all() or not truth.any():
        return found
    found["auc"] = area_under_curve(scores, truth, counts)
    found["average_precision"] = average_precision(scores, truth, counts)
    if threshold is not None:
        above = (scores > threshold).astype(np.float64)
        found["sensitivity"] = weighted_mean(above[truth], counts[:, truth])
        found["specificity"] = weighted_mean(1 - above[~truth], counts[:, ~truth])
    return found


@dataclass(frozen=True, slots=True)
class FindingScores:
    """Scores of one finding beside its labels: of the [n] images whose label is known.

    ``rows`` are their places in the cohort, ``fit`` what validation images chose.
    """

    scores: Floats
    truth: Truth
    rows: NDArray[np.intp]
    fit: ValidationFit | None


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Zero-shot classification of a cohort: results and scores by finding.

    ``intervals`` are of the means "mean_auc" and "mean_accuracy", ``resampled`` those means ("AUC"
    and "ACC") where they are defined.
    """

    findings: dict[str, FindingResult]
    intervals: dict[str, Interval] = field(default_factory=dict)
    scores: dict[str, FindingScores] = field(default_factory=dict)
    resampled: dict[str, Resampled] = field(default_factory=dict)


def label_rows(
    labels: Labels, studies: Sequence[str], finding: str, settings: Settings
) -> tuple[NDArray[np.intp], Truth]:
    """Places of the studies whose label is known, and what it says."""
    known, truth = known_labels(
        [labels.get(study, {}).get(finding) for study in studies], settings.uncertain
    )
    return np.flatnonzero(known), truth[known]


def measure_zero_shot(
    differences: Floats,
    studies: Sequence[str],
    patients: Sequence[str],
    labels: Labels,
    findings: Sequence[str],
    validation: tuple[Floats, Sequence[str]] | None,
    settings: Settings,
) -> ZeroShot:
    """Measure every finding by its score differences, [F, B].

    ``studies`` and ``patients`` are of the [B] images; ``validation`` has the differences [F, V]
    and studies [V] of the validation images.
    """
    counts = draw(patients, settings.resamples, (settings.seed, 0))
    results: dict[str, FindingResult] = {}
    scores: dict[str, FindingScores] = {}
    areas: list[Floats] = []
    shares: list[Floats] = []
    for place, finding in enumerate(findings):
        rows, truth = label_rows(labels, studies, finding, settings)
        fit = None
        if validation is not None:
            seen, said = label_rows(labels, validation[1], finding, settings)
            fit = fit_validation(validation[0][place][seen], said)
        one = FindingScores(differences[place][rows], truth, rows, fit)
        result, resampled = measure_finding(
            one.scores, truth, len(studies) - len(rows), fit, counts[:, rows]
        )
        results[finding], scores[finding] = result, one
        areas += [resampled["auc"]] if "auc" in resampled else []
        shares += [resampled["accuracy"]] if "accuracy" in resampled else []
    means: dict[str, Resampled] = {}
    for name, values, attribute in (("AUC", areas, "auc"), ("ACC", shares, "accuracy")):
        if len(values) == len(findings):
            estimate = float(np.mean([getattr(one, attribute) for one in results.values()]))
            means[name] = Resampled(estimate, np.mean(values, axis=0), (*studies, *findings))
    ends = intervals_of({name: one.values for name, one in means.items()})
    names = {"AUC": "mean_auc", "ACC": "mean_accuracy"}
    return ZeroShot(results, {names[k]: v for k, v in ends.items()}, scores, means)
