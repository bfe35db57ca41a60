"""Work in separate processes, which a hostile file may end without harm.

``concurrent.futures.ProcessPoolExecutor`` gives up all work in progress when one process dies, and
does not say which task killed it.  Here each process holds one task, and only that task is lost.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import BufferTooShort
from multiprocessing.connection import Pipe
from typing import Any, Self, TypeVar

import numpy as np

from cxrtext.errors import ImageError, WorkError
from cxrtext.images.limits import CPU_SECONDS, MAX_PIXELS, MEMORY_BYTES, MIN_MEMORY
from cxrtext.images.sandbox_worker import ANSWERED, NO_MEMORY, REFUSED, UNFORESEEN, Work, name_of

Task = TypeVar("Task")
Result = TypeVar("Result")

TASKS_A_PROCESS = 1000
"""A process is replaced after this many tasks, which frees whatever a decoder leaks."""

AHEAD = 4  # tasks for each worker that `SandboxPool.each` does in advance
_START_SECONDS = 60.0
_MAX_ANSWER = 2**24
_MAX_BYTES = 4 * MAX_PIXELS
# Otherwise glibc returns the memory of each image to the kernel, which takes a tenth of the time.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
}
# The worker gets the parent's path, so that it finds this package where the parent found it.
# Not multiprocessing: its spawn runs the user's main script again, with all its imports.
_PROGRAM = (
    "import sys, json; descriptor, parent, work, memory, seconds, sys.path[:] = "
    "json.loads(sys.argv[1]); from cxrtext.images.sandbox_worker import serve; "
    "serve(descriptor, parent, work, memory, seconds)"
)

AGAIN = "copy or export the file again"
_MORE_TIME = f"{AGAIN}, or allow more time"


class ProcessLost(Exception):  # noqa: N818 - the fate of a process
    """A process is gone or has to go; ``fault`` is about its task, {} stands for what was done."""

    def __init__(self, reason: str, fault: str, advice: str = AGAIN) -> None:
        super().__init__(reason)
        self.reason, self.fault, self.advice = reason, fault, advice

    def line(self, done: str) -> str:
        """The line about the task, for example "decoded"."""
        return f"{self.fault.format(done)}; {self.advice}"


@dataclass(frozen=True, slots=True)
class Limits:
    memory_bytes: int  # address space of the process
    cpu_seconds: float  # computing time for a task
    wall_seconds: float  # time on the clock for a task


class SandboxProcess:
    """A started process (WorkError if it does not start)."""

    def __init__(self, work: str, limits: Limits) -> None:
        self.tasks = 0
        self._limits, self._late = limits, False
        self._connection, theirs = Pipe()
        with theirs:
            asked = (theirs.fileno(), os.getpid(), work, limits.memory_bytes, limits.cpu_seconds)
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    [sys.executable, "-c", _PROGRAM, json.dumps([*asked, sys.path])],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **_ENVIRONMENT},
                )
            except OSError as error:
                self._connection.close()
                reason = (error.strerror or type(error).__name__).lower()
                raise WorkError(f"no reading process can be started ({reason})") from None
        with suppress(OSError, EOFError):
            if self._connection.poll(_START_SECONDS) and self._connection.recv_bytes(9) == b"0":
                return
        self.end()
        raise WorkError(
            f"a reading process did not start within {limits.memory_bytes >> 20} MiB; "
            "give it more memory, or read with fewer workers"
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Any, data: bytes) -> tuple[Any, memoryview]:
        """Do one task, as in `SandboxPool.ask`; the bytes of the answer are writable."""
        self.tasks += 1
        watch = threading.Timer(self._limits.wall_seconds, self._end_late)
        watch.daemon = True
        watch.start()
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            self._connection.send_bytes(data)
            status, answer, payload = self._read_answer()
        except (OSError, EOFError):
            raise self._post_mortem() from None
        finally:
            watch.cancel()
        if status == ANSWERED:
            return answer, payload
        if status == REFUSED:
            raise ImageError(answer)
        self.end()
        if status == NO_MEMORY:
            fault = f"needs more than {self._limits.memory_bytes >> 20} MiB to be {{}}"
            raise ProcessLost("memory", fault, "make the image smaller")
        raise ProcessLost(f"exception {answer}", "cannot be {}")

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def _read_answer(self) -> tuple[int, Any, memoryview]:
        try:
            status, answer, size = json.loads(self._connection.recv_bytes(_MAX_ANSWER))
            if status not in (ANSWERED, REFUSED, NO_MEMORY, UNFORESEEN) or size > _MAX_BYTES:
                raise ValueError
            payload = np.empty(size, dtype=np.uint8).data  # not filled with zeros first
            if self._connection.recv_bytes_into(payload) != size:
                raise ValueError
        except (ValueError, TypeError, BufferTooShort):
            self.end()
            raise ProcessLost("answer", "cannot be {}") from None
        return status, answer, payload

    def _post_mortem(self) -> ProcessLost:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        self.end()
        if self._late:
            limit = f"{self._limits.wall_seconds:g} s"
            return ProcessLost("wall clock", f"was not {{}} within {limit}", _MORE_TIME)
        if code == -signal.SIGXCPU:
            limit = f"{self._limits.cpu_seconds:g} s of computing"
            return ProcessLost("computing time", f"was not {{}} within {limit}", _MORE_TIME)
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return ProcessLost(name, f"made its reader process end ({name})")

    def end(self) -> None:
        """End the process, whatever it is doing, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def kill(self) -> None:
        """End the process even if another thread is waiting for its answer."""
        self._process.kill()


