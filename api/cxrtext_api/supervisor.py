"""Several serving processes on one socket, each with a model of its own; the dead are replaced."""

import functools
import gc
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from prometheus_client import multiprocess

from cxrtext.errors import CxrTextError, WorkError
from cxrtext_api.metrics import SHARED_FOLDER_VARIABLE
from cxrtext_api.resources import LoadService
from cxrtext_api.settings import Settings

READY = "ready"
MAX_DEATHS = 5
"""Deaths within a minute, all processes together, after which the server gives up."""

LOOK_SECONDS = 0.2


@dataclass(slots=True)
class _Child:
    process: BaseProcess
    line: Connection
    ready: bool = False


def supervise(
    settings: Settings,
    listener: socket.socket,
    announce: Callable[[], object],
    load: LoadService,
) -> None:
    """Keep the processes that serve running until SIGINT or SIGTERM.

    Args:
        settings: What to serve, and in how many processes.
        listener: The socket; all of them accept from it.
        announce: Called when every process answers with its model loaded.
        load: Loads the service from the settings; a function of a module.

    Raises:
        CxrTextError: The model or the index cannot be loaded.
        WorkError: The processes keep dying.
    """
    with tempfile.TemporaryDirectory(prefix="cxrtext-metrics-") as folder, _signals() as told:
        before = os.environ.get(SHARED_FOLDER_VARIABLE)
        os.environ[SHARED_FOLDER_VARIABLE] = folder
        # Each process has its part of the cores, unless the caller shares them out otherwise.
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // settings.workers)))
        start = functools.partial(_start, settings, listener, load)
        children = [start() for _ in range(settings.workers)]
        try:
            _watch(children, start, announce, told)
        finally:
            _end(children, settings.drain_seconds + settings.shutdown_seconds + 10)
            os.environ.pop(SHARED_FOLDER_VARIABLE)
            if before is not None:
                os.environ[SHARED_FOLDER_VARIABLE] = before


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that came since; where this is no main thread there are none."""
    told: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.signal(number, lambda given, _: told.append(given)) for number in numbers
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(settings: Settings, listener: socket.socket, load: LoadService) -> _Child:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve_one, args=(settings, listener, load, theirs), name="cxrtext-worker"
    )
    process.start()
    theirs.close()
    return _Child(process, ours)


def _watch(
    children: list[_Child],
    start: Callable[[], _Child],
    announce: Callable[[], object],
    told: list[int],
) -> None:
    deaths: list[float] = []
    announced = False
    while True:
        while told:
            number = told.pop(0)
            if number != signal.SIGHUP:
                return
            _tell(children, number)
        lines: list[Any] = [child.line for child in children]
        for line in wait(lines, LOOK_SECONDS):
            child = next(child for child in children if child.line is line)
            if _hear(child):
                continue
            children.remove(child)
            _bury(child)
            now = time.monotonic()
            deaths = [*(then for then in deaths if now - then < 60), now]
            if len(deaths) > MAX_DEATHS:
                raise WorkError(f"serving processes died {len(deaths)} times within a minute")
            children.append(start())
        if not announced and all(child.ready for child in children):
            announced = True
            announce()


def _hear(child: _Child) -> bool:
    """Take what a process says; False where it is dead.

    Raises:
        CxrTextError: It cannot load what it is to serve, and nor could another.
    """
    try:
        said = child.line.recv()
    except (EOFError, OSError):
        return False
    if isinstance(said, CxrTextError):
        raise said
    child.ready = said == READY
    return True


def _bury(child: _Child) -> None:
    child.line.close()
    child.process.join(5)
    if child.process.pid is not None:
        multiprocess.mark_process_dead(child.process.pid)  # type: ignore[no-untyped-call]


def _tell(children: list[_Child], number: int) -> None:
    for child in children:
        if child.process.pid is not None and child.process.is_alive():
            os.kill(child.process.pid, number)


def _end(children: list[_Child], seconds: float) -> None:
    """Let the processes finish what they accepted, for so long."""
    _tell(children, signal.SIGTERM)
    end = time.monotonic() + seconds
    for child in children:
        child.process.join(max(0.1, end - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
        child.line.close()


def _serve_one(
    settings: Settings, listener: socket.socket, load: LoadService, line: Connection
) -> None:
    """What each process does."""
    from cxrtext_api.logs import configure_logging
    from cxrtext_api.serve import serve_on

    configure_logging(settings.log_format)
    threading.Thread(target=_follow_parent, args=(line,), daemon=True).start()
    try:
        serve_on(settings, listener, functools.partial(line.send, READY), load)
    except CxrTextError as error:
        line.send(error)
    gc.freeze()  # the process ends: to look for garbage among a model's objects takes seconds


def _follow_parent(line: Connection) -> None:
    """Stop when the parent is gone."""
    try:
        line.recv()
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
