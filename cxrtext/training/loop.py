"""The training loop: a generator of step reports, whose caller logs, validates and saves.

What is trained, and on what, is a :class:`Job`: image–text pairs (:mod:`.pair_job`) or views of
images (:mod:`.views`).
"""

import math
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch

from cxrtext.errors import WorkError
from cxrtext.training.learner import Learner, Progress
from cxrtext.training.prefetch import prefetched
from cxrtext.training.recipe import set_rate
from cxrtext.training.schedule import Pace

PATIENCE = 20
"""Steps in a row with a loss far above the first one's, after which a run has diverged."""

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """What a job says of the batch of a step.

    Args:
        loss: Mean loss of the batch, in nats; with the masked-language-model loss where there is
            one.
        accuracy: Share of anchors that score their own positive highest in the batch.
        gamma_sq: γ² before the step.
        floored: Share of anchors at the floor of a debiased loss; 0 for other losses.
        without_negatives: Anchors of which the objective removed every negative.
        mlm: Cross-entropy of the guessed word pieces, in nats; 0 without that loss.
    """

    loss: float
    accuracy: float
    gamma_sq: float
    floored: float = 0.0
    without_negatives: float = 0.0
    mlm: float = 0.0


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step did.

    Args:
        step: The step, from 1.
        loss: As the following up to ``gamma_sq`` of :class:`StepNumbers`.
        accuracy: See there.
        floored: See there.
        without_negatives: See there.
        mlm: See there.
        gamma_sq: See there.
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


class Job(Protocol[Made]):
    """What is trained, on what, and with which loss.

    What :meth:`make` and :meth:`gradients` do follows from the seed and the step alone, so that a
    run resumed after any step repeats what an unbroken one would have done.
    """

    @property
    def learner(self) -> Learner:
        """What learns."""

    @property
    def pace(self) -> Pace:
        """How long and how fast."""

    def make(self, step: int) -> Made:
        """What a step reads, on the CPU; called in a thread of its own, ahead of time."""

    def gradients(self, step: int, made: Made) -> StepNumbers:
        """Compute a step's gradients; they are left in the parameters, times the loss's scale.

        The gradients are empty before it.
        """


def train_steps(job: Job[Made]) -> Generator[StepReport, None, None]:
    """Train from where the learner stands to the end, one report a step.

    Raises:
        WorkError: The loss or a gradient is no longer a number, or the loss has diverged.
    """
    learner, pace = job.learner, job.pace
    begun = time.perf_counter()
    for step, made, waited in prefetched(job.make, range(learner.progress.step, pace.steps)):
        lr = pace.rate(step)
        set_rate(learner.optimizer, lr)
        learner.optimizer.zero_grad(set_to_none=True)
        numbers = job.gradients(step, made)
        check_loss(learner.progress, numbers.loss, step, pace)
        norm = _update(learner, pace, step)
        learner.progress.step = step + 1

        now = time.perf_counter()
        yield StepReport(
            step=step + 1,
            loss=numbers.loss,
            accuracy=numbers.accuracy,
            floored=numbers.floored,
            without_negatives=numbers.without_negatives,
            mlm=numbers.mlm,
            gamma_sq=numbers.gamma_sq,
            lr=lr,
            grad_norm=norm,
            images_per_second=pace.batch / (now - begun),
            waiting=min(1.0, waited / (now - begun)),
        )
        begun = time.perf_counter()  # the caller's validation and saving is not this step's time


def _update(learner: Learner, pace: Pace, step: int) -> float:
    """Average, clip and apply the gradients, and bound the weights; the norm before clipping."""
    learner.average_the_rest()
    learner.scaler.unscale_(learner.optimizer)
    norm = float(torch.nn.utils.clip_grad_norm_(learner.parameters(), pace.clip))
    if not math.isfinite(norm) and (
        not learner.scaler.is_enabled() or learner.scaler.get_scale() <= 1
    ):
        raise WorkError(f"a gradient is not a number at step {step + 1}; {pace.mend()}")
    learner.scaler.step(learner.optimizer)
    learner.scaler.update()
    learner.bound()
    if learner.average is not None:
        learner.average.update(learner.model, step + 1)
    return norm


def check_loss(progress: Progress, loss: float, step: int, pace: Pace) -> None:
    """Stop a run whose loss is no number, or for long far worse than at the first step.

    Raises:
        WorkError: Saying what to change.
    """
    if not math.isfinite(loss):
        raise WorkError(f"the loss is not a number at step {step + 1}; {pace.mend()}")
    if progress.first_loss is None:
        progress.first_loss = loss
    limit = progress.first_loss + math.log(pace.batch) + 1.0
    progress.worse = progress.worse + 1 if loss > limit else 0
    if progress.worse >= PATIENCE:
        raise WorkError(
            f"the loss has diverged at step {step + 1}: above {limit:.1f} for {PATIENCE} steps, "
            f"and {progress.first_loss:.1f} at the first; {pace.mend()}"
        )
