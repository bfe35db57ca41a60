"""The training loop: a generator of step reports, whose caller logs, validates and saves."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cxrtext import objectives
from cxrtext.errors import WorkError
from cxrtext.images.augment import centre_crop, jitter, random_crop
from cxrtext.models import ImageTextModel
from cxrtext.training.data import Batch, Examples, batch_rows
from cxrtext.training.schedule import learning_rate


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train; see ``config.TrainingSection`` and ``config.ObjectiveSection``."""

    objective: str
    eta: float
    symmetric: bool
    steps: int
    batch: int
    sentences: int
    lr: float
    warmup: int
    clip: float
    brightness: float
    contrast: float
    seed: int
    bfloat16: bool


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step did.

    Args:
        step: The step, from 1.
        loss: Mean loss of the batch, in nats.
        accuracy: Share of sentences that score their own image highest in the batch.
        floored: Share of anchors at the floor of the debiased loss; 0 for other losses.
        gamma_sq: γ² before the step.
        lr: Learning rate of the step.
        grad_norm: Gradient norm before clipping.
        images_per_second: Speed of this step.
    """

    step: int
    loss: float
    accuracy: float
    floored: float
    gamma_sq: float
    lr: float
    grad_norm: float
    images_per_second: float


def _one_way(
    scores: Tensor, eta: Tensor, gamma_sq: Tensor, recipe: Recipe, positive: Tensor
) -> Tensor:
    match recipe.objective:
        case "info-nce":
            return objectives.info_nce(scores, positive)
        case "dcl-eta":
            return objectives.debiased(scores, recipe.eta, gamma_sq, positive=positive)
        case "dcl-eta-lm":
            return objectives.debiased(scores, eta, gamma_sq, positive=positive)
    raise ValueError(f"no objective '{recipe.objective}'")


def _floored(scores: Tensor, batch: Batch, gamma_sq: Tensor, recipe: Recipe) -> float:
    if recipe.objective == "info-nce":
        return 0.0
    eta = batch.eta if recipe.objective == "dcl-eta-lm" else recipe.eta
    floored = objectives.debiased_floored(scores, eta, gamma_sq, positive=batch.image_of)
    return float(floored.float().mean())


def losses(scores: Tensor, batch: Batch, gamma_sq: Tensor, recipe: Recipe) -> Tensor:
    """Losses of the sentences of a batch, [S]; symmetric ones, [S + B], hold the images' as well.

    Args:
        scores: [S, B], scaled by γ².
        batch: The batch that was scored.
        gamma_sq: γ².
        recipe: Names the objective.
    """
    text_to_image = _one_way(scores, batch.eta, gamma_sq, recipe, batch.image_of)
    if not recipe.symmetric:
        return text_to_image
    S, B = scores.shape
    first = torch.arange(B, device=scores.device)
    # An image is the anchor of its first sentence; its other sentences are no candidates.
    others = batch.image_of[:, None] == first
    others[first, first] = False
    candidates = scores.masked_fill(others, -torch.inf).T
    image_to_text = _one_way(candidates, batch.eta[:B], gamma_sq, recipe, first)
    # Both directions weigh the same, whatever the number of sentences.
    weights = text_to_image.new_tensor([(S + B) / (2 * S), (S + B) / (2 * B)])
    return torch.cat([weights[0] * text_to_image, weights[1] * image_to_text])


def _accuracy(scores: Tensor, batch: Batch) -> float:
    """Share of sentences whose own image scores highest."""
    return float((scores.argmax(dim=1) == batch.image_of).float().mean())


def autocast(device: torch.device, enabled: bool) -> AbstractContextManager[object]:
    """bfloat16 where it is asked for."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled else nullcontext()


def embed_texts(model: ImageTextModel, batch: Batch) -> Tensor:
    """Embeddings of a batch's sentences, [S, D]; each distinct one is computed once."""
    distinct = [model.embed_tokens(g.input_ids, g.attention_mask) for g in batch.tokens]
    return torch.cat(distinct)[batch.text_of]


