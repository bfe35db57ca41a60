"""Decoded images, kept in a folder that training, indexing and evaluation share."""

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.files import open_regular
from cxrtext.images.cache_store import Pixels, SquareStore, Stamp, disk_errors, stamp_of
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.images.source import shown

AHEAD = 4  # images hashed and decoded before they are asked for, for each process

_Decoded = tuple[Stamp | None, bytes | None, ReadImage | ImageError | None]
"""A file's times, its SHA-256, and its square, None of one that is kept already."""


@dataclass(frozen=True, slots=True)
class Squares:
    pixels: Pixels  # [slots, R, R], 8-bit gray, to be read only; other images may lie between
    # [n], the place in ``pixels`` of each image asked for; -1 where it cannot be read.
    slots: np.ndarray[tuple[int], np.dtype[np.int64]]


class DecodedCache:
    """A folder of decoded images, by their content: a file is known again under another name.

    What is kept depends on a file's bytes, the size of the square, how it is made and the version
    of the reader, not on its name, the crop or the normalization.  Several sizes share a folder;
    squares of another filter or fit than the default are a cache of their own in a subfolder,
    named by `Preprocessing.kind`.  Any number of processes read it and add to it.  The folder
    holds patients' pixels and is made for its owner alone; it can be deleted at any time when no
    process uses it.

    Args:
        folder: The folder; made when missing.
        say: Takes a line when what another version kept is decoded again.
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
        pool = ReaderPool(processes)
        with disk_errors(self.folder), self._open(preprocessing) as store:
            for _, image in _pass(store, pool, paths, preprocessing, ahead):
                if image is not None:
                    yield image

    def fill(
        self,
        paths: Sequence[Path],
        preprocessing: Preprocessing,
        *,
        reject: Callable[[int, str], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Squares:
        """Decode what is not there yet, and map the squares into memory; raises as :meth:`read`.

        Args:
            reject: Takes the place in ``paths`` and the reason of each image that cannot be read,
                as it is met; what it raises ends the work.
            progress: Called with (done, total).
        """
        digests: list[bytes | None] = []
        pool = ReaderPool()
        with disk_errors(self.folder), self._open(preprocessing) as store:
            with closing(_pass(store, pool, paths, preprocessing, pixels=False)) as found:
                for row, (digest, image) in enumerate(found):
                    digests.append(digest)
                    if isinstance(image, ImageError) and reject:
                        reject(row, str(image))
                    if progress:
                        progress(row + 1, len(paths))
            store.flush()
            slots = [-1 if digest is None else store.slot(digest) for digest in digests]
            return Squares(store.map(), np.array(slots, dtype=np.int64))

    def _open(self, preprocessing: Preprocessing) -> SquareStore:
        return SquareStore(self.folder / preprocessing.kind, preprocessing.resize, self._say)


def digest_of(path: Path) -> bytes | None:
    try:
        with open_regular(path) as handle:
            return hashlib.file_digest(handle, "sha256").digest()
    except OSError:
        return None


def _pass(
    store: SquareStore,
    pool: ReaderPool,
    paths: Sequence[Path],
    preprocessing: Preprocessing,
    ahead: int | None = None,
    *,
    pixels: bool = True,
) -> Generator[tuple[bytes | None, ReadImage | ImageError | None], None, None]:
    """Give the SHA-256 and the square of each file, in order; decode and keep what is lacking.

    Without ``pixels`` no square is read that is kept already.
    """
    ahead = max(1, pool.workers) * AHEAD if ahead is None else max(1, ahead)
    waiting: deque[tuple[Path, Future[_Decoded] | bytes]] = deque()

    def finish(
        path: Path, begun: Future[_Decoded] | bytes
    ) -> tuple[bytes | None, ReadImage | ImageError | None]:
        if isinstance(begun, bytes):
            return begun, store.find(begun) if pixels else None
        stamp, digest, image = begun.result()
        if isinstance(image, ImageError) or stamp is None or digest is None:
            return None, image
        if stamp.settled:
            store.note(path, stamp, digest)
        if image is not None:
            store.add(digest, image)
        return digest, image or store.find(digest)

    with ExitStack() as stack:
        # Twice as many, so that no reader is idle while files are hashed.
        threads = ThreadPoolExecutor(2 * pool.workers or 1, thread_name_prefix="cache")
        stack.callback(threads.shutdown, cancel_futures=True)
        stack.enter_context(pool)  # closed first, so that no thread waits for a reader
        for path in paths:
            stamp = stamp_of(path)
            digest = None if stamp is None else store.digest_of(path, stamp)
            if digest is not None and store.holds(digest):
                waiting.append((path, digest))
            else:
                waiting.append((path, threads.submit(_decoded, store, pool, path, preprocessing)))
            if len(waiting) > ahead:
                yield finish(*waiting.popleft())
        while waiting:
            yield finish(*waiting.popleft())


def _decoded(
    store: SquareStore, pool: ReaderPool, path: Path, preprocessing: Preprocessing
) -> _Decoded:
    """Hash a file, and decode it unless an equal one is kept."""
    stamp = stamp_of(path)
    digest = None if stamp is None else digest_of(path)
    if digest is not None and store.holds(digest):
        return stamp, digest, None
    (image,) = pool.map([path], square=preprocessing)
    # A hard link or a new owner changes its times alone.
    same = digest is not None and (stamp_of(path) == stamp or digest_of(path) == digest)
    if not (same or isinstance(image, ImageError)):
        image = ImageError(
            f"{shown(path)}: changed while it was read; run again when it is complete"
        )
    return stamp, digest, image
