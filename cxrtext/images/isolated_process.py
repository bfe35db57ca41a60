"""The parent's side of one isolated process: start it, ask it, and say why it was lost."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cxrtext.errors import ImageError, WorkError
from cxrtext.images.arrays import MAX_PIXELS
from cxrtext.images.isolated_lost import AGAIN, ProcessLost, post_mortem
from cxrtext.images.isolated_worker import (
    ANSWERED,
    ASKED,
    HEAD,
    NO_MEMORY,
    READY,
    REFUSED,
    UNFORESEEN,
)

_START_SECONDS = 60.0
_LONGEST_ANSWER = 2**24
_MOST_BYTES = 4 * MAX_PIXELS
# glibc else returns the memory of each image to the kernel, which takes a tenth of the time.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
}
# The path is the parent's own, so that the worker finds this package where the parent found it.
# Not multiprocessing: its spawn runs the user's main script again, with all that this imports.
_PROGRAM = (
    "import sys, json; descriptor, parent, work, memory, seconds, sys.path[:] = "
    "json.loads(sys.argv[1]); from cxrtext.images.isolated_worker import serve; "
    "serve(descriptor, parent, work, memory, seconds)"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process may take.

    Args:
        memory_bytes: Address space of the process.
        cpu_seconds: Computing time for a task.
        wall_seconds: Time on the clock for a task.
    """

    memory_bytes: int
    cpu_seconds: float
    wall_seconds: float


class IsolatedProcess:
    """A started process.

    Args:
        work: What it does, from `cxrtext.images.isolated_worker.name_of`.
        limits: What it may take.

    Raises:
        WorkError: When it does not start.
    """

    def __init__(self, work: str, limits: Limits) -> None:
        self.tasks = 0
        self._limits = limits
        self._socket, theirs = socket.socketpair()
        with theirs:
            told = (theirs.fileno(), os.getpid(), work, limits.memory_bytes, limits.cpu_seconds)
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    [sys.executable, "-c", _PROGRAM, json.dumps([*told, sys.path])],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **_ENVIRONMENT},
                )
            except OSError as error:
                self._socket.close()
                reason = (error.strerror or type(error).__name__).lower()
                raise WorkError(f"no reading process can be started ({reason})") from None
        try:
            head = self._receive(HEAD.size, time.monotonic() + _START_SECONDS)
        except (OSError, EOFError):
            head = b""
        if head != HEAD.pack(READY, 0, 0):
            self.end()
            raise WorkError(
                f"a reading process did not start within {limits.memory_bytes >> 20} MiB; "
                "give it more memory, or read with fewer workers"
            )

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, request: Any, data: bytes) -> tuple[Any, memoryview]:
        """Have one task done.

        Args:
            request: What JSON can hold, for the work.
            data: Bytes that go with it.

        Returns:
            What the work answered; the bytes may be written to.

        Raises:
            ImageError: When the work refused.
            ProcessLost: When the process died, hung or ran out of memory; it is ended.
        """
        self.tasks += 1
        deadline = time.monotonic() + self._limits.wall_seconds
        told = json.dumps(request).encode()
        try:
            self._send(HEAD.pack(ASKED, len(told), len(data)) + told, deadline)
            self._send(data, deadline)
            status, answer, payload = self._read_answer(deadline)
        except TimeoutError:
            self.end()
            raise ProcessLost(
                "wall clock",
                f"was not {{}} within {self._limits.wall_seconds:g} s",
                f"{AGAIN}, or allow more time",
            ) from None
        except (OSError, EOFError):
            raise self._post_mortem() from None
        if status == ANSWERED:
            return answer, payload
        if status == REFUSED:
            raise ImageError(answer)
        self.end()
        if status == NO_MEMORY:
            limit = self._limits.memory_bytes >> 20
            raise ProcessLost(
                "memory", f"needs more than {limit} MiB to be {{}}", "make the image smaller"
            )
        raise ProcessLost(f"exception {answer}", "cannot be {}")

    def _read_answer(self, deadline: float) -> tuple[int, Any, memoryview]:
        status, told, size = HEAD.unpack(self._receive(HEAD.size, deadline))
        known = status in (ANSWERED, REFUSED, NO_MEMORY, UNFORESEEN)
        if not known or told > _LONGEST_ANSWER or size > _MOST_BYTES:
            raise self._garbled()
        try:
            answer = json.loads(self._receive(told, deadline))
        except ValueError:
            raise self._garbled() from None
        payload = np.empty(size, dtype=np.uint8).data  # not filled with zeros first
        self._receive_into(payload, deadline)
        return status, answer, payload

    def _garbled(self) -> ProcessLost:
        self.end()
        return ProcessLost("answer", "cannot be {}")

    def _post_mortem(self) -> ProcessLost:
        """Say why the process is gone."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        self.end()
        return post_mortem(code, self._limits.cpu_seconds)

    def _send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(data)

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray(size)
        self._receive_into(memoryview(data), deadline)
        return bytes(data)

    def _receive_into(self, view: memoryview, deadline: float) -> None:
        while view:
            self._socket.settimeout(_left(deadline))
            count = self._socket.recv_into(view)
            if count == 0:
                raise EOFError
            view = view[count:]

    def end(self) -> None:
        """End the process, whatever it does, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def kill(self) -> None:
        """End the process while another thread may be waiting for its answer."""
        self._process.kill()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
