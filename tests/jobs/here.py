"""An engine without processes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cxrtext.jobs.engines.engine import Engine, Outcome, Task, Work, attempt
from cxrtext.jobs.kind import Workers


class Here:
    """An engine that works in this process, last task first."""

    slots = 2

    def __init__(self, work: Work) -> None:
        self._work, self._tasks = work, list[Task]()

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def next(self, wait_s: float) -> Outcome | None:
        task = self._tasks.pop()
        return Outcome(task, *attempt(self._work, task))

    def close(self) -> None:
        self._tasks.clear()


@contextmanager
def work_here() -> Iterator[None]:
    """Inside, jobs that ask for no number of workers work in this process."""
    start_workers = Workers.start

    def start(workers: Workers, work: Work, shared: Sequence[Path]) -> Engine:
        return start_workers(workers, work, shared) if workers.workers else Here(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "start", start)
        yield
