"""Taking a job's steps to the end: logging, validating, saving and stopping between them."""

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from cxrtext.config import Config
from cxrtext.errors import WorkError
from cxrtext.models import save_checkpoint
from cxrtext.training.folder import MetricsLog, draw_curves
from cxrtext.training.loader import Examples
from cxrtext.training.loop import Job, StepReport, train_steps
from cxrtext.training.resume import (
    bytes_of,
    deciding,
    last_good,
    plain,
    require_room,
    save_state,
)
from cxrtext.training.step import PairJob
from cxrtext.training.validation import ZeroShot, validate

LOGGED = (
    "loss", "accuracy", "clamped", "without_negatives", "mlm", "gamma_sq", "lr", "grad_norm",
    "images_per_second", "waiting",
)  # fmt: skip
"""What is logged of a step's report; "clamped" is called "floored" there."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Hears lines of text, (done, total) of decoding, and (report, total) after every step.

    ``embedding`` hears what passes through a locked encoder, images or sentences, and (done, total)
    of them.
    """

    say: Callable[[str], None] = lambda _: None
    decoding: Callable[[int, int], None] = lambda _done, _total: None
    embedding: Callable[[str, int, int], None] = lambda _what, _done, _total: None
    step: Callable[[StepReport, int], None] = lambda _report, _total: None


