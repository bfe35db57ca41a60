"""The training loop: a generator of step reports; its caller logs, validates and saves.

A :class:`Job` says what is trained, and on what: image–text pairs (:mod:`cxrtext.training.step`),
an image encoder (:mod:`cxrtext.training.image_pretraining`) or views of small images
(:mod:`cxrtext.experiments`).
"""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.errors import WorkError
from cxrtext.training.loop.distributed import Processes
from cxrtext.training.loop.optimization import Schedule

PATIENCE = 20
"""A run has diverged after so many steps in a row with a loss far above the first."""
READY = 2  # batches prepared ahead
T = TypeVar("T")
Made = TypeVar("Made")


@dataclass(slots=True)
class RunProgress:
    """The progress of a run, kept in its state."""

    step: int = 0
    first_loss: float | None = None  # of the first step, in nats; None before it
    worse: int = 0  # steps in a row with a loss far above the first
    # the best value of the chosen measure so far, larger is better; None before the first
    best: float | None = None
    best_step: int = 0  # the step after which it was measured


@dataclass(slots=True, kw_only=True)
class Learner:
    """A model, its optimizer, and everything else that a run needs to resume exactly.

    The scaler only does something in float16.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: GradScaler
    processes: Processes = field(default_factory=Processes)
    progress: RunProgress = field(default_factory=RunProgress)

    @property
    def device(self) -> torch.device:
        return self.parameters()[0].device

    def parts(self) -> dict[str, nn.Module]:
        """The modules that a state keeps, by name."""
        return {"model": self.model}

    def state(self) -> dict[str, Any]:
        """Everything that :meth:`load` needs."""
        return {
            "progress": asdict(self.progress),
            **{name: part.state_dict() for name, part in self.parts().items()},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def state_bytes(self) -> int:
        """The size of a state, with AdamW's two moments for each weight."""
        moments = 2 * sum(p.nbytes for p in self.parameters())
        return bytes_of({**self.state(), "optimizer": {}}) + moments

    def load(self, state: dict[str, Any]) -> None:
        """Load a state of the same configuration."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.progress = RunProgress(**state["progress"])

    def average_the_rest(self) -> None:
        """Average over processes the gradients that the model does not average itself."""

    def bound(self) -> None:
        """Move weights that a step pushed out of their range back to its limit, in place.

        This comes after the optimizer's step: a limit in the forward pass has no gradient beyond
        it, so a weight outside would never come back.
        """

    def parameters(self) -> list[nn.Parameter]:
        """All trained parameters."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]


def bytes_of(state: Any) -> int:
    """Bytes of the tensors in nested dictionaries and lists."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, Mapping):
        return sum(bytes_of(value) for value in state.values())
    return sum(bytes_of(value) for value in state) if isinstance(state, list | tuple) else 0


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """A job's numbers for the batch of a step."""

    # mean loss of the batch, in nats, with the masked-language-model loss if there is one
    loss: float
    accuracy: float  # share of anchors that score their own positive highest in the batch
    gamma_sq: float  # γ² before the step
    floored: float = 0.0  # share of anchors with a debiased loss at its floor; 0 for other losses
    without_negatives: float = 0.0  # anchors for which the objective removed every negative
    mlm: float = 0.0  # cross-entropy of the masked word pieces, in nats; 0 without that loss


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport(StepNumbers):
    step: int
    lr: float  # learning rate of the step
    grad_norm: float  # gradient norm before clipping
    images_per_second: float  # speed of this step
    waiting: float  # share of the step's time spent waiting for data


class Job(Protocol[Made]):
    """What is trained, on what, and with which loss.

    :meth:`make` and :meth:`gradients` depend only on the seed and the step, so a run resumed after
    any step does the same as an uninterrupted one.
    """

    @property
    def learner(self) -> Learner: ...

    @property
    def schedule(self) -> Schedule: ...

    def make(self, step: int) -> Made:
        """Prepare a step's data on the CPU; called ahead of time in a thread of its own."""

    def gradients(self, step: int, made: Made) -> StepNumbers:
        """Compute a step's gradients, left in the parameters times the loss's scale.

        The gradients are empty before.
        """


def train_steps(job: Job[Made]) -> Generator[StepReport, None, None]:
    """Train from the learner's step to the end, with one report per step."""
    learner, schedule = job.learner, job.schedule
    begun = time.perf_counter()
    for step, made, waited in prefetched(job.make, range(learner.progress.step, schedule.steps)):
        lr = schedule.rate(step)
        for group in learner.optimizer.param_groups:
            group["lr"] = lr
        learner.optimizer.zero_grad(set_to_none=True)
        numbers = job.gradients(step, made)
        check_loss(learner.progress, numbers.loss, step, schedule)
        norm = _update(learner, schedule, step)
        learner.progress.step = step + 1

        now = time.perf_counter()
        yield StepReport(
            **asdict(numbers),
            step=step + 1,
            lr=lr,
            grad_norm=norm,
            images_per_second=schedule.batch / (now - begun),
            waiting=min(1.0, waited / (now - begun)),
        )
        begun = time.perf_counter()  # the caller's validation and saving do not count


def _update(learner: Learner, schedule: Schedule, step: int) -> float:
    """Average, clip and apply gradients, and bound the weights; return the norm before clipping."""
    learner.average_the_rest()
    learner.scaler.unscale_(learner.optimizer)
    norm = float(torch.nn.utils.clip_grad_norm_(learner.parameters(), schedule.clip))
    if not math.isfinite(norm) and (
        not learner.scaler.is_enabled() or learner.scaler.get_scale() <= 1
    ):
        raise WorkError(f"a gradient is not a number at step {step + 1}; {schedule.advice()}")
    learner.scaler.step(learner.optimizer)
    learner.scaler.update()
    learner.bound()
    return norm


def check_loss(progress: RunProgress, loss: float, step: int, schedule: Schedule) -> None:
    """Stop a run if its loss is not a number, or is far above the first for many steps."""
    if not math.isfinite(loss):
        raise WorkError(f"the loss is not a number at step {step + 1}; {schedule.advice()}")
    if progress.first_loss is None:
        progress.first_loss = loss
    limit = progress.first_loss + math.log(schedule.batch) + 1.0
    progress.worse = progress.worse + 1 if loss > limit else 0
    if progress.worse >= PATIENCE:
        raise WorkError(
            f"the loss has diverged at step {step + 1}: above {limit:.1f} for {PATIENCE} steps, "
            f"and {progress.first_loss:.1f} at the first; {schedule.advice()}"
        )


def prefetched(
    make: Callable[[int], T], steps: Iterable[int]
) -> Generator[tuple[int, T, float], None, None]:
    """Prepare what each step needs ahead of time, in order, in a thread; errors are raised here.

    Gives the step, what was made for it, and the seconds spent waiting for it.
    """
    ready: deque[tuple[int, Future[T]]] = deque()
    with ThreadPoolExecutor(1, "batches") as pool:

        def first() -> tuple[int, T, float]:
            begun = time.perf_counter()
            step, made = ready.popleft()
            return step, made.result(), time.perf_counter() - begun

        try:
            for step in steps:
                ready.append((step, pool.submit(make, step)))
                if len(ready) > READY:
                    yield first()
            while ready:
                yield first()
        finally:
            pool.shutdown(cancel_futures=True)
