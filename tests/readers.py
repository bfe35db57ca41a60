"""Processes that decode images, kept from one test to the next.

To start one and to import the decoders takes a third of a second of a processor, and most tests
that build an index or serve one want one.  A pool that is closed leaves those that are idle to the
next pool that would start the same: same work, limits, program, folder and paths of imports.
"""

import os
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cxrtext.images import sandbox
from cxrtext.images.sandbox import Limits, SandboxPool, SandboxProcess

A_KIND = 2
"""How many of a kind are kept."""
LARGEST = 300 * 2**20
"""Bytes in memory of a process that is kept."""


_close = SandboxPool.close


@contextmanager
def kept_readers() -> Iterator[None]:
    """Keep them for as long as this lasts."""
    kept: dict[Any, list[SandboxProcess]] = {}
    kinds: dict[SandboxProcess, Any] = {}

    def lend(work: str, limits: Limits) -> SandboxProcess:
        kind = (os.getpid(), Path.cwd(), work, limits, sandbox._PROGRAM, *sys.path)
        while others := kept.get(kind):
            if (process := others.pop()).alive:
                return process
            process.end()
        process = SandboxProcess(work, limits)
        kinds[process] = kind
        return process

    def close_and_keep(pool: SandboxPool) -> None:
        idle = []
        with suppress(queue.Empty):
            while True:
                idle.append(pool._free.get_nowait())
        for process in idle:
            pool._free.put(None)  # whoever waits for one
            if process is not None and process.alive and _size(process) < LARGEST:
                others = kept.setdefault(kinds[process], [])
                if len(others) < A_KIND:
                    pool._running.discard(process)
                    others.append(process)
        _close(pool)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "SandboxProcess", lend)
        patch.setattr(SandboxPool, "close", close_and_keep)
        yield
    for others in kept.values():
        for process in others:
            process.end()


@contextmanager
def own_readers() -> Iterator[None]:
    """Let each pool start its own, and end them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "SandboxProcess", SandboxProcess)
        patch.setattr(SandboxPool, "close", _close)
        yield


def _size(process: SandboxProcess) -> int:
    """Bytes of a process in memory."""
    pages = Path(f"/proc/{process._process.pid}/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
