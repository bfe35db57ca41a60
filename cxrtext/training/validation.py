"""Measures a model on the validation split during training."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cxrtext.config import Config
from cxrtext.device import autocast
from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.prompt_scores import prompt_embeddings, score_differences
from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts, read_prompts
from cxrtext.evaluation.data import find_table
from cxrtext.metrics.ranking import area_under_curve, retrieval_metrics
from cxrtext.models import ImageTextModel
from cxrtext.models.regions import normalized
from cxrtext.page import without_zero
from cxrtext.records import read_labels
from cxrtext.training.data.batches import group_by_length
from cxrtext.training.data.loader import Examples
from cxrtext.training.loop.optimization import TrainingArguments, seed_of
from cxrtext.training.step import Loss, Towers, accuracy, scored

RETRIEVED = 500
"""Retrieval is measured among this many first images of the split."""
CUTOFFS = (1, 5)
LEVEL = 0.025
"""If luck alone gives as good a result with a higher probability, training has shown nothing."""


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """Prompts by finding, and labels [F, n] of the examples: 1, 0, or NaN where unknown."""

    prompts: Mapping[str, Prompts]
    labels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@torch.inference_mode()
def validate(
    model: ImageTextModel,
    examples: Examples,
    objective: Loss,
    arguments: TrainingArguments,
    zero_shot: ZeroShot | None,
) -> dict[str, float]:
    """Measure a model on at least two examples, the same way at every call.

    Returns:
        ``loss`` in nats, ``accuracy`` and ``floored`` (the share of floored anchors) over whole
        batches, or over the only batch; ``R@1``, ``R@5`` (mean of both directions, and each as
        ``text_to_image_R@1``, …) among the first :data:`RETRIEVED` images; ``auc`` and
        ``auc_<finding>``.
    """
    model.eval()
    size = min(arguments.batch, len(examples))
    prompts = prompt_embeddings(model, zero_shot.prompts) if zero_shot else None
    texts, relevant = _searched(model, examples, arguments)
    sums: dict[str, float] = defaultdict(float)
    differences, scores = [], []
    for number, start in enumerate(range(0, len(examples), size)):
        rows = np.arange(start, min(start + size, len(examples)))
        regions = _measure_batch(model, examples, rows, objective, arguments, number, sums)
        if prompts is not None:
            differences.append(score_differences(model, regions, prompts).cpu())
        if (searched := relevant.shape[1] - start) > 0:
            scores.append(model.scores(regions[:searched], texts).cpu())
    batches = sums["batches"]
    numbers = {name: sums[name] / batches for name in ("loss", "accuracy", "floored")}
    numbers |= _retrieval(torch.cat(scores, dim=1).numpy(), relevant)
    if zero_shot is not None:
        numbers |= _areas(torch.cat(differences, dim=1).double().numpy(), zero_shot)
    return numbers


def _measure_batch(
    model: ImageTextModel,
    examples: Examples,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    objective: Loss,
    arguments: TrainingArguments,
    number: int,
    sums: dict[str, float],
) -> Tensor:
    """Add a batch's numbers to the sums and return its regions, [b, N, D]."""
    batch = examples.batch(rows, np.random.default_rng([arguments.seed, 4, number]))
    batch = batch.to(model.device)
    images = batch.images
    if not batch.locked:
        images = normalized(images, model.spec.preprocessing)
        images = images.contiguous(memory_format=torch.channels_last)
    towers = Towers(model, None, arguments.precision)
    regions: Tensor
    regions, texts, _ = towers(images, batch.tokens)
    texts = texts[batch.text_of[: len(batch.pairs.image_of)]]  # without prompts of findings
    if len(rows) == min(arguments.batch, len(examples)):
        gamma_sq = model.gamma_sq
        scores = gamma_sq * model.scores(regions, texts)
        draws = torch.Generator().manual_seed(seed_of(arguments.seed, 8, number))
        terms = objective(scored(scores, batch.pairs, gamma_sq, texts, draws))
        sums["loss"] += float(terms.losses.mean())
        sums["floored"] += float(terms.measures()[0])
        sums["accuracy"] += float(accuracy(scores, batch.pairs.image_of))
        sums["batches"] += 1
    return regions


