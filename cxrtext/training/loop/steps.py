"""Taking a job's steps to the end: logging, saving and stopping between them."""

import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from cxrtext.errors import WorkError
from cxrtext.training.loop.folder import MetricsLog
from cxrtext.training.loop.job import Job, Learner, StepReport, train_steps
from cxrtext.training.loop.resume import last_good, require_room, save_state

LOGGED = (
    "loss", "accuracy", "floored", "without_negatives", "mlm", "gamma_sq", "lr", "grad_norm",
    "images_per_second", "waiting",
)  # fmt: skip
"""What is logged of a step's report."""
KEEP = 2  # states that a `StateKeeper` keeps
ELSEWHERE = "name another folder with --out"


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

    A second SIGINT is not held back: it raises ``KeyboardInterrupt`` at once.  SIGTERM may come
    twice from one stop, from Slurm and from torchrun.  Outside the main thread, where Python allows
    no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, object] = {}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
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


@dataclass(slots=True, kw_only=True)
class StateKeeper:
    """Callbacks of a run that keeps its last states, and measures nothing between two steps.

    ``out`` is the run's folder, ``configuration`` and ``data`` are those of
    :func:`~.resume.check_same`.
    """

    learner: Learner
    out: Path
    configuration: Mapping[str, Any]
    data: str

    def after_step(self, report: StepReport, log: MetricsLog | None) -> None:
        """Nothing."""

    def save(self) -> None:
        learner, folder = self.learner, self.out / "state"
        require_room(folder, learner.state_bytes(), "a state", ELSEWHERE)
        state = {"configuration": self.configuration, "data": self.data, "learner": learner.state()}
        save_state(folder, learner.progress.step, state, KEEP)

    def require_room_to_start(self) -> None:
        """Refuse to start what could not be saved in the end."""
        there = sum(path.stat().st_size for path in self.out.glob("state/*.pt"))
        size = (KEEP + 2) * self.learner.state_bytes() - there
        require_room(self.out, size, "keeping states", ELSEWHERE)


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
    saved every ``save_every`` steps, at the end, and where a signal asks to stop, which raises
    ``KeyboardInterrupt``.
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
                    numbers = {key: getattr(report, key) for key in LOGGED}
                    log.write("train", step, {**numbers, "epoch": step / epoch})
                callbacks.after_step(report, log)
                stopping = learner.processes.any(stop.requested)
                done = learner.progress.done
                if step % save_every == 0 or last or stopping or done:
                    callbacks.save()
                if stopping and not last:
                    raise KeyboardInterrupt
                if done:
                    break
        except WorkError as error:
            raise WorkError(f"{error}; {last_good(out / 'state')}") from None
