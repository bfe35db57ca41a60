"""Vector files: rows of a fixed shape, appended and memory-mapped; and which ones an index has."""

import mmap
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.models.regions import SCALE_BYTES

CHECK_BYTES = 32 * 2**20

SENTENCES = "sentences"
OF_IMAGES = ("regions", "sketch", "profiles", "means")  # vector files with one row per image

SCATTERED = ("regions", "sketch")
"""Files with large rows, of which a search reads only some."""


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Rows of equal shape, one after another, without a header.

    The catalogue says how many rows count.  A process killed between writing vectors and noting
    them may have left more, which the next one overwrites.
    """

    path: Path
    shape: tuple[int, ...]  # shape of one row
    dtype: str  # type of the numbers

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    def append(self, start: int, values: NDArray[Any], checksum: int) -> int:
        """Write rows [n, *shape] after the first ``start``, and wait until they are on disk.

        Gives the checksum of all rows, from the checksum of the rows before.
        """
        if values.shape[1:] != self.shape:
            raise ValueError(f"rows must be {self.shape}, got {values.shape[1:]}")
        data = np.ascontiguousarray(values, dtype=self.dtype).tobytes()
        self.path.touch()
        self._check_size(start)
        with self.path.open("r+b") as handle:
            handle.truncate(start * self.row_bytes)
            handle.seek(0, os.SEEK_END)
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        return zlib.crc32(data, checksum)

    def open(self, rows: int, *, scattered: bool = False) -> NDArray[Any]:
        """Map the first ``rows`` rows read-only, [rows, *shape] (CheckpointError: there are fewer).

        ``scattered`` keeps the system from reading megabytes around each access; call
        :func:`fetch` before reading much.
        """
        if rows == 0:
            return np.empty((0, *self.shape), self.dtype)
        self._check_size(rows)
        mapped = np.memmap(self.path, dtype=self.dtype, mode="r", shape=(rows, *self.shape))
        if scattered:
            _map_of(mapped).madvise(mmap.MADV_RANDOM)
        return mapped

    def checksum(self, rows: int) -> int:
        """Checksum of the first rows, the same as from :meth:`append`."""
        value, left = 0, rows * self.row_bytes
        with self.path.open("rb") as handle:
            while left and (part := handle.read(min(left, CHECK_BYTES))):
                value = zlib.crc32(part, value)
                left -= len(part)
        return value

    def _check_size(self, rows: int) -> None:
        size = self.path.stat().st_size
        if size < rows * self.row_bytes:
            raise CheckpointError(
                f"{self.path}: {size} bytes, expected at least {rows * self.row_bytes} for {rows} "
                "vectors; the index is damaged: restore it from a copy, or index into a new folder"
            )


def fetch(rows: NDArray[Any], places: NDArray[np.int64]) -> None:
    """Start reading rows of a mapped file from the disk, all at once, without waiting.

    Rows that are in memory already cost little; rows that are not of a mapped file, nothing.
    Places are in rising order.
    """
    if not isinstance(rows, np.memmap) or not len(places):
        return
    mapped = _map_of(rows)
    size, end = rows.strides[0], len(mapped)
    first, last = int(places[0]), int(places[-1])
    if last - first == len(places) - 1:
        begin = first * size // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, begin, min((last + 1) * size, end) - begin)
        return
    pages = places * size // mmap.PAGESIZE
    behind = -(-(places + 1) * size // mmap.PAGESIZE)
    # Rows on the same or neighboring pages are read together.
    cut = np.flatnonzero(pages[1:] > behind[:-1])
    firsts = np.concatenate([pages[:1], pages[1:][cut]]) * mmap.PAGESIZE
    lasts = np.concatenate([behind[:-1][cut], behind[-1:]]) * mmap.PAGESIZE
    lengths = np.minimum(lasts, end) - firsts
    advise, soon = mapped.madvise, mmap.MADV_WILLNEED
    for begin, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        advise(soon, begin, length)


def rows_of(rows: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Copies of rows of a mapped file, in rising order, fetched together."""
    fetch(rows, places)
    return np.asarray(rows[places])


def _map_of(rows: np.memmap[Any, Any]) -> mmap.mmap:
    mapped: mmap.mmap = rows._mmap  # type: ignore[attr-defined]
    return mapped


def vector_files(folder: Path, meta: Mapping[str, str]) -> dict[str, VectorFile]:
    """The vector files of the generation that the catalogue's ``meta`` names.

    ``regions`` is for scores, ``sketch`` for bounds (see :mod:`~cxrtext.index.features.bounds`),
    ``profiles`` has the scores at the inducing points, which give candidates (see
    :mod:`~cxrtext.index.features.language`), ``means`` the mean region, ``sentences`` the vectors
    of the sentences.
    """
    N, D, m, n = (int(meta[name]) for name in ("regions", "dimension", "sketch", "landmarks"))
    bits = ((N, D + SCALE_BYTES), "|i1") if meta["storage"] == "int8" else ((N, D), "<f2")
    shapes = {
        "regions": bits,
        "sketch": ((2, m + 1, N), "<f2"),
        "profiles": ((n,), "<f2"),
        "means": ((D,), "<f4"),
        SENTENCES: ((D,), "<f4"),
    }
    generation = int(meta["generation"])
    return {
        name: VectorFile(folder / f"{name}.{generation:06d}.vectors", *shape)
        for name, shape in shapes.items()
    }


def checksum_key(name: str) -> str:
    """The key of the catalogue's ``meta`` with the checksum of a vector file."""
    return f"checksum.{name}"


def counted_rows(meta: Mapping[str, str]) -> dict[str, int]:
    images = dict.fromkeys(OF_IMAGES, int(meta["places"]))
    return {**images, SENTENCES: int(meta["sentence_places"])}
