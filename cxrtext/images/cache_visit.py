"""One pass over image files: what a decoded cache has is given, the rest is decoded and kept."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cxrtext.errors import ImageError
from cxrtext.images.cache_files import Stamp, digest_of, stamp_of, told
from cxrtext.images.cache_store import SquareStore
from cxrtext.images.isolated import ReaderPool
from cxrtext.images.isolated_prepare import Preparation, ReadImage
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.read import ImageMemoryError, shown

AHEAD = 4
"""Images hashed and decoded before they are asked for, for each process."""

Found = tuple[ReadImage, int] | ImageError
"""A square and the slot where it is kept, or why there is none."""

Attempt = tuple[ReadImage | ImageError, bool]
"""What decoding came to, and whether it failed for want of memory or time."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file and the digest of its bytes, None where it could not be read."""

    path: Path
    stamp: Stamp | None
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file with what is known of it, or the decoding that is under way."""

    file: _File
    found: Found | None
    attempt: Future[Attempt] | None


class Visit:
    """A pass over files; a context manager.

    Args:
        folder: The cache's folder.
        preprocessing: Gives the size of the square.
        processes: Processes that decode; None for one a core, 0 to decode in this one.
        ahead: Images hashed, and images decoded, before they are asked for.
        say: Takes a line about what was lost.

    Raises:
        DataError: The folder cannot be written.
        WorkError: Another process is making a damaged catalogue afresh.
        ValueError: The number of processes is below 0.
    """

    def __init__(
        self,
        folder: Path,
        preprocessing: Preprocessing,
        processes: int | None,
        ahead: int | None,
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._square = Preparation("square", preprocessing)
        self._pool = ReaderPool(processes)
        self.store = SquareStore(folder, preprocessing.resize, say)
        self._open = ExitStack()
        self._open.callback(self.store.close)
        workers = max(1, self._pool.workers)
        # Twice as many, so that no reader is idle while files are hashed; but one where this
        # process decodes.
        threads = 2 * self._pool.workers or 1
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="cache")
        self._open.callback(self._threads.shutdown, wait=True, cancel_futures=True)
        self._open.push(self._pool)  # closed first, so that no thread waits for a reader
        self._ahead = workers * AHEAD if ahead is None else max(1, ahead)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def images(self, paths: Sequence[Path]) -> Iterator[Found]:
        """Give for each path, in order, its square and slot, or why there is none."""
        planned: deque[_Planned] = deque()
        under_way: set[bytes] = set()
        for file in self._files(paths):
            planned.append(self._plan(file, under_way))
            if len(planned) > self._ahead:
                yield self._finish(planned.popleft(), under_way)
        while planned:
            yield self._finish(planned.popleft(), under_way)
        with told(self._folder):
            self.store.catalogue.flush()

    def _files(self, paths: Sequence[Path]) -> Iterator[_File]:
        """Give the digests of files, in order, hashed only where they changed."""
        hashing: deque[tuple[Path, Stamp | None, Future[bytes | None] | None, bytes | None]]
        hashing = deque()
        for path in paths:
            stamp = stamp_of(path)
            with told(self._folder):
                known = None if stamp is None else self.store.catalogue.digest(path, stamp)
            future = None if stamp is None or known else self._threads.submit(digest_of, path)
            hashing.append((path, stamp, future, known))
            if len(hashing) > self._ahead:
                yield self._hashed(*hashing.popleft())
        while hashing:
            yield self._hashed(*hashing.popleft())

    def _hashed(
        self,
        path: Path,
        stamp: Stamp | None,
        future: Future[bytes | None] | None,
        known: bytes | None,
    ) -> _File:
        if future is None or stamp is None:
            return _File(path, stamp, known)
        digest = future.result()
        if digest is None or stamp_of(path) != stamp:
            return _File(path, stamp, None)
        if stamp.settled:
            with told(self._folder):
                self.store.catalogue.note(path, stamp, digest)
        return _File(path, stamp, digest)

    def _plan(self, file: _File, under_way: set[bytes]) -> _Planned:
        if file.digest in under_way:
            return _Planned(file, None, None)
        found = self._find(file)
        if found is None:
            self.store.begin_filling()
            found = self._find(file)  # the process before may have added it
        if found is not None:
            return _Planned(file, found, None)
        if file.digest is not None:
            under_way.add(file.digest)
        return _Planned(file, None, self._threads.submit(self._decode, file.path))

    def _find(self, file: _File) -> Found | None:
        found = self.store.find(file.digest) if file.digest is not None else None
        return ImageError(f"{shown(file.path)}: {found}") if isinstance(found, str) else found

    def _decode(self, path: Path) -> Attempt:
        lost = self._pool.lost.total()
        (image,) = self._pool.map([path], preparation=self._square)
        return image, isinstance(image, ImageMemoryError) or self._pool.lost.total() > lost

    def _finish(self, planned: _Planned, under_way: set[bytes]) -> Found:
        file = planned.file
        if planned.found is not None:
            return planned.found
        # An equal file was decoded meanwhile; what that came to is kept unless it may yet change.
        attempt = planned.attempt
        if attempt is None:
            found = self._find(file)
            if found is not None:
                return found
        image, passing = attempt.result() if attempt else self._decode(file.path)
        if file.digest is not None:
            under_way.discard(file.digest)
        if isinstance(image, ImageError):
            if file.digest is not None and not passing:
                reason = str(image).removeprefix(f"{shown(file.path)}: ")
                self.store.add(file.digest, reason)
            return image
        if file.digest is None or stamp_of(file.path) != file.stamp:
            return ImageError(
                f"{shown(file.path)}: changed while it was read; run again when it is complete"
            )
        return image, self.store.add(file.digest, image)
