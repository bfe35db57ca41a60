"""What is measured on the validation split while a model is trained."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cxrtext.evaluation.classification import prompt_embeddings, score_differences
from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.evaluation.prompts import Prompts
from cxrtext.evaluation.retrieval import retrieval_metrics
from cxrtext.images.augment import centre_crop
from cxrtext.models import ImageTextModel
from cxrtext.models.similarity_bags import attention_entropy
from cxrtext.training.batch import group_by_length
from cxrtext.training.contrast import Objective, accuracy
from cxrtext.training.data import Examples
from cxrtext.training.distributed import Processes
from cxrtext.training.pair_job import prepared
from cxrtext.training.recipe import Recipe, seed_of
from cxrtext.training.towers import autocast

RETRIEVED = 500
"""Images, the first of the split, among which sentences are searched, and the other way round."""

CUTOFFS = (1, 5)


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """What the area under the curve is measured with.

    Args:
        prompts: By finding.
        labels: [F, n], 1, 0, or NaN where unknown, of each validation example.
    """

    prompts: Mapping[str, Prompts]
    labels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(slots=True)
class _Part:
    """What one process found; parts are put together in the end."""

    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    batches: int = 0
    differences: dict[int, list[float]] = field(default_factory=dict)
    columns: dict[int, Any] = field(default_factory=dict)


@torch.inference_mode()
def validate(
    model: ImageTextModel,
    examples: Examples,
    objective: Objective,
    recipe: Recipe,
    zero_shot: ZeroShot | None,
    processes: Processes,
) -> dict[str, float]:
    """Measure a model on other examples, the same ones at every call.

    Args:
        model: The model.
        examples: The validation split; at least two.
        objective: The loss.
        recipe: How it is trained.
        zero_shot: Labels and prompts, where there are any.
        processes: Each takes a part of the batches; all get the same numbers.

    Returns:
        ``loss`` in nats, ``accuracy`` and ``floored`` over whole batches, or the one that there
        is; ``R@1``, ``R@5`` (mean of both directions, and each as ``text_to_image_R@1``, …) among
        the first :data:`RETRIEVED` images; ``entropy`` of the non-local attention; ``auc`` and
        ``auc_<finding>``.
    """
    model.eval()
    size = min(recipe.batch, len(examples))
    prompts = prompt_embeddings(model, zero_shot.prompts) if zero_shot else None
    texts, relevant = _searched(model, examples, recipe)
    part = _Part()
    for number in range(processes.rank, -(-len(examples) // size), processes.world):
        rows = np.arange(number * size, min((number + 1) * size, len(examples)))
        regions = _measure_batch(model, examples, rows, objective, recipe, number, part)
        if prompts is not None:
            scored = score_differences(model, regions, prompts).T.tolist()  # [b, F]
            part.differences.update(zip(rows.tolist(), scored, strict=True))
        kept = rows[rows < relevant.shape[1]]
        if len(kept):
            columns = model.scores(regions[: len(kept)], texts).T.cpu().numpy()  # [b, T]
            part.columns.update(zip(kept.tolist(), columns, strict=True))
    return _together(processes.gather(part), relevant, zero_shot)


def _measure_batch(
    model: ImageTextModel,
    examples: Examples,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    objective: Objective,
    recipe: Recipe,
    number: int,
    part: _Part,
) -> Tensor:
    """Add one batch's numbers to a part; returns its regions, [b, N, D]."""
    batch = examples.batch(rows, np.random.default_rng([recipe.seed, 4, number]))
    batch = batch.to(model.device)
    images = centre_crop(batch.images, model.spec.preprocessing.crop).float() / 255.0
    with autocast(model.device, recipe.precision):
        regions = model.embed_images(prepared(model, images)).flatten(1, 2)
        distinct = [model.embed_tokens(g.input_ids, g.attention_mask) for g in batch.tokens]
    regions, texts = regions.float(), torch.cat(distinct).float()[batch.text_of]
    part.sums["images"] += len(rows)
    if model.spec.aggregator in ("nl", "lse+nl"):
        part.sums["entropy"] += float(attention_entropy(regions, model.query).sum())
    if len(rows) == min(recipe.batch, len(examples)):
        gamma_sq = model.gamma_sq
        scores = gamma_sq * model.scores(regions, texts)
        draws = torch.Generator().manual_seed(seed_of(recipe.seed, 8, number))
        result = objective(scores, batch.pairs, gamma_sq, texts, draws)
        part.sums["loss"] += float(result.losses.mean())
        part.sums["floored"] += result.floored
        part.sums["accuracy"] += float(accuracy(scores, batch.image_of))
        part.batches += 1
    return regions


def _searched(
    model: ImageTextModel, examples: Examples, recipe: Recipe
) -> tuple[Tensor, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Distinct sentences of the first images, [T, D], and whose they are, [T, images]."""
    images = min(RETRIEVED, len(examples))
    owners: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for image in range(images):
        for sentence in examples.sentences[image]:
            owners[tuple(examples.tokens[sentence])].add(image)
    distinct = sorted(owners, key=lambda pieces: (len(pieces), pieces))
    relevant = np.zeros((len(distinct), images), dtype=np.bool_)
    for row, pieces in enumerate(distinct):
        relevant[row, list(owners[pieces])] = True
    with autocast(model.device, recipe.precision):
        texts = [
            model.embed_tokens(
                group.input_ids.to(model.device), group.attention_mask.to(model.device)
            ).float()
            for group in group_by_length(distinct, examples.pad_id)
        ]
    return torch.cat(texts), relevant


def _together(
    parts: Sequence[_Part],
    relevant: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    zero_shot: ZeroShot | None,
) -> dict[str, float]:
    batches = sum(part.batches for part in parts)
    numbers = {
        name: sum(part.sums[name] for part in parts) / batches
        for name in ("loss", "accuracy", "floored")
    }
    columns = {row: column for part in parts for row, column in part.columns.items()}
    scores = np.stack([columns[row] for row in range(relevant.shape[1])], axis=1)  # [T, images]
    sentences = retrieval_metrics(scores, relevant, CUTOFFS)
    images = retrieval_metrics(scores.T, relevant.T, CUTOFFS)
    for k in CUTOFFS:
        numbers[f"R@{k}"] = (sentences[f"R@{k}"] + images[f"R@{k}"]) / 2
        numbers[f"text_to_image_R@{k}"] = sentences[f"R@{k}"]
        numbers[f"image_to_text_R@{k}"] = images[f"R@{k}"]
    differences = {row: each for part in parts for row, each in part.differences.items()}
    if any("entropy" in part.sums for part in parts):
        seen = sum(part.sums["images"] for part in parts)
        numbers["entropy"] = sum(part.sums["entropy"] for part in parts) / seen
    return numbers | (_areas(differences, zero_shot) if zero_shot else {})


def _areas(differences: Mapping[int, Sequence[float]], zero_shot: ZeroShot) -> dict[str, float]:
    """Area under the curve of each finding with both classes, and their mean."""
    areas = {}
    scores = np.asarray([differences[row] for row in range(len(differences))]).T  # [F, n]
    for name, values, labels in zip(zero_shot.prompts, scores, zero_shot.labels, strict=True):
        known = ~np.isnan(labels)
        if len(np.unique(labels[known])) == 2:
            areas[f"auc_{name}"] = area_under_curve(values[known], labels[known])
    return {"auc": float(np.mean(list(areas.values()))), **areas} if areas else {}
