"""Takes a job's steps to the end, with logging, saving and stopping between them."""

import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cxrtext.errors import WorkError
from cxrtext.training.loop.folder import OUT, MetricsLog
from cxrtext.training.loop.job import Job, Learner, StepReport, train_steps
from cxrtext.training.loop.resume import KEEP, last_good, require_room, save_state

LOGGED = (
    "loss", "accuracy", "floored", "without_negatives", "mlm", "gamma_sq", "lr", "grad_norm",
    "images_per_second", "waiting",
)  # fmt: skip
"""The logged fields of a step's report."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Hears lines of text, (done, total) of decoding, and (report, total) after every step.

    ``embedding`` hears "images" or "sentences" that pass through a locked encoder, and their (done,
    total).
    """

    say: Callable[[str], None] = lambda _: None
    decoding: Callable[[int, int], None] = lambda _done, _total: None
    embedding: Callable[[str, int, int], None] = lambda _what, _done, _total: None
    step: Callable[[StepReport, int], None] = lambda _report, _total: None


class StopRequest:
    """Holds back SIGINT and SIGTERM while it is open; ``requested`` says whether one came.

    A second SIGINT raises ``KeyboardInterrupt`` at once.  A single stop may send SIGTERM twice,
    from Slurm and from torchrun.  Outside the main thread, where Python allows no signal handlers,
    it does nothing.
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


@dataclass(slots=True, kw_only=True)
class Run:
    """What a run does between steps: it saves its states.

    ``out`` is the run's folder, and ``other`` the option for another one; ``configuration`` and
    ``data`` are for :func:`~.resume.check_same`.
    """

    learner: Learner
    out: Path
    configuration: Mapping[str, Any]
    data: str
    other: str = OUT

    def after_step(self, report: StepReport, log: MetricsLog | None) -> None:
        """Validate, if it is time to."""

    def model_bytes(self) -> int:
        """The size of the checkpoint written along with a state."""
        return 0

    def save(self) -> None:
        """Write what is needed to resume."""
        learner, folder = self.learner, self.out / "state"
        size = learner.state_bytes() + self.model_bytes()
        require_room(folder, size, "a state", f"train elsewhere with {self.other}")
        state = {"configuration": self.configuration, "data": self.data, "learner": learner.state()}
        save_state(folder, learner.progress.step, state)

    def require_room_to_start(self) -> None:
        """Refuse to start a run that the disk has no room to save."""
        written = [*self.out.glob("state/*.pt"), *self.out.glob("checkpoint*/*")]
        size = (KEEP + 1) * self.learner.state_bytes() + 3 * self.model_bytes()
        size -= sum(path.stat().st_size for path in written)
        require_room(self.out, size, "keeping states", f"train elsewhere with {self.other}")


def take_steps(
    job: Job[Any],
    run: Run,
    listener: Listener,
    *,
    images: int,
    log_every: int,
    save_every: int,
) -> None:
    """Take the remaining steps; log, validate and save between them.

    An epoch sees each of ``images`` once.  A state is saved every ``save_every`` steps, at the end,
    and when a signal asks to stop, which then raises ``KeyboardInterrupt``.
    """
    learner, total = job.learner, job.schedule.steps
    epoch = images // job.schedule.batch
    first = learner.processes.first
    log_of_first = MetricsLog(run.out, learner.progress.step) if first else nullcontext()
    with log_of_first as log, StopRequest() as stop, closing(train_steps(job)) as reports:
        try:
            for report in reports:
                step, last = report.step, report.step == total
                listener.step(report, total)
                if log and (step % log_every == 0 or last):
                    numbers = {key: getattr(report, key) for key in LOGGED}
                    log.write("train", step, {**numbers, "epoch": step / epoch})
                run.after_step(report, log)
                stopping = learner.processes.any(stop.requested)
                if step % save_every == 0 or last or stopping:
                    run.save()
                if stopping and not last:
                    raise KeyboardInterrupt
        except WorkError as error:
            raise WorkError(f"{error}; {last_good(run.out / 'state')}") from None
