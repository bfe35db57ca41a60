"""Following a job to its end: logging, saving and stopping between its steps."""

from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from cxrtext.training.interrupt import StopRequest
from cxrtext.training.learner import Learner
from cxrtext.training.listener import Listener
from cxrtext.training.loop import Job, StepReport, train_steps
from cxrtext.training.metrics_log import MetricsLog


class Between(Protocol):
    """What a kind of run does between two steps."""

    def measure(self, report: StepReport, log: MetricsLog | None) -> None:
        """Validate, where it is time to; may end the run by ``progress.done``."""

    def save(self) -> None:
        """Write what is needed to go on."""


def follow(
    job: Job[Any],
    between: Between,
    out: Path,
    listener: Listener,
    *,
    images: int,
    log_every: int,
    save_every: int,
) -> None:
    """Take the steps that are left, and log, measure and save between them.

    Args:
        job: What is trained.
        between: What this kind of run does between two steps.
        out: The run's folder, for its metrics.
        listener: Hears of every step.
        images: Training images; an epoch sees each once.
        log_every: Steps between two lines of the metrics.
        save_every: Steps between two states; one is written at the end as well.

    Raises:
        WorkError: The loss or a gradient is no longer a number, or the loss has diverged.
        KeyboardInterrupt: A signal asked to stop; the state was saved.
    """
    learner, pace = job.learner, job.pace
    total, epoch = pace.steps, images // pace.batch
    steps = train_steps(job)
    with _log(learner, out) as log, StopRequest() as stop, closing(steps) as reports:
        for report in reports:
            step, last = report.step, report.step == total
            listener.step(report, total)
            if log and (step % log_every == 0 or last):
                log.write("train", step, _numbers(report, epoch))
            between.measure(report, log)
            stopping = learner.processes.any(stop.requested, learner.device)
            done = learner.progress.done
            if step % save_every == 0 or last or stopping or done:
                between.save()
            if stopping and not last:
                raise KeyboardInterrupt
            if done:
                break


def _numbers(report: StepReport, epoch: int) -> dict[str, float]:
    values = asdict(report)
    step = values.pop("step")
    return {**values, "epoch": step / epoch}


def _log(learner: Learner, out: Path) -> AbstractContextManager[MetricsLog | None]:
    if not learner.processes.first:
        return nullcontext()
    return MetricsLog(out, learner.progress.step)
