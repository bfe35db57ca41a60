"""What an engine is given, what it gives back, and what it must guarantee.

An engine is given tasks and gives outcomes back; it decides nothing else.  What to do again and
what is done already is the driver's business (:mod:`cxrtext.jobs.driver`), and what a task does,
committing its shard included, is the work's.

An engine must guarantee:

1. Each task that was submitted has exactly one outcome, in any order, whatever dies: where the
   process that had a task is gone, or takes longer than ``task.limit_s``, the outcome says so in
   ``lost``.  Nothing else may hang: the driver calls :meth:`Engine.next` again and again.
2. A process works on one task at a time, so that one that dies takes no other task with it; a new
   one takes its place.  A task may be run more than once: its shard comes out the same.
3. ``work(task)`` is called with both pickled.  The work keeps what it loads (a model) in its
   process, so a process should live for many tasks.
4. An exception of the work is sent back: a :class:`~cxrtext.errors.CxrTextError` as ``error``, any
   other as ``lost`` with its kind, never with its text, which may quote a report.  Use
   :func:`attempt`.
5. :meth:`Engine.close` ends everything within a second or two, also what is under way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cxrtext.errors import CxrTextError


@dataclass(frozen=True, slots=True)
class Task:
    number: int  # of the shard, from 0
    rows: tuple[Any, ...]  # what the work needs of each row; the driver only counts them
    limit_s: float = 3600.0  # seconds on the clock after which its process counts as lost


Work = Callable[[Task], None]
"""Makes a shard and commits it; picklable, and the same bytes whenever and wherever it runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task: done where neither is set."""

    task: Task
    error: CxrTextError | None = None  # what the work raised
    lost: str | None = None  # why its process is gone, such as "SIGKILL"


class Engine(Protocol):
    """Runs tasks; :meth:`cxrtext.jobs.kind.Workers.start` starts one."""

    @property
    def slots(self) -> int:
        """Tasks that run at once, at least one; a cluster's number changes."""

    def submit(self, task: Task) -> None:
        """Take a task; returns at once.  The driver keeps about twice ``slots`` submitted."""

    def next(self, wait_s: float) -> Outcome | None:
        """The next outcome, or None where there is none within so many seconds."""

    def close(self) -> None:
        """End all processes, whatever they do."""


def attempt(work: Work, task: Task) -> tuple[CxrTextError | None, str | None]:
    """Do a task where it is to be done; gives ``error`` and ``lost`` of its outcome."""
    try:
        work(task)
    except CxrTextError as error:
        return error, None
    except Exception as error:  # noqa: BLE001 - whatever an image or a device brings about
        return None, type(error).__name__
    return None, None
