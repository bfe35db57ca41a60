"""One process that does one kind of work: it takes one request after another from a socket.

It runs with limits on memory, computing time and files, so that a hostile image ends this process
and nothing else.  Requests and answers are JSON and bytes; nothing is ever unpickled.
"""

import json
import math
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from cxrtext.errors import ImageError
from cxrtext.images.source import ImageMemoryError

Work = Callable[[Any, bytes], tuple[Any, bytes | memoryview]]
"""Takes a JSON value and bytes, and answers with the same two."""

READY, ANSWERED, REFUSED, NO_MEMORY, UNFORESEEN = range(5)
"""The first item of an answer; then come a JSON value and the number of bytes that follow."""

_PARENT_SECONDS = 0.5
_OPEN_FILES = 64


def cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def name_of(work: Work) -> str:
    """Name a function so that `serve` finds it."""
    module, name = work.__module__, work.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise ValueError("work is a function at the top of a module other than the main script")
    return f"{module}:{name}"


def serve(descriptor: int, parent: int, work: str, memory_bytes: int, cpu_seconds: float) -> None:
    """Answer requests until the other side closes the socket.

    Args:
        parent: The process that started this one; when it is gone, this one ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    sys.dont_write_bytecode = True  # decoders are imported when a file needs them
    module, _, name = work.partition(":")
    function: Work = getattr(import_module(module), name)
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):  # no core dump, nothing written
        _limit(kind, 0)
    with Connection(descriptor) as connection:
        connection.send_bytes(json.dumps(READY).encode())
        while True:
            try:
                request, data = connection.recv_bytes(), connection.recv_bytes()
            except EOFError:
                return
            # The kernel ends this process after this much computing time.
            seconds = math.ceil(time.process_time() + cpu_seconds)
            _limit(resource.RLIMIT_CPU, seconds, for_good=False)
            status, answer, payload = _answer(function, request, data)
            connection.send_bytes(json.dumps([status, answer, len(payload)]).encode())
            connection.send_bytes(payload)


def end_with(parent: int) -> None:
    """Wait until this process's parent is gone, then end this process; runs in its own thread."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)


def _limit(kind: int, wanted: int, *, for_good: bool = True) -> None:
    """Limit what this process may take, unless it is limited further already."""
    _, hard = resource.getrlimit(kind)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (soft, soft if for_good else hard))


def _answer(function: Work, request: bytes, data: bytes) -> tuple[int, Any, bytes | memoryview]:
    try:
        return ANSWERED, *function(json.loads(request), data)
    except (MemoryError, ImageMemoryError):
        return NO_MEMORY, None, b""
    except ImageError as error:
        return REFUSED, str(error), b""
    except Exception as error:  # noqa: BLE001 - its words may quote the file: name its kind alone
        return UNFORESEEN, type(error).__name__, b""
