"""Reading images in processes of their own, which a hostile file may end without harm.

The results equal those of `cxrtext.images.read_image`, bit for bit.
"""

import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Floats
from cxrtext.images.isolated_prepare import WHOLE, Preparation, ReadImage, prepare_image
from cxrtext.images.isolated_process import Limits, ReaderLost, ReaderProcess
from cxrtext.images.read import Window, read_image, read_image_bytes, shown

MEMORY_BYTES = 4 * 2**30
CPU_SECONDS = 30.0
SMALLEST_MEMORY = 2**28
FILES_A_PROCESS = 1000
"""A reader is replaced after so many files, so that whatever leaks in a decoder is given back."""

AHEAD = 4
"""Images that `ReaderPool.map` reads before they are asked for, for each worker."""


class ReaderPool:
    """Reader processes, each started when it is first needed.

    Args:
        workers: How many; None for one a core; 0 reads in this process, without limits.
        memory_bytes: Address space of one process.
        seconds: Computing time that a file may take.
        wall_seconds: Time on the clock that a file may take; by default three times ``seconds``,
            which leaves room on a machine that is shared.

    Raises:
        ValueError: When a number is out of range.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        seconds: float = CPU_SECONDS,
        wall_seconds: float | None = None,
    ) -> None:
        self.workers = (os.cpu_count() or 1) if workers is None else workers
        wall = 3 * seconds if wall_seconds is None else wall_seconds
        if self.workers < 0 or memory_bytes < SMALLEST_MEMORY or not (seconds > 0 and wall > 0):
            raise ValueError("workers >= 0, at least 256 MiB of memory and some time are needed")
        self.lost: Counter[str] = Counter()
        """How many reader processes were lost, by reason."""
        self._limits = Limits(memory_bytes, seconds, wall)
        self._free: queue.LifoQueue[ReaderProcess | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._free.put(None)
        self._running: set[ReaderProcess] = set()
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
        """End every reader process, also those that are reading."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            for process in self._running:
                process.end()
            self._running.clear()

    def read(self, path: Path, *, frame: int | None = None, window: Window | None = None) -> Floats:
        """Read a stored image; see `cxrtext.images.read_image`.

        Raises:
            ImageError: As there; also when the file made its reader process die, hang or exceed
                its limits.
            WorkError: When no reader process can be started.
        """
        pixels: Floats = self._stored(Path(path), frame, window, WHOLE).pixels
        return pixels

    def read_bytes(
        self, data: bytes, name: str, *, frame: int | None = None, window: Window | None = None
    ) -> Floats:
        """Read an image that was sent; see `cxrtext.images.read_image_bytes` and `read`."""
        if self.workers == 0:
            return read_image_bytes(data, name, frame=frame, window=window)
        request = _request(name, frame, window, WHOLE, stored=False)
        pixels: Floats = self._ask(request, data).pixels
        return pixels

    def map(
        self,
        paths: Iterable[Path],
        *,
        preparation: Preparation = WHOLE,
        frame: int | None = None,
        window: Window | None = None,
        ahead: int | None = None,
    ) -> Iterator[ReadImage | ImageError]:
        """Read stored images, several at a time.

        Args:
            paths: The images; drawn as they are needed.
            preparation: What to make of each.
            frame: As in `read`, for every image.
            window: As in `read`, for every image.
            ahead: Images read before they are asked for.

        Yields:
            For each path, in order, what was read, or why it was not.

        Raises:
            WorkError: When no reader process can be started.
        """
        if self.workers == 0:
            for path in paths:
                yield self._attempt(path, frame, window, preparation)
            return
        most = max(1, self.workers * AHEAD if ahead is None else ahead)
        pending: deque[Future[ReadImage | ImageError]] = deque()
        try:
            for path in paths:
                pending.append(
                    self._threads.submit(self._attempt, path, frame, window, preparation)
                )
                if len(pending) > most:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _attempt(
        self, path: Path, frame: int | None, window: Window | None, preparation: Preparation
    ) -> ReadImage | ImageError:
        try:
            return self._stored(path, frame, window, preparation)
        except ImageError as error:
            return error

    def _stored(
        self, path: Path, frame: int | None, window: Window | None, preparation: Preparation
    ) -> ReadImage:
        if self.workers == 0:
            return prepare_image(read_image(path, frame=frame, window=window), preparation)
        return self._ask(_request(str(path), frame, window, preparation, stored=True), b"")

    def _ask(self, request: dict[str, Any], data: bytes) -> ReadImage:
        process = self._free.get()
        try:
            if process is None or not process.alive:
                process = self._start(process)
            return process.ask(request, data)
        except ReaderLost as loss:
            with self._lock:
                if not self._closed:
                    self.lost[loss.reason] += 1
            raise ImageError(f"{shown(request['name'])}: {loss}") from None
        finally:
            if process is not None and (not process.alive or process.files >= FILES_A_PROCESS):
                self._forget(process)
                process = None
            self._free.put(process)

    def _start(self, dead: ReaderProcess | None) -> ReaderProcess:
        if dead is not None:
            self._forget(dead)
        process = ReaderProcess(self._limits)
        with self._lock:
            if not self._closed:
                self._running.add(process)
                return process
        process.end()
        raise ValueError("the reader pool is closed")

    def _forget(self, process: ReaderProcess) -> None:
        process.end()
        with self._lock:
            self._running.discard(process)


def _request(
    name: str,
    frame: int | None,
    window: Window | None,
    preparation: Preparation,
    *,
    stored: bool,
) -> dict[str, Any]:
    if isinstance(window, tuple) and len(window) != 2:
        raise ValueError("window is an index, a name or (centre, width)")
    return {
        "name": name,
        "stored": stored,
        "frame": frame,
        "window": window,
        "preparation": preparation.to_dict(),
    }