class StopRequest:
    """Holds back SIGINT and SIGTERM while it is open; ``requested`` tells whether one came.

    A second signal is not held back: it raises ``KeyboardInterrupt`` at once.  Outside the main
    thread, where Python allows no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, object] = {}

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


class Callbacks(Protocol):
    """What a kind of run does between two steps."""

    def after_step(self, report: StepReport, log: MetricsLog | None) -> None:
        """Validate, where it is time to; may end the run by ``progress.done``."""

    def save(self) -> None:
        """Write what is needed to resume."""


def take_steps(
    job: Job[Any],
    callbacks: Callbacks,
    out: Path,
    listener: Listener,
    *,
    images: int,
    log_every: int,
    save_every: int,
) -> None:
    """Take the steps that are left; log, validate and save between them.

    ``out`` is the run's folder, for its metrics; an epoch sees each of ``images`` once.  A state is
    saved every ``save_every`` steps, and at the end.

    Raises:
        WorkError: The loss or a gradient is no longer a number, or the loss has diverged; the
            message says where the last good state is.
        KeyboardInterrupt: A signal asked to stop; the state was saved.
    """
    learner, total = job.learner, job.schedule.steps
    epoch = images // job.schedule.batch
    first = learner.processes.first
    log_of_first = MetricsLog(out, learner.progress.step) if first else nullcontext()
    with log_of_first as log, StopRequest() as stop, closing(train_steps(job)) as reports:
        try:
            for report in reports:
                step, last = report.step, report.step == total
                listener.step(report, total)
                if log and (step % log_every == 0 or last):
                    log.write("train", step, _numbers(report, epoch))
                callbacks.after_step(report, log)
                stopping = learner.processes.any(stop.requested, learner.device)
                done = learner.progress.done
                if step % save_every == 0 or last or stopping or done:
                    callbacks.save()
                if stopping and not last:
                    raise KeyboardInterrupt
                if done:
                    break
        except WorkError as error:
            raise WorkError(f"{error}; {last_good(out / 'state')}") from None


def _numbers(report: StepReport, epoch: int) -> dict[str, float]:
    numbers = {"floored" if key == "clamped" else key: getattr(report, key) for key in LOGGED}
    return {**numbers, "epoch": report.step / epoch}


@dataclass(slots=True)
class Trainer:
    """An image–text run that is under way; its own callbacks.

    ``data`` is the data's fingerprint, ``val_set`` may be empty, ``validation`` has the last
    validation's numbers.
    """

    config: Config
    data: str
    job: PairJob
    train_images: int
    val_set: Examples
    zero_shot: ZeroShot | None
    listener: Listener
    validation: dict[str, float] = field(default_factory=dict)

    def run(self) -> dict[str, float]:
        """Train to the end; returns the last validation's numbers.

        Raises:
            WorkError: Saying what went wrong, and where the last good state is.
            KeyboardInterrupt: A signal asked to stop; the state was saved.
        """
        learner, training = self.job.learner, self.config.training
        start = learner.progress.step
        if not learner.progress.done:
            take_steps(
                self.job,
                self,
                self.config.out,
                self.listener,
                images=self.train_images,
                log_every=training.log_every,
                save_every=training.save_every,
            )
        if learner.progress.step == start:
            # Resumed after the last step: the checkpoint may still be missing.
            self.validation = self._validate()
            self.save()
        if learner.processes.first:
            draw_curves(self.config.out)
        return self.validation

    def after_step(self, report: StepReport, log: MetricsLog | None) -> None:
        """Validate every so many steps and after the last; keep the best, or stop early."""
        training, step = self.config.training, report.step
        if step % training.validate_every and step != training.steps:
            return
        self.validation = self._validate()
        if self.validation and log:
            log.write("val", step, self.validation)
        self._compare_with_best(step)

    def _measured_weights(self) -> AbstractContextManager[None]:
        """The weights that are measured and kept: the average where there is one."""
        learner = self.job.learner
        return learner.average.swapped_in(learner.model) if learner.average else nullcontext()

    def _validate(self) -> dict[str, float]:
        """Numbers on the validation split; none where it has no pair to tell apart."""
        if len(self.val_set) < 2:
            return {}
        learner, job = self.job.learner, self.job
        # Measured as trained: on features as long as the encoder is locked.
        locked = job.schedule.locked(max(0, learner.progress.step - 1))
        with self._measured_weights():
            return validate(
                learner.model,
                self.val_set if locked else self.val_set.unlocked(),
                job.loss,
                job.schedule,
                self.zero_shot,
                learner.processes,
            )

    def _compare_with_best(self, step: int) -> None:
        """Keep the model if it is the best so far; stop where it is long no better."""
        training, progress = self.config.training, self.job.learner.progress
        name = training.best.removeprefix("val/")
        if name not in self.validation:
            return
        value = -self.validation[name] if name == "loss" else self.validation[name]
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step, progress.waited = value, step, 0
            self._checkpoint("checkpoint-best")
            return
        progress.waited += 1
        if training.patience and progress.waited >= training.patience:
            progress.done = True
            self.listener.say(
                f"stopped after step {step}: {training.best} was best after step "
                f"{progress.best_step}, {progress.waited} validations ago"
            )

    def save(self) -> None:
        """Write the state and the checkpoint."""
        learner = self.job.learner
        if not learner.processes.first:
            return
        folder, keep = self.config.out / "state", self.config.training.keep
        require_room(
            folder,
            self.job.learner.state_bytes() + self._weight_bytes(),
            "a state and a checkpoint",
        )
        state = {
            "configuration": deciding(self.config),
            "data": self.data,
            "learner": learner.state(),
        }
        save_state(folder, learner.progress.step, state, keep)
        self._checkpoint("checkpoint")

    def _checkpoint(self, name: str) -> None:
        if not self.job.learner.processes.first:
            return
        training = {
            "configuration": plain(self.config),
            "data_fingerprint": self.data,
            "step": self.job.learner.progress.step,
            "validation": self.validation,
        }
        with self._measured_weights():
            save_checkpoint(self.config.out / name, self.job.learner.model, training)

    def _weight_bytes(self) -> int:
        return bytes_of(self.job.learner.model.state_dict())

    def require_room_to_start(self) -> None:
        """Refuse to start what could not be saved in the end.

        Raises:
            WorkError: There is too little room on the disk.
        """
        out, keep = self.config.out, self.config.training.keep
        there = [*out.glob("state/*.pt"), *out.glob("checkpoint*/*")]
        size = (keep + 1) * self.job.learner.state_bytes() + 3 * self._weight_bytes()
        size -= sum(path.stat().st_size for path in there)
        require_room(out, size, f"keeping {keep} states and two checkpoints")