def score_batch(
    model: ImageTextModel, batch: Batch, images: Tensor, bfloat16: bool
) -> tuple[Tensor, Tensor]:
    """Scaled scores [S, B], sentences in rows, and γ²; the scores in float32."""
    with autocast(model.device, bfloat16):
        regions = model.embed_images(images)
        texts = embed_texts(model, batch)
    gamma_sq = model.gamma_sq
    scores = model.scores(regions.float().flatten(1, 2), texts.float())
    return gamma_sq * scores, gamma_sq


def augmented(model: ImageTextModel, batch: Batch, recipe: Recipe, seed: list[int]) -> Tensor:
    """Images of a batch as the encoder takes them in training, [B, 1, crop, crop]."""
    generator = torch.Generator().manual_seed(int(np.random.default_rng(seed).integers(2**62)))
    preprocessing = model.spec.preprocessing
    images = random_crop(batch.images, preprocessing.crop, generator).float() / 255.0
    images = jitter(images, recipe.brightness, recipe.contrast, generator)
    return _normalised(images, model)


def _normalised(images: Tensor, model: ImageTextModel) -> Tensor:
    preprocessing = model.spec.preprocessing
    images = (images - preprocessing.mean) / preprocessing.std
    return images.contiguous(memory_format=torch.channels_last)


def train_steps(
    model: ImageTextModel,
    optimizer: torch.optim.Optimizer,
    examples: Examples,
    recipe: Recipe,
    start: int = 0,
) -> Iterator[StepReport]:
    """Train from step ``start`` to the end of the recipe, one report a step.

    What a step sees and draws follows from the seed and the step alone, so a run resumed at
    ``start`` repeats what an unbroken one would have done.

    Raises:
        WorkError: The loss is no longer a number.
    """
    size = min(recipe.batch, len(examples))
    for step in range(start, recipe.steps):
        begun = time.perf_counter()
        lr = learning_rate(step, total=recipe.steps, warmup=recipe.warmup, peak=recipe.lr)
        for group in optimizer.param_groups:
            group["lr"] = lr
        torch.manual_seed(int(np.random.default_rng([recipe.seed, 1, step]).integers(2**62)))
        rows = batch_rows(len(examples), size, recipe.seed, step)
        draws = np.random.default_rng([recipe.seed, 2, step])
        batch = examples.batch(rows, draws, recipe.sentences).to(model.device)
        images = augmented(model, batch, recipe, [recipe.seed, 3, step])

        model.train()
        scores, gamma_sq = score_batch(model, batch, images, recipe.bfloat16)
        loss = losses(scores, batch, gamma_sq, recipe).mean()
        if not torch.isfinite(loss):
            raise WorkError(
                f"the loss is not a number at step {step + 1}; lower training.lr "
                f"(now {recipe.lr:g}), or train with training.precision=float32"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()

        yield StepReport(
            step=step + 1,
            loss=loss.item(),
            accuracy=_accuracy(scores, batch),
            floored=_floored(scores, batch, gamma_sq, recipe),
            gamma_sq=gamma_sq.item(),
            lr=lr,
            grad_norm=norm.item(),
            images_per_second=size / (time.perf_counter() - begun),
        )


@torch.inference_mode()
def validation_loss(model: ImageTextModel, examples: Examples, recipe: Recipe) -> dict[str, float]:
    """Mean loss and in-batch accuracy on other examples, the same ones at every call.

    Returns:
        ``loss`` in nats, and ``accuracy``; over whole batches, or the one that there is.
    """
    model.eval()
    size = min(recipe.batch, len(examples))
    total = hits = 0.0
    batches = len(examples) // size
    for number in range(batches):
        rows = np.arange(number * size, (number + 1) * size)
        batch = examples.batch(rows, np.random.default_rng([recipe.seed, 4, number]))
        batch = batch.to(model.device)
        images = centre_crop(batch.images, model.spec.preprocessing.crop).float() / 255.0
        scores, gamma_sq = score_batch(model, batch, _normalised(images, model), recipe.bfloat16)
        total += float(losses(scores, batch, gamma_sq, recipe).mean())
        hits += _accuracy(scores, batch)
    return {"loss": total / batches, "accuracy": hits / batches}
