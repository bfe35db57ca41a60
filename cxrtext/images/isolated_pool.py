"""Doing work in processes of their own, which a hostile file may end without harm.

``concurrent.futures.ProcessPoolExecutor`` gives up everything that is under way when one process
dies, and does not say which task killed it.  Here each process holds one task, and only that is
lost.
"""

import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from cxrtext.images.isolated_lost import ProcessLost
from cxrtext.images.isolated_process import IsolatedProcess, Limits
from cxrtext.images.isolated_worker import Work, name_of

Task = TypeVar("Task")
Result = TypeVar("Result")

MEMORY_BYTES = 4 * 2**30
CPU_SECONDS = 30.0
SMALLEST_MEMORY = 2**28
TASKS_A_PROCESS = 1000
"""A process is replaced after so many tasks, so that whatever leaks in a decoder is given back."""

AHEAD = 4
"""Tasks that `IsolatedPool.each` does before they are asked for, for each worker."""


class IsolatedPool:
    """Processes that do one kind of work, each started when it is first needed.

    Args:
        work: A function at the top of a module.
        workers: How many; None for one a core; 0 works in this process, without limits.
        memory_bytes: Address space of one process.
        seconds: Computing time that a task may take.
        wall_seconds: Time on the clock that a task may take; by default three times ``seconds``,
            which leaves room on a machine that is shared.

    Raises:
        ValueError: When a number is out of range.
    """

    def __init__(
        self,
        work: Work,
        workers: int | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        seconds: float = CPU_SECONDS,
        wall_seconds: float | None = None,
    ) -> None:
        self._work, self._name = work, name_of(work)
        self.workers = (os.cpu_count() or 1) if workers is None else workers
        wall = 3 * seconds if wall_seconds is None else wall_seconds
        if self.workers < 0 or memory_bytes < SMALLEST_MEMORY or not (seconds > 0 and wall > 0):
            raise ValueError("workers >= 0, at least 256 MiB of memory and some time are needed")
        self.lost: Counter[str] = Counter()
        """How many processes were lost, by reason."""
        self._limits = Limits(memory_bytes, seconds, wall)
        self._free: queue.LifoQueue[IsolatedProcess | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._free.put(None)
        self._running: set[IsolatedProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPoolExecutor(max(self.workers, 1), thread_name_prefix="reader")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process, also those that are working."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            for process in self._running:
                process.end()
            self._running.clear()

    def ask(self, request: Any, data: bytes = b"") -> tuple[Any, bytes | memoryview]:
        """Have one task done; waits for a free process.

        Args:
            request: What JSON can hold, for the work.
            data: Bytes that go with it.

        Returns:
            What the work answered.

        Raises:
            ImageError: When the work refused.
            ProcessLost: When its process died, hung or exceeded its limits.
            WorkError: When no process can be started.
        """
        if self.workers == 0:
            return self._work(request, data)
        process = self._free.get()
        try:
            if process is None or not process.alive:
                process = self._start(process)
            return process.ask(request, data)
        except ProcessLost as loss:
            with self._lock:
                if not self._closed:
                    self.lost[loss.reason] += 1
            raise
        finally:
            if process is not None and (not process.alive or process.tasks >= TASKS_A_PROCESS):
                self._forget(process)
                process = None
            self._free.put(process)

    def each(
        self, do: Callable[[Task], Result], tasks: Iterable[Task], ahead: int | None = None
    ) -> Iterator[Result]:
        """Do something that asks this pool for each task, several at a time.

        Args:
            do: Called on threads of this pool.
            tasks: Drawn as they are needed.
            ahead: Tasks that are done before they are asked for.

        Yields:
            What ``do`` gave for each task, in order.
        """
        if self.workers == 0:
            yield from map(do, tasks)
            return
        most = max(1, self.workers * AHEAD if ahead is None else ahead)
        pending: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                pending.append(self._threads.submit(do, task))
                if len(pending) > most:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _start(self, dead: IsolatedProcess | None) -> IsolatedProcess:
        if dead is not None:
            self._forget(dead)
        process = IsolatedProcess(self._name, self._limits)
        with self._lock:
            if not self._closed:
                self._running.add(process)
                return process
        process.end()
        raise ValueError("the reader pool is closed")

    def _forget(self, process: IsolatedProcess) -> None:
        process.end()
        with self._lock:
            self._running.discard(process)