def _searched(
    model: ImageTextModel, examples: Examples, arguments: TrainingArguments
) -> tuple[Tensor, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Distinct sentences of the first images, [T, D], and which images have them, [T, images]."""
    images = min(RETRIEVED, len(examples))
    owners: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for image in range(images):
        for sentence in examples.sentences[image]:
            owners[tuple(examples.tokens[sentence])].add(image)
    distinct = sorted(owners, key=lambda pieces: (len(pieces), pieces))
    relevant = np.zeros((len(distinct), images), dtype=np.bool_)
    for row, pieces in enumerate(distinct):
        relevant[row, list(owners[pieces])] = True
    with autocast(model.device, arguments.precision):
        texts = [
            model.embed_tokens(
                group.input_ids.to(model.device), group.attention_mask.to(model.device)
            ).float()
            for group in group_by_length(distinct, examples.pad_id)
        ]
    return torch.cat(texts), relevant


def _retrieval(
    scores: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    relevant: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
) -> dict[str, float]:
    """Retrieval in both directions, from scores [T, images]."""
    sentences = retrieval_metrics(scores, relevant, CUTOFFS)
    images = retrieval_metrics(scores.T, relevant.T, CUTOFFS)
    numbers = {}
    for k in CUTOFFS:
        numbers[f"R@{k}"] = (sentences[f"R@{k}"] + images[f"R@{k}"]) / 2
        numbers[f"text_to_image_R@{k}"] = sentences[f"R@{k}"]
        numbers[f"image_to_text_R@{k}"] = images[f"R@{k}"]
    return numbers


def _areas(
    scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]], zero_shot: ZeroShot
) -> dict[str, float]:
    """The AUC of each finding with both classes, from scores [F, n], and their mean."""
    areas = {}
    for name, values, labels in zip(zero_shot.prompts, scores, zero_shot.labels, strict=True):
        known = ~np.isnan(labels)
        if len(np.unique(labels[known])) == 2:
            areas[f"auc_{name}"] = area_under_curve(values[known], labels[known])
    return {"auc": float(np.mean(list(areas.values()))), **areas} if areas else {}


def not_learned(
    numbers: Mapping[str, float], examples: Examples, zero_shot: ZeroShot | None, config: Config
) -> str:
    """A warning if a validation's numbers could be chance (one-sided, 2.5 %), else "".

    With labels, the mean AUC is tested as a rank sum; in the worst case, findings are fully
    correlated.  Without, the in-batch accuracy is tested as one guess per image, because the
    sentences of an image are not independent guesses.  Images of one patient count as independent.

    Source: Mann and Whitney 1947; Clopper and Pearson 1934 (the binomial tail).
    """
    from scipy.stats import binom, norm

    if "auc" in numbers and zero_shot is not None:
        counts = [((own == 1).sum(), (own == 0).sum()) for own in zero_shot.labels]
        errors = [((m + n + 1) / (12 * m * n)) ** 0.5 for m, n in counts if m and n]
        p = norm.sf((numbers["auc"] - 0.5) / np.mean(errors))
        result, what = f"AUC {numbers['auc']:.2f}, chance 0.50", "tell findings"
    elif "accuracy" in numbers:
        size = min(config.training.batch, len(examples))
        images = len(examples) // size * size
        p = binom.sf(np.ceil(numbers["accuracy"] * images - 1e-6) - 1, images, 1 / size)
        result = f"in-batch accuracy {numbers['accuracy']:.3f}, chance {1 / size:.3f}"
        what = "match images and sentences"
    else:
        return ""
    if p <= LEVEL:
        return ""
    return without_zero(
        f"validation {result} (p = {p:.2f}, {len(examples)} images): nothing shows that the model "
        f"has learned to {what}; do not use its answers"
    )


def training_prompts(config: Config) -> Mapping[str, Prompts]:
    """The prompts for measuring a training, and for findings learned along with the sentences."""
    given = config.training.prompts
    return read_prompts(given) if given else CHEX5_PROMPTS


def zero_shot_of(config: Config, examples: Examples, say: Callable[[str], None]) -> ZeroShot | None:
    """Labels and prompts of the validation split, if there are labels beside the manifest.

    A table that cannot be used is reported; it is an error only if the configuration needs it.
    """
    path = find_table(config.data.manifest.parent, "labels")
    given = config.training.prompts
    if path is None or not len(examples):
        return None
    prompts = training_prompts(config)
    try:
        labels = read_labels(path, tuple(prompts))
    except DataError as error:
        if given or config.training.best == "val/auc":
            raise
        say(f"no zero-shot AUC in training: {error}")
        return None
    of_studies = [labels.get(record.study_id, {}) for record in examples.records]
    table = [[own.get(finding) for own in of_studies] for finding in prompts]
    known = np.asarray(
        [[float(cell) if cell in (0, 1) else np.nan for cell in row] for row in table]
    )
    both = ((known == 1).any(axis=1) & (known == 0).any(axis=1)).any()
    return ZeroShot(prompts, known) if both else None


def check_best(config: Config, zero_shot: ZeroShot | None) -> None:
    """Refuse ``training.best: val/auc`` without labels to measure it."""
    if config.training.best == "val/auc" and zero_shot is None:
        raise ConfigError(
            "training.best: val/auc needs labels of validation images, 1 and 0 of one finding at "
            f"least, in a labels.csv beside {config.data.manifest}; add it, or choose val/loss"
        )
