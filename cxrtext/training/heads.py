"""Fits heads for named findings at the end of a training, on its training images."""

from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.classification.prompt_scores import prompt_embeddings, score_differences
from cxrtext.metrics.calibration import fit_platt
from cxrtext.metrics.ranking import area_under_curve
from cxrtext.models import ImageTextModel
from cxrtext.models.heads import (
    FEWEST,
    RIDGES,
    SIDE_RIDGES,
    FindingHeads,
    HeadFigures,
    fit_ridge,
    fit_side,
    left_less_right,
    pooled,
)
from cxrtext.models.regions import embed_squares
from cxrtext.text.labelling import label_report
from cxrtext.training.data.loader import Examples
from cxrtext.training.validation import ZeroShot

AT_ONCE = 256  # images
MOST = 50_000  # most training images for fitting heads


@torch.inference_mode()
def fit_heads(
    model: ImageTextModel, train: Examples, validation: Examples, zero_shot: ZeroShot | None
) -> FindingHeads | None:
    """Fit a head for each finding of the second task; None without such findings.

    The penalty with the highest mean AUC on validation images is chosen, and a logistic regression
    on them sets each head's scale and shift.  Findings without enough labels on them get no head.
    """
    if train.findings is None or zero_shot is None:
        return None
    names, asked = list(zero_shot.prompts), dict(zip(train.asked, train.findings.T, strict=True))
    truths = dict(zip(names, zero_shot.labels, strict=True))
    measured = [name for name in train.asked if _both(asked[name], FEWEST) and _both(truths[name])]
    if not measured:
        return None
    chosen = np.arange(len(train))[:: -(-len(train) // MOST)]
    seen = torch.cat([pooled(regions).cpu() for regions in _regions(model, train, chosen)])
    labels = np.stack([asked[name][chosen] for name in measured], axis=1)
    fits = fit_ridge(seen, labels)
    prompts = prompt_embeddings(model, {name: zero_shot.prompts[name] for name in measured})
    shown, differences = [], []
    for regions in _regions(model, validation, np.arange(len(validation))):
        shown.append(pooled(regions).cpu().double())
        differences.append(score_differences(model, regions, prompts).cpu())
    values = torch.cat(shown) @ fits[..., :-1].transpose(1, 2) + fits[:, None, :, -1]  # [R, n, F]
    scores = torch.cat(differences, dim=1).numpy()  # [F, n]
    known = [~np.isnan(truths[name]) for name in measured]
    known_truths = [truths[name][own] for name, own in zip(measured, known, strict=True)]

    def areas(of: NDArray[np.float64]) -> list[float]:
        """AUCs of scores [n, F]."""
        return [
            area_under_curve(of[own, column], truth)
            for column, (own, truth) in enumerate(zip(known, known_truths, strict=True))
        ]

    every = [areas(one.numpy()) for one in values]
    best = max(range(len(RIDGES)), key=lambda row: float(np.mean(every[row])))
    by_prompts = areas(scores.T)
    figures, weights, biases = {}, [], []
    for column, (name, own, truth) in enumerate(zip(measured, known, known_truths, strict=True)):
        platt = fit_platt(values[best, own, column].numpy(), truth)
        if platt.scale <= 0:  # the head ranks images the wrong way round
            continue
        weight, bias = fits[best, column, :-1], fits[best, column, -1]
        weights.append(weight * platt.scale)
        biases.append(bias * platt.scale + platt.shift)
        counts = int((truth == 1).sum()), int((truth == 0).sum())
        figures[name] = HeadFigures(every[best][column], by_prompts[column], *counts)
    if not figures:
        return None
    prompts_kept = {
        name: {side: list(texts) for side, texts in asdict(zero_shot.prompts[name]).items()}
        for name in figures
    }
    side = _fit_side(model, train, validation) or (None, (0.5, 0, 0))
    return FindingHeads(
        torch.stack(weights).float(), torch.stack(biases).float(), figures, prompts_kept, *side
    )


def _fit_side(
    model: ImageTextModel, train: Examples, validation: Examples
) -> tuple[Tensor, tuple[float, int, int]] | None:
    """A head for the side and its AUC on validation images; None with too few one-sided images."""
    features, sides = [], []
    for examples in (train, validation):
        own = _sides_of(examples)
        if min(int((own > 0).sum()), int((own < 0).sum())) < FEWEST:
            return None
        parts = _regions(model, examples, np.flatnonzero(own))
        features.append(torch.cat([left_less_right(some).cpu() for some in parts]))
        sides.append(own[own != 0])
    seen, shown = features
    said, truth = torch.from_numpy(sides[0]), sides[1] > 0
    fits = [fit_side(seen, said, ridge) for ridge in SIDE_RIDGES]
    aucs = [area_under_curve((shown.double() @ one).numpy(), truth) for one in fits]
    best = int(np.argmax(aucs))
    return fits[best].float(), (aucs[best], int(truth.sum()), int((~truth).sum()))


def _sides_of(examples: Examples) -> NDArray[np.int64]:
    """For each report, 1 if all its affirmed findings are on the left, -1 on the right, else 0."""
    one_sided = np.zeros(len(examples), dtype=np.int64)
    for row, own in enumerate(examples.sentences):
        labels = label_report(examples.texts[int(i)].sentence for i in own)
        sides = {label.side for label in labels.values() if label.value == 1 and label.side}
        one_sided[row] = 1 if sides == {"left"} else -1 if sides == {"right"} else 0
    return one_sided


def _both(labels: NDArray[np.generic], fewest: int = 2) -> bool:
    return min(int((labels == 1).sum()), int((labels == 0).sum())) >= fewest


def _regions(
    model: ImageTextModel, examples: Examples, chosen: NDArray[np.int64]
) -> Iterator[Tensor]:
    """Regions [b, N, D] of the chosen examples, from stored features if there are any."""
    for start in range(0, len(chosen), AT_ONCE):
        rows = chosen[start : start + AT_ONCE]
        if examples.features is not None:
            features = torch.from_numpy(examples.features.of(rows)).to(model.device).float()
            yield model.image_encoder.project(features).flatten(1, 2).float()
        else:
            yield embed_squares(model, list(examples.pixels[examples.rows[rows]][:, None]))
