"""Zero-shot classification, and its measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cxrtext.evaluation.prompts import Prompts
from cxrtext.models import ImageTextModel


def area_under_curve(scores: ArrayLike, labels: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative.

    Args:
        scores: [n], finite.
        labels: [n], 1 or 0; both must occur.

    Returns:
        In [0, 1]; a tie counts one half.

    Raises:
        ValueError: The shapes differ, a score is not finite, or one of the classes is missing.

    Source: Mann and Whitney 1947.
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if values.ndim != 1 or values.shape != truth.shape:
        raise ValueError(f"scores {values.shape} and labels {truth.shape} must be equally long")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    if not np.isin(truth, (0, 1)).all():
        raise ValueError("labels must be 1 or 0")
    positives, negatives = int((truth == 1).sum()), int((truth == 0).sum())
    if not positives or not negatives:
        raise ValueError("the area under the curve wants positives and negatives")
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # mid-ranks, from 1
    return float(
        (ranks[truth == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    )


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

    Args:
        model: The model.
        regions: [B, N, D].
        prompts: [F, 2, D], from :func:`prompt_embeddings`.

    Returns:
        [F, B], ``γ² (s_pos − s_neg)``; above 0 says present, and its logistic is the probability
        before calibration.
    """
    F_, _, D = prompts.shape
    scores = model.scores(regions, prompts.reshape(2 * F_, D)).view(F_, 2, -1)
    difference: Tensor = model.gamma_sq * (scores[:, 0] - scores[:, 1])
    return difference


def phrasing_scores(
    model: ImageTextModel, regions: Tensor, phrasings: Sequence[tuple[Tensor, Tensor]]
) -> Tensor:
    """:func:`score_differences` where the scores of several phrasings are averaged.

    Args:
        model: The model.
        regions: [B, N, D].
        phrasings: [F], vectors of the positive and of the negative phrasings, [k, D] each.

    Returns:
        [F, B].
    """
    sides = [side for pair in phrasings for side in pair]
    scores = model.scores(regions, torch.cat(sides)).split([len(side) for side in sides])
    means = torch.stack([part.mean(dim=0) for part in scores]).view(len(phrasings), 2, -1)
    difference: Tensor = model.gamma_sq * (means[:, 0] - means[:, 1])
    return difference


@dataclass(frozen=True, slots=True)
class FindingResult:
    """Zero-shot classification of one finding.

    Args:
        auc: Area under the ROC curve; None where one class is missing.
        accuracy: Share of images on the right side of 0; None without a label.
        positives: Images with the finding.
        negatives: Images without it.
        left_out: Images with an unknown label, or an uncertain one that is ignored.
        average_precision: Likewise.
        threshold: Of the score difference, chosen on validation images (Youden).
        sensitivity: At that threshold.
        specificity: At that threshold.
        temperature: Fitted to validation images.
        calibration_error: Of the probabilities at that temperature.
        calibration_error_before: Of the probabilities at temperature 1.
        calibration_error_platt: Of the probabilities with a scale and a shift fitted to validation
            images; where it is far lower, the prompts are shifted, which no temperature mends.
        brier: Of the probabilities at that temperature, else at 1.
        intervals: (low, high) of "auc", "accuracy", "average_precision", "sensitivity",
            "specificity", "brier", as far as measured.
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
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


def evaluate_finding(differences: NDArray[Any], labels: Sequence[int | None]) -> FindingResult:
    """Measure the AUC and the accuracy of one finding.

    Args:
        differences: [n], from :func:`score_differences`.
        labels: [n], 1, 0, −1 (uncertain) or None; the latter two are left out and counted.
    """
    known = np.asarray([label in (0, 1) for label in labels], dtype=bool)
    truth = np.asarray([label for label in labels if label in (0, 1)], dtype=np.int64)
    values = np.asarray(differences, dtype=np.float64)[known]
    positives = int(truth.sum())
    negatives = len(truth) - positives
    return FindingResult(
        auc=area_under_curve(values, truth) if positives and negatives else None,
        accuracy=float(((values > 0) == (truth == 1)).mean()) if len(truth) else None,
        positives=positives,
        negatives=negatives,
        left_out=len(labels) - len(truth),
    )
