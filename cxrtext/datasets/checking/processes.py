"""Work in processes of their own that may hang or die without taking the run down.

``ProcessPoolExecutor`` gives up everything that is under way when one process dies, and does not
say which task killed it.  Here each process holds one task, so that the task is known, and only it
is lost.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from cxrtext.errors import WorkError

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_READY = "ready"


@dataclass(frozen=True, slots=True)
class Lost:
    """A task that gave no answer.

    Args:
        reason: Why, in a few words.
    """

    reason: str


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """What a process does: answer tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_parent()
    pipe.send(_READY)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            answer = function(task)
        except Exception as error:  # noqa: BLE001 - one bad task must not end the others
            # Its words may quote the file, so only the kind of failure is told.
            answer = Lost(f"cannot be read ({type(error).__name__})")
        pipe.send(answer)


class _Process(Generic[Task, Answer]):
    """One process and the task that it holds."""

    def __init__(self, function: Callable[[Task], Answer]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        self.process.start()
        theirs.close()  # so that its death ends the pipe
        self.ready = False
        self.task: Task | None = None
        self.since = time.monotonic()

    def give(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        try:
            self.pipe.send(task)
        except OSError:
            self.process.kill()  # found dead when its answer is awaited

    def take(self) -> Answer | Lost:
        """Take the answer that has come, or learn that the process is dead."""
        try:
            answer: Answer | Lost = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return Lost(f"the process that read it died ({_cause(self.process.exitcode)})")
        return answer

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    if -code == signal.SIGKILL:
        return "killed, perhaps for want of memory"
    return signal.Signals(-code).name


def answers(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    workers: int,
    *,
    seconds: float = 120.0,
) -> Iterator[tuple[Task, Answer | Lost]]:
    """Answer tasks in several processes, in any order.

    A process that dies or takes too long loses the task that it held, and is replaced.  All of
    them end with this process, even where it is killed.  A script that calls this needs
    ``if __name__ == "__main__":`` round its main part, because they are started afresh (spawn).

    Args:
        function: A function of a module, of one task.
        tasks: Read as the processes become free.
        workers: Most processes at a time.
        seconds: Longest time for a task.

    Yields:
        Each task with its answer.

    Raises:
        WorkError: A process cannot be started.
    """
    waiting = iter(tasks)
    running: list[_Process[Task, Answer]] = []
    try:
        for task in waiting:
            started: _Process[Task, Answer] = _Process(function)
            running.append(started)
            started.give(task)
            if len(running) == workers:
                break
        while running:
            yield from _round(running, waiting, function, seconds)
    finally:
        for process in running:
            process.stop()


def _round(
    running: list[_Process[Task, Answer]],
    waiting: Iterator[Task],
    function: Callable[[Task], Answer],
    seconds: float,
) -> Iterator[tuple[Task, Answer | Lost]]:
    """Wait for answers once, hand them on, and give out new tasks."""
    come = wait([process.pipe for process in running], timeout=1.0)
    for place, process in enumerate(list(running)):
        answer: Answer | Lost
        if process.pipe in come:
            answer = process.take()
        elif time.monotonic() - process.since > seconds:
            process.process.kill()
            answer = Lost(f"took longer than {seconds:.0f} s to read")
        else:
            continue
        if not process.ready:
            if isinstance(answer, Lost):
                raise WorkError("a reading process could not be started; take fewer workers")
            process.ready, process.since = True, time.monotonic()
            continue
        task = process.task
        assert task is not None  # noqa: S101 - given when it was started
        following = next(waiting, None)
        if following is None:
            process.stop()
            running.remove(process)
        else:
            if not process.process.is_alive() or isinstance(answer, Lost):
                process.stop()
                place = running.index(process)
                process = running[place] = _Process(function)
            process.give(following)
        yield task, answer