class SandboxPool:
    """Processes that do one kind of work, each started when it is first needed.

    Args:
        workers: How many; None for one a core; 0 works in this process, without limits.
        wall_seconds: Time on the clock that a task may take; by default three times ``seconds``,
            which leaves room on a shared machine.
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
        if self.workers < 0 or memory_bytes < MIN_MEMORY or not (seconds > 0 and wall > 0):
            raise ValueError("workers >= 0, at least 256 MiB of memory and some time are needed")
        self.lost: Counter[str] = Counter()  # how many processes were lost, by reason
        self._limits = Limits(memory_bytes, seconds, wall)
        self._free: queue.LifoQueue[SandboxProcess | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._free.put(None)
        self._running: set[SandboxProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPoolExecutor(max(self.workers, 1), thread_name_prefix="reader")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        """Do one task; waits for a free process.

        Raises:
            ImageError: The work refused.
            ProcessLost: Its process died, hung or exceeded its limits.
            WorkError: No process can be started.
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
    ) -> Generator[Result, None, None]:
        """Apply ``do``, which asks this pool, to each task, and yield the results in order."""
        if self.workers == 0:
            yield from map(do, tasks)
            return
        limit = max(1, self.workers * AHEAD if ahead is None else ahead)
        pending: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                pending.append(self._threads.submit(do, task))
                if len(pending) > limit:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _start(self, dead: SandboxProcess | None) -> SandboxProcess:
        if dead is not None:
            self._forget(dead)
        process = SandboxProcess(self._name, self._limits)
        with self._lock:
            if not self._closed:
                self._running.add(process)
                return process
        process.end()
        raise ValueError("the reader pool is closed")

    def _forget(self, process: SandboxProcess) -> None:
        process.end()
        with self._lock:
            self._running.discard(process)


def answers(
    work: Work, tasks: Iterable[Any], workers: int, *, seconds: float = 120.0
) -> Iterator[tuple[Any, tuple[Any, bytes | memoryview] | ProcessLost]]:
    """Yield JSON tasks, in order, with their answers, or with why their process was lost.

    All processes end with this one, even if it is killed.
    """
    with SandboxPool(work, workers, seconds=seconds, wall_seconds=seconds) as pool:

        def attempt(task: Any) -> tuple[Any, tuple[Any, bytes | memoryview] | ProcessLost]:
            try:
                return task, pool.ask(task)
            except ProcessLost as loss:
                return task, loss

        yield from pool.each(attempt, tasks)
