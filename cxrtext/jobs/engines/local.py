"""Processes of this machine: each has one task at a time, and is replaced when it is gone."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from cxrtext.errors import CxrTextError
from cxrtext.images.sandbox_worker import end_with
from cxrtext.jobs.engines.engine import Outcome, Task, Work, attempt

START_S = 300.0
"""What a process may take to start, before the time of its task begins."""

READY = "ready"


def _serve(connection: Connection, parent: int, work: Work) -> None:
    """Do task after task until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    connection.send(READY)
    while True:
        connection.send(attempt(work, connection.recv()))


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task
    deadline: float


class LocalEngine:
    """Runs tasks in processes, each started when it is first needed."""

    def __init__(self, work: Work, workers: int | None = None) -> None:
        self.slots = max(1, workers or os.cpu_count() or 1)
        self._work = work
        self._context = multiprocessing.get_context("spawn")
        self._waiting: deque[Task] = deque()
        self._free: list[tuple[BaseProcess, Connection]] = []
        self._busy: list[_Worker] = []

    def submit(self, task: Task) -> None:
        self._waiting.append(task)
        self._give_out()

    def _give_out(self) -> None:
        while self._waiting and len(self._busy) < self.slots:
            task, limit = self._waiting[0], self._waiting[0].limit_s
            if self._free:
                process, connection = self._free.pop()
            else:
                (process, connection), limit = self._start(), limit + START_S
            try:
                connection.send(task)
            except OSError:  # it was killed while it waited: another one has the task
                self._end(process, connection)
                continue
            self._waiting.popleft()
            self._busy.append(_Worker(process, connection, task, time.monotonic() + limit))

    def _start(self) -> tuple[BaseProcess, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, os.getpid(), self._work), daemon=True
        )
        process.start()
        theirs.close()
        return process, ours

    def next(self, wait_s: float) -> Outcome | None:
        self._give_out()
        if not self._busy:
            return None
        now = time.monotonic()
        until = min(now + wait_s, min(worker.deadline for worker in self._busy))
        ready = wait([worker.connection for worker in self._busy], max(0.0, until - now))
        for worker in [*self._busy]:
            outcome = None
            if worker.connection in ready:
                outcome = self._outcome(worker)
            elif time.monotonic() >= worker.deadline:
                self._busy.remove(worker)
                self._end(worker.process, worker.connection)
                outcome = Outcome(worker.task, lost=f"no end within {worker.task.limit_s:g} s")
            if outcome is not None:
                return outcome
        return None

    def _outcome(self, worker: _Worker) -> Outcome | None:
        try:
            answer = worker.connection.recv()
            if answer == READY:
                worker.deadline = time.monotonic() + worker.task.limit_s
                return None
            error, lost = answer
            self._busy.remove(worker)
        except (EOFError, OSError):
            self._busy.remove(worker)
            worker.process.join(5)
            code = worker.process.exitcode
            self._end(worker.process, worker.connection)
            lost = signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"
            return Outcome(worker.task, lost=lost)
        self._free.append((worker.process, worker.connection))
        self._give_out()
        assert error is None or isinstance(error, CxrTextError)  # noqa: S101 - see attempt
        return Outcome(worker.task, error, lost)

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._busy if worker.process.pid is not None]

    def _end(self, process: BaseProcess, connection: Connection) -> None:
        process.kill()
        process.join()
        connection.close()

    def close(self) -> None:
        self._waiting.clear()
        for worker in self._busy:
            worker.process.kill()
        for worker in self._busy:
            self._end(worker.process, worker.connection)
        for process, connection in self._free:
            self._end(process, connection)
        self._busy.clear()
        self._free.clear()
