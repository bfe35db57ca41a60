"""Decoded images, kept in a folder that training, indexing and evaluation share."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.files import open_regular
from cxrtext.images.cache_store import Pixels, SquareStore, Stamp, disk_errors, stamp_of
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.images.source import shown


@dataclass(frozen=True, slots=True)
class Squares:
    pixels: Pixels  # [slots, R, R], 8-bit gray, read-only; other images may lie between
    # [n], the place in ``pixels`` of each requested image; -1 if it cannot be read.
    slots: np.ndarray[tuple[int], np.dtype[np.int64]]


class DecodedCache:
    """A folder of decoded images, found by their content: a renamed file is recognized.

    A square depends on the file's bytes, on its own size, how it is made and the reader's version,
    not on the file's name, the crop or the normalization.  Several sizes share a folder; squares of
    another filter or fit than the default have their own cache in a subfolder, named by
    `Preprocessing.kind`.  Any number of processes may read it and add to it.  The folder holds
    patients' pixels and only its owner may read it; it can be deleted whenever no process uses it.

    Args:
        folder: The folder; made when missing.
        say: Takes a line when images cached by another version are decoded again.
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
        """Give the squares of image files; decode and keep those that are missing.

        Args:
            processes: Processes that decode; None for one a core, 0 to decode in this one.

        Yields:
            For each path, in order, its square [1, R, R] uint8, or why it has none.
        """
        pool = ReaderPool(processes)
        with disk_errors(self.folder), self._open(preprocessing) as store:
            for found in _pass(store, pool, paths, preprocessing, ahead):
                yield found if isinstance(found, ImageError) else store.find(found)

    def fill(
        self,
        paths: Sequence[Path],
        preprocessing: Preprocessing,
        *,
        reject: Callable[[int, str], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Squares:
        """Decode missing images, and map the squares into memory; raises as :meth:`read`.

        Args:
            reject: Takes the place in ``paths`` of each image that cannot be read, and the reason,
                as it is met; an exception from it ends the work.
            progress: Called with (done, total).
        """
        digests: list[bytes | ImageError] = []
        pool = ReaderPool()
        with disk_errors(self.folder), self._open(preprocessing) as store:
            with closing(_pass(store, pool, paths, preprocessing)) as kept:
                for row, found in enumerate(kept):
                    digests.append(found)
                    if isinstance(found, ImageError) and reject:
                        reject(row, str(found))
                    if progress:
                        progress(row + 1, len(paths))
            store.flush()
            slots = [store.slot(digest) if isinstance(digest, bytes) else -1 for digest in digests]
            return Squares(store.map(), np.array(slots, dtype=np.int64))

    def _open(self, preprocessing: Preprocessing) -> SquareStore:
        return SquareStore(self.folder / preprocessing.kind, preprocessing.resize, self._say)


def digest_of(path: Path) -> bytes | None:
    """The SHA-256 of a file; None if it cannot be read."""
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
) -> Generator[bytes | ImageError, None, None]:
    """Cache the square of each file, in order; yield its digest, or why there is none."""

    def look(path: Path) -> tuple[Path, Stamp | None, bytes | ImageError, ReadImage | None]:
        stamp = stamp_of(path)
        digest = None if stamp is None else store.digest_of(path, stamp)
        if digest is not None and store.holds(digest):
            return path, None, digest, None
        digest = None if stamp is None else digest_of(path)
        if digest is not None and store.holds(digest):
            return path, stamp, digest, None
        try:
            image = pool.prepare(path, preprocessing)
        except ImageError as error:
            return path, None, error, None
        # A hard link or a new owner changes only the times.
        if digest is not None and (stamp_of(path) == stamp or digest_of(path) == digest):
            return path, stamp, digest, image
        fault = "changed while it was read; run again when it is complete"
        return path, None, ImageError(f"{shown(path)}: {fault}"), None

    with pool, closing(pool.each(look, paths, ahead)) as looked:
        for path, stamp, found, image in looked:
            if isinstance(found, bytes):
                if image is not None:
                    store.add(found, image)
                if stamp is not None:
                    store.note(path, stamp, found)
            yield found
