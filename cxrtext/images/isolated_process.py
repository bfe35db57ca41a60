"""The parent's side of one reader process: start it, ask it, and say why it was lost."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cxrtext.errors import ImageError, WorkError
from cxrtext.images.arrays import MAX_PIXELS
from cxrtext.images.isolated_prepare import ReadImage
from cxrtext.images.isolated_worker import (
    ANSWER,
    BYTES,
    FLOATS,
    NO_MEMORY,
    READY,
    REFUSED,
    REQUEST,
    UNFORESEEN,
)

_START_SECONDS = 60.0
_LONGEST_MESSAGE = 65536
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
    "import sys, json; descriptor, parent, memory, seconds, sys.path[:] = json.loads(sys.argv[1]); "
    "from cxrtext.images.isolated_worker import serve; serve(descriptor, parent, memory, seconds)"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one reader process may take.

    Args:
        memory_bytes: Address space of the process.
        cpu_seconds: Computing time for a file.
        wall_seconds: Time on the clock for a file.
    """

    memory_bytes: int
    cpu_seconds: float
    wall_seconds: float


class ReaderLost(Exception):  # noqa: N818 - what became of a process
    """A reader process is gone, or has to go.

    Args:
        reason: One or two words, for counting.
        message: What to say of the file that it was reading.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ReaderProcess:
    """A started reader process.

    Args:
        limits: What it may take.

    Raises:
        WorkError: When it does not start.
    """

    def __init__(self, limits: Limits) -> None:
        self.files = 0
        self._limits = limits
        self._socket, theirs = socket.socketpair()
        with theirs:
            told = (theirs.fileno(), os.getpid(), limits.memory_bytes, limits.cpu_seconds)
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
                raise WorkError(f"no image reader can be started ({reason})") from None
        try:
            head = self._receive(ANSWER.size, time.monotonic() + _START_SECONDS)
        except (OSError, EOFError):
            head = b""
        if head != ANSWER.pack(READY, 0, 0, 0, 0, 0):
            self.end()
            raise WorkError(
                f"an image reader did not start within {limits.memory_bytes >> 20} MiB; "
                "give it more memory, or read with 0 workers"
            )

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, request: dict[str, Any], data: bytes) -> ReadImage:
        """Have one file read.

        Args:
            request: As `cxrtext.images.isolated_worker` takes it.
            data: The file, where the request does not name a stored one.

        Raises:
            ImageError: When the file is refused.
            ReaderLost: When the process died, hung or ran out of memory; it is ended.
        """
        self.files += 1
        deadline = time.monotonic() + self._limits.wall_seconds
        told = json.dumps(request).encode()
        try:
            self._send(REQUEST.pack(len(told), len(data)) + told, deadline)
            self._send(data, deadline)
            return self._read_answer(deadline)
        except TimeoutError:
            self.end()
            raise ReaderLost(
                "wall clock",
                f"was not decoded within {self._limits.wall_seconds:g} s; copy or export the "
                "file again, or allow more time",
            ) from None
        except (OSError, EOFError):
            raise self._post_mortem() from None

    def _read_answer(self, deadline: float) -> ReadImage:
        head = self._receive(ANSWER.size, deadline)
        status, size, rows, columns, height, width = ANSWER.unpack(head)
        if status in (FLOATS, BYTES):
            kind = np.dtype(np.float32 if status == FLOATS else np.uint8)
            if rows * columns > MAX_PIXELS or rows * columns * kind.itemsize != size:
                raise self._garbled()
            pixels = np.empty((1, rows, columns), dtype=kind)
            self._receive_into(pixels.data.cast("B"), deadline)
            return ReadImage(pixels, height, width)
        if size > _LONGEST_MESSAGE or status not in (REFUSED, NO_MEMORY, UNFORESEEN):
            raise self._garbled()
        message = self._receive(size, deadline).decode("utf-8", "replace")
        if status == REFUSED:
            raise ImageError(message)
        self.end()
        if status == NO_MEMORY:
            limit = self._limits.memory_bytes >> 20
            raise ReaderLost(
                "memory", f"needs more than {limit} MiB to be decoded; make the image smaller"
            )
        raise ReaderLost(f"exception {message}", "cannot be decoded; copy or export the file again")

    def _garbled(self) -> ReaderLost:
        self.end()
        return ReaderLost("answer", "cannot be decoded; copy or export the file again")

    def _post_mortem(self) -> ReaderLost:
        """Say why the process is gone."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        self.end()
        if code == -signal.SIGXCPU:
            return ReaderLost(
                "computing time",
                f"was not decoded within {self._limits.cpu_seconds:g} s of computing; copy or "
                "export the file again, or allow more time",
            )
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return ReaderLost(
            name, f"made its reader process end ({name}); copy or export the file again"
        )

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
