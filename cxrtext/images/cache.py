"""Decoded images, kept in a folder that training, indexing and evaluation share."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.files import open_regular
from cxrtext.images.cache_store import (
    NAME,
    Catalogue,
    Kept,
    PixelFile,
    Pixels,
    SquareStore,
    Stamp,
    UnusableError,
    disk_errors,
    stamp_of,
)
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.images.source import ImageMemoryError, shown

AHEAD = 4  # images hashed and decoded before they are asked for, for each process
Stored = tuple[ReadImage, int] | ImageError
"""A square and the slot where it is kept, or why there is none."""

Attempt = tuple[ReadImage | ImageError, bool]
"""What decoding came to, and whether it failed for want of memory or time."""


@dataclass(frozen=True, slots=True)
class Squares:
    pixels: Pixels  # [slots, R, R], 8-bit gray, to be read only; other images may lie between
    # [n], the place in ``pixels`` of each image asked for; -1 where it cannot be read.
    slots: np.ndarray[tuple[int], np.dtype[np.int64]]


class DecodedCache:
    """A folder of decoded images, by their content: equal files are decoded once.

    What is kept depends on a file's bytes, the size of the square, how it is made and the version
    of the reader, not on its name, the crop or the normalization.  Several sizes share a folder;
    squares of another filter or fit than the default are a cache of their own in a subfolder,
    named by `Preprocessing.kind`.  One process at a time adds to it; any number read.  The folder
    holds patients' pixels and is made for its owner alone; it can be deleted at any time when no
    process uses it.

    Args:
        folder: The folder; made when missing.
        say: Takes a line when what was kept is lost and has to be decoded again.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.folder = Path(folder)
        self._say = say

    def read(
        self,
        paths: Sequence[Path],
        preprocessing: Preprocessing,
        *,
        processes: int | None = None,
        ahead: int | None = None,
    ) -> Iterator[ReadImage | ImageError]:
        """Give the squares of image files; decode, and keep, what is not there.

        Args:
            processes: Processes that decode; None for one a core, 0 to decode in this one.

        Yields:
            For each path, in order, its square [1, R, R] uint8, or why there is none.
        """
        folder = self.of_kind(preprocessing)
        with _Visit(folder, preprocessing, self._say, processes, ahead) as visit:
            for image in visit.images(paths):
                yield image if isinstance(image, ImageError) else image[0]

    def of_kind(self, preprocessing: Preprocessing) -> Path:
        return self.folder / preprocessing.kind

    def damaged(self) -> list[str]:
        """What is not as it was kept, a line each; it is decoded again when it is wanted."""
        with disk_errors(self.folder), ExitStack() as stack:
            try:
                catalogue = stack.enter_context(Catalogue(self.folder))
            except UnusableError:
                return [f"{self.folder / NAME}: is damaged or of another version"]
            files: dict[int, PixelFile | None] = {}
            wrong = 0
            for store, digest, kept in catalogue.entries():
                if store.id not in files:
                    path = self.folder / store.file
                    files[store.id] = None
                    if path.is_file():
                        files[store.id] = pixels = PixelFile(path, store.size, write=False)
                        stack.callback(pixels.close)
                sound = kept.read(files[store.id], digest) if isinstance(kept, Kept) else kept
                wrong += sound is None
        return [f"{self.folder}: {wrong} kept image(s) are damaged"] if wrong else []

    def fill(
        self,
        paths: Sequence[Path],
        preprocessing: Preprocessing,
        *,
        reject: Callable[[int, str], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Squares:
        """Decode what is not there yet, and map the squares into memory; raises as :meth:`read`.

        Every square is compared with its checksum on the way, which reads it once.

        Args:
            reject: Takes the place in ``paths`` and the reason of each image that cannot be read,
                as it is met; what it raises ends the work.
            progress: Called with (done, total).
        """
        slots = np.full(len(paths), -1, dtype=np.int64)
        with _Visit(self.of_kind(preprocessing), preprocessing, self._say) as visit:
            for row, image in enumerate(visit.images(paths)):
                if isinstance(image, ImageError):
                    if reject:
                        reject(row, str(image))
                else:
                    slots[row] = image[1]
                if progress:
                    progress(row + 1, len(paths))
            count = int(slots.max(initial=-1)) + 1
            with disk_errors(self.folder):
                pixels = visit.store.map(count)
        return Squares(pixels, slots)


def digest_of(path: Path) -> bytes | None:
    try:
        with open_regular(path) as handle:
            return hashlib.file_digest(handle, "sha256").digest()
    except OSError:
        return None


@dataclass(slots=True)
class _File:
    path: Path
    stamp: Stamp | None
    digest: bytes | None  # None where it could not be read, or changed meanwhile
    hashing: Future[bytes | None] | None = None
    found: Stored | None = None
    decoding: Future[Attempt] | None = None

    def changed(self) -> bool:
        """Whether it holds other bytes; a hard link or a new owner changes its times alone."""
        return stamp_of(self.path) != self.stamp and digest_of(self.path) != self.digest


def _later(files: Iterable[_File], count: int) -> Iterator[_File]:
    """Give files some places later, so that what was begun for each goes on meanwhile."""
    waiting: deque[_File] = deque()
    for file in files:
        waiting.append(file)
        if len(waiting) > count:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


class _Visit(AbstractContextManager["_Visit"]):
    """A pass over files: what the cache has is given, the rest is decoded and kept."""

    def __init__(
        self,
        folder: Path,
        preprocessing: Preprocessing,
        say: Callable[[str], None],
        processes: int | None = None,
        ahead: int | None = None,
    ) -> None:
        self._folder = folder
        self._preprocessing = preprocessing
        self._pool = ReaderPool(processes)
        with disk_errors(folder):
            self.store = SquareStore(folder, preprocessing.resize, say)
        self._open = ExitStack()
        self._open.callback(self.store.close)
        workers = max(1, self._pool.workers)
        # Twice as many, so that no reader is idle while files are hashed; but one where this
        # process decodes.
        self._threads = ThreadPoolExecutor(2 * self._pool.workers or 1, thread_name_prefix="cache")
        self._open.callback(self._threads.shutdown, wait=True, cancel_futures=True)
        self._open.push(self._pool)  # closed first, so that no thread waits for a reader
        self._ahead = workers * AHEAD if ahead is None else max(1, ahead)
        self._under_way: set[bytes] = set()

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def images(self, paths: Sequence[Path]) -> Iterator[Stored]:
        """Give for each path, in order, its square and slot, or why there is none."""
        with disk_errors(self._folder):
            hashed = map(self._hashed, _later(map(self._begin, paths), self._ahead))
            yield from map(self._finish, _later(map(self._plan, hashed), self._ahead))
            self.store.catalogue.flush()

    def _begin(self, path: Path) -> _File:
        stamp = stamp_of(path)
        digest = None if stamp is None else self.store.catalogue.digest(path, stamp)
        hashing = None if stamp is None or digest else self._threads.submit(digest_of, path)
        return _File(path, stamp, digest, hashing)

    def _hashed(self, file: _File) -> _File:
        if file.hashing is None or file.stamp is None:
            return file
        file.digest = file.hashing.result()
        if file.digest is None:
            return file
        if file.stamp == stamp_of(file.path):
            if file.stamp.settled:
                self.store.catalogue.note(file.path, file.stamp, file.digest)
        elif file.changed():
            file.digest = None
        return file

    def _plan(self, file: _File) -> _File:
        """Find a file's square, or begin to decode it, unless an equal one is being decoded."""
        if file.digest in self._under_way:
            return file
        file.found = self._find(file)
        if file.found is None:
            self.store.begin_filling()
            file.found = self._find(file)  # the process before may have added it
        if file.found is None:
            if file.digest is not None:
                self._under_way.add(file.digest)
            file.decoding = self._threads.submit(self._decode, file.path)
        return file

    def _find(self, file: _File) -> Stored | None:
        found = self.store.find(file.digest) if file.digest is not None else None
        return ImageError(f"{shown(file.path)}: {found}") if isinstance(found, str) else found

    def _decode(self, path: Path) -> Attempt:
        lost = self._pool.lost.total()
        (image,) = self._pool.map([path], square=self._preprocessing)
        return image, isinstance(image, ImageMemoryError) or self._pool.lost.total() > lost

    def _finish(self, file: _File) -> Stored:
        # Of an equal file that was decoded meanwhile the result is kept unless it may yet change.
        found = file.found or (None if file.decoding else self._find(file))
        if found is not None:
            return found
        image, passing = file.decoding.result() if file.decoding else self._decode(file.path)
        if file.digest is not None:
            self._under_way.discard(file.digest)
        if isinstance(image, ImageError):
            if file.digest is not None and not passing:
                self.store.add(file.digest, str(image).removeprefix(f"{shown(file.path)}: "))
            return image
        if file.digest is None or file.changed():
            return ImageError(
                f"{shown(file.path)}: changed while it was read; run again when it is complete"
            )
        return image, self.store.add(file.digest, image)
