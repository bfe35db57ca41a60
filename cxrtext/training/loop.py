"""The training loop: a generator of step reports, whose caller logs, validates and saves."""

import math
import time
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import WorkError
from cxrtext.images.augment import Views, augment, draw_views
from cxrtext.models import ImageTextModel
from cxrtext.training.batch import Batch, span
from cxrtext.training.contrast import Objective
from cxrtext.training.data import Examples, batch_rows
from cxrtext.training.learner import Learner, Progress
from cxrtext.training.masking import hide, vocabulary_of
from cxrtext.training.prefetch import prefetched
from cxrtext.training.recipe import Recipe, seed_of, set_rate, set_training
from cxrtext.training.schedule import learning_rate
from cxrtext.training.step import backward

PATIENCE = 20
"""Steps in a row with a loss far above the first one's, after which a run has diverged."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step did.

    Args:
        step: The step, from 1.
        loss: Mean loss of the batch, in nats; with the masked-language-model loss where there is
            one.
        accuracy: Share of sentences that score their own image highest in the batch.
        floored: Share of anchors at the floor of a debiased loss; 0 for other losses.
        without_negatives: Anchors of which the objective removed every negative.
        mlm: Cross-entropy of the guessed word pieces, in nats; 0 without that loss.
        gamma_sq: γ² before the step.
        lr: Learning rate of the step.
        grad_norm: Gradient norm before clipping.
        images_per_second: Speed of this step.
        waiting: Share of the step's time spent waiting for data.
    """

    step: int
    loss: float
    accuracy: float
    floored: float
    without_negatives: float
    mlm: float
    gamma_sq: float
    lr: float
    grad_norm: float
    images_per_second: float
    waiting: float


def train_steps(
    learner: Learner, examples: Examples, objective: Objective, recipe: Recipe
) -> Generator[StepReport, None, None]:
    """Train from where the learner stands to the end of the recipe, one report a step.

    What a step sees and draws follows from the seed and the step alone, so a run resumed after any
    step repeats what an unbroken one would have done.

    Raises:
        WorkError: The loss or a gradient is no longer a number, or the loss has diverged.
    """
    size, device = recipe.batch, learner.model.device
    batches = Feed(learner, examples, recipe)
    begun = time.perf_counter()
    for step, (batch, views), waited in prefetched(
        batches.make, range(learner.progress.step, recipe.steps)
    ):
        lr = learning_rate(step, total=recipe.steps, warmup=recipe.warmup, peak=recipe.lr)
        set_rate(learner.optimizer, lr)
        set_training(learner.model, recipe.lock)
        batch = batch.to(device)
        images = prepared(learner.model, augment(batch.images, views, batches.crop))

        learner.optimizer.zero_grad(set_to_none=True)
        outcome = backward(learner, objective, batch, images, recipe, step)
        loss, accuracy, gamma_sq, mlm = outcome.numbers(batch, recipe)
        check_loss(learner.progress, loss, step, recipe)
        norm = _update(learner, recipe, step)
        learner.progress.step = step + 1

        now = time.perf_counter()
        yield StepReport(
            step=step + 1,
            loss=loss,
            accuracy=accuracy,
            floored=outcome.result.floored,
            without_negatives=float(outcome.result.without_negatives),
            mlm=mlm,
            gamma_sq=gamma_sq,
            lr=lr,
            grad_norm=norm,
            images_per_second=size / (now - begun),
            waiting=min(1.0, waited / (now - begun)),
        )
        begun = time.perf_counter()  # the caller's validation and saving is not this step's time


class Feed:
    """Puts together what a step reads, in a thread of its own.

    Args:
        learner: Whose model, device and share of the work it is for.
        examples: What is trained on.
        recipe: How to train.
    """

    def __init__(self, learner: Learner, examples: Examples, recipe: Recipe) -> None:
        self._examples, self._recipe = examples, recipe
        self._share = learner.processes.share
        self._pinned = learner.model.device.type == "cuda"
        self._vocabulary = (
            vocabulary_of(learner.model.tokenizer, int(learner.model.spec.text["vocab_size"]))
            if recipe.mlm_weight
            else None
        )
        preprocessing = learner.model.spec.preprocessing
        self.resize, self.crop = preprocessing.resize, preprocessing.crop

    def make(self, step: int) -> tuple[Batch, Views]:
        """The batch of a step, on the CPU, and how its images are to be seen."""
        recipe, seed = self._recipe, self._recipe.seed
        rows = batch_rows(len(self._examples), recipe.batch, seed, step)
        draws = np.random.default_rng([seed, 2, step])
        batch = self._examples.batch(rows, draws, recipe.sentences, self._share)
        generator = torch.Generator().manual_seed(seed_of(seed, 3, step))
        views = draw_views(
            len(rows),
            self.resize,
            self.crop,
            generator,
            brightness=recipe.brightness,
            contrast=recipe.contrast,
            rotation=recipe.rotation,
        )
        if self._vocabulary is not None:
            generator.manual_seed(seed_of(seed, 6, step, self._share[0]))
            batch = replace(batch, tokens=hide(batch.tokens, self._vocabulary, generator))
        if self._pinned:
            batch = batch.map(torch.Tensor.pin_memory)
        return batch, views[span(len(rows), *self._share)]


def prepared(model: ImageTextModel, images: Tensor) -> Tensor:
    """Images in [0, 1] as the encoder takes them; changed in place where they are contiguous."""
    preprocessing = model.spec.preprocessing
    images = images.sub_(preprocessing.mean).div_(preprocessing.std)
    return images.contiguous(memory_format=torch.channels_last)


def _update(learner: Learner, recipe: Recipe, step: int) -> float:
    """Average, clip and apply the gradients; returns their norm before clipping."""
    learner.average_the_rest()
    learner.scaler.unscale_(learner.optimizer)
    norm = float(torch.nn.utils.clip_grad_norm_(learner.parameters(), recipe.clip))
    if not math.isfinite(norm) and (
        not learner.scaler.is_enabled() or learner.scaler.get_scale() <= 1
    ):
        raise WorkError(f"a gradient is not a number at step {step + 1}; {_mend(recipe)}")
    learner.scaler.step(learner.optimizer)
    learner.scaler.update()
    if learner.average is not None:
        learner.average.update(learner.model, step + 1)
    return norm


def check_loss(progress: Progress, loss: float, step: int, recipe: Recipe) -> None:
    """Stop a run whose loss is no number, or for long far worse than at the first step.

    Raises:
        WorkError: Saying what to change.
    """
    if not math.isfinite(loss):
        raise WorkError(f"the loss is not a number at step {step + 1}; {_mend(recipe)}")
    if progress.first_loss is None:
        progress.first_loss = loss
    limit = progress.first_loss + math.log(recipe.batch) + 1.0
    progress.worse = progress.worse + 1 if loss > limit else 0
    if progress.worse >= PATIENCE:
        raise WorkError(
            f"the loss has diverged at step {step + 1}: above {limit:.1f} for {PATIENCE} steps, "
            f"and {progress.first_loss:.1f} at the first; {_mend(recipe)}"
        )


def _mend(recipe: Recipe) -> str:
    half = recipe.precision != "float32"
    other = ", or train with training.precision=float32" if half else ", or training.clip"
    return f"lower training.lr (now {recipe.lr:g}){other}"
