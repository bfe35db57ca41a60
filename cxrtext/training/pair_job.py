"""Image–text training as a job of the loop."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from cxrtext.images.augment import Views, augment, draw_views
from cxrtext.models import ImageTextModel
from cxrtext.training.batch import Batch, span
from cxrtext.training.contrast import Objective
from cxrtext.training.data import Examples, batch_rows
from cxrtext.training.loop import StepNumbers
from cxrtext.training.masking import hide, vocabulary_of
from cxrtext.training.pair_learner import PairLearner
from cxrtext.training.recipe import Recipe, seed_of, set_training
from cxrtext.training.step import backward


@dataclass(frozen=True, slots=True)
class PairJob:
    """A model that learns from images and sentences.

    Args:
        learner: What learns.
        examples: What is trained on.
        objective: The loss.
        pace: How to train.
    """

    learner: PairLearner
    examples: Examples
    objective: Objective
    pace: Recipe
    feed: "Feed" = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "feed", Feed(self.learner, self.examples, self.pace))

    def make(self, step: int) -> tuple[Batch, Views]:
        """The batch of a step, on the CPU, and how its images are to be seen."""
        return self.feed.make(step)

    def gradients(self, step: int, made: tuple[Batch, Views]) -> StepNumbers:
        """Compute a step's gradients."""
        model, recipe = self.learner.model, self.pace
        batch, views = made
        set_training(model, recipe.lock)
        batch = batch.to(model.device)
        images = prepared(model, augment(batch.images, views, self.feed.crop))
        outcome = backward(self.learner, self.objective, batch, images, recipe, step)
        loss, accuracy, gamma_sq, mlm = outcome.numbers(batch, recipe)
        return StepNumbers(
            loss=loss,
            accuracy=accuracy,
            gamma_sq=gamma_sq,
            floored=outcome.result.floored,
            without_negatives=float(outcome.result.without_negatives),
            mlm=mlm,
        )


class Feed:
    """Puts together what a step reads, in a thread of its own.

    Args:
        learner: Whose model, device and share of the work it is for.
        examples: What is trained on.
        recipe: How to train.
    """

    def __init__(self, learner: PairLearner, examples: Examples, recipe: Recipe) -> None:
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
