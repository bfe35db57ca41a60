"""Jobs without processes."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cxrtext.jobs import cluster
from cxrtext.jobs.cluster import Cluster, Outcome, Task, Work, attempt


def outcomes_here(work: Work, tasks: Iterable[Task], device: str) -> Generator[Outcome, None, None]:
    """Do the tasks in this process, two at a time, the last first."""
    with work.open(device) as do:
        waiting: list[Task] = []
        for task in tasks:
            waiting.append(task)
            if len(waiting) == 2:
                yield attempt(do, waiting.pop())
        for task in reversed(waiting):
            yield attempt(do, task)


@contextmanager
def work_here() -> Iterator[None]:
    """Inside, jobs that ask for no number of workers work in this process."""
    in_processes = cluster.outcomes

    def outcomes(
        work: Work, tasks: Iterable[Task], by: Cluster, shards: int, shared: Sequence[Path] = ()
    ) -> Generator[Outcome, None, None]:
        if by.workers or by.address:
            return in_processes(work, tasks, by, shards, shared)
        return outcomes_here(work, tasks, by.device)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "outcomes", outcomes)
        yield
