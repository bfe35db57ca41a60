"""Work in processes of their own that may hang or die without taking the run down."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cxrtext.errors import ImageError
from cxrtext.images.isolated_lost import ProcessLost
from cxrtext.images.isolated_pool import IsolatedPool
from cxrtext.images.isolated_worker import Work


@dataclass(frozen=True, slots=True)
class Lost:
    """A task that gave no answer.

    Args:
        reason: Why, in a few words.
        mend: What to do about it.
    """

    reason: str
    mend: str


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def answers(
    work: Work, tasks: Iterable[Any], workers: int, *, seconds: float = 120.0
) -> Iterator[tuple[Any, tuple[Any, bytes | memoryview] | Lost]]:
    """Answer tasks in several processes, in order.

    A process that dies or takes too long or too much memory loses the task that it held, and is
    replaced.  All of them end with this process, even where it is killed.

    Args:
        work: A function at the top of a module.
        tasks: Each what JSON can hold; read as the processes become free.
        workers: Most processes at a time.
        seconds: Longest time for a task.

    Yields:
        Each task with its answer.

    Raises:
        WorkError: A process cannot be started.
    """
    with IsolatedPool(work, workers, seconds=seconds, wall_seconds=seconds) as pool:

        def attempt(task: Any) -> tuple[Any, tuple[Any, bytes | memoryview] | Lost]:
            try:
                return task, pool.ask(task)
            except ProcessLost as loss:
                return task, Lost(loss.fault.format("read"), loss.mend)
            except ImageError as error:
                return task, Lost(str(error), "copy or export the file again")

        yield from pool.each(attempt, tasks)
