"""Zero-shot classification of a cohort: measures, thresholds, calibration, intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.binary import Floats, Truth, known_labels
from cxrtext.evaluation.classification import (
    FindingResult,
    phrasing_scores,
    prompt_embeddings,
    score_differences,
)
from cxrtext.evaluation.prompts import Prompts
from cxrtext.evaluation.settings import Settings
from cxrtext.evaluation.tasks.finding import ValidationFit, fit_validation, measure_finding
from cxrtext.evaluation.tasks.resampling import Resampled, draw, intervals_of
from cxrtext.models import ImageTextModel

Labels = Mapping[str, Mapping[str, int | None]]


@dataclass(frozen=True, slots=True)
class FindingScores:
    """Scores of one finding beside its labels, for curves.

    Args:
        scores: [n], of the images whose label is known.
        truth: [n].
        rows: [n], their places in the cohort.
        fit: What validation images chose; None without them.
    """

    scores: Floats
    truth: Truth
    rows: NDArray[np.intp]
    fit: ValidationFit | None


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Zero-shot classification of a cohort.

    Args:
        findings: Results by finding.
        intervals: Of the means: "mean_auc", "mean_accuracy".
        scores: Scores by finding.
        resampled: "AUC" and "ACC", means over findings, where they are defined.
    """

    findings: dict[str, FindingResult]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    scores: dict[str, FindingScores] = field(default_factory=dict)
    resampled: dict[str, Resampled] = field(default_factory=dict)


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
    """Measure every finding.

    Args:
        differences: [F, B], positive prompt less negative one, scaled.
        studies: [B].
        patients: [B].
        labels: By study and finding.
        findings: [F].
        validation: Differences [F, V] and studies [V] of the validation images.
        settings: How.
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
    rows_key = (*studies, *findings)
    means: dict[str, Resampled] = {}
    for name, values, attribute in (("AUC", areas, "auc"), ("ACC", shares, "accuracy")):
        if len(values) == len(findings):
            estimate = float(np.mean([getattr(one, attribute) for one in results.values()]))
            means[name] = Resampled(estimate, np.mean(values, axis=0), rows_key)
    ends = intervals_of({name: one.values for name, one in means.items()})
    names = {"AUC": "mean_auc", "ACC": "mean_accuracy"}
    return ZeroShot(results, {names[k]: v for k, v in ends.items()}, scores, means)
