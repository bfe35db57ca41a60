"""Vector files: rows of a fixed shape, appended and memory-mapped."""

import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError

CHECK_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Rows of equal shape, one after another, without a header.

    The catalogue says how many rows count; what lies behind them is the trace of a process that
    was killed between writing vectors and noting them, and is overwritten by the next one.

    Args:
        path: The file.
        shape: Shape of one row.
        dtype: Type of the numbers.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: str

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    def append(self, start: int, values: NDArray[Any]) -> int:
        """Write rows [n, *shape] behind the first ``start`` and wait until they are on disk.

        Returns:
            Their checksum.

        Raises:
            CheckpointError: The file has fewer than ``start`` rows.
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
        return zlib.crc32(data)

    def open(self, rows: int, *, scattered: bool = False) -> NDArray[Any]:
        """Map the first ``rows`` rows, read-only, [rows, *shape].

        Args:
            rows: How many.
            scattered: Whether the system is to read nothing beside what is touched, instead of up
                to megabytes around it; whoever reads much says so by :func:`fetch`.

        Raises:
            CheckpointError: There are fewer.
            FileNotFoundError: There is no such file.
        """
        if rows == 0:
            return np.empty((0, *self.shape), self.dtype)
        self._check_size(rows)
        mapped = np.memmap(self.path, dtype=self.dtype, mode="r", shape=(rows, *self.shape))
        if scattered:
            _map_of(mapped).madvise(mmap.MADV_RANDOM)
        return mapped

    def checksum(self, start: int, rows: int) -> int:
        """Checksum of some rows, as :meth:`append` gave it."""
        value, left = 0, rows * self.row_bytes
        with self.path.open("rb") as handle:
            handle.seek(start * self.row_bytes)
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
    """Have rows of a mapped file read from the disk, all at the same time, without waiting.

    What lies in memory already costs a look.  Does nothing for rows that are no mapped file.

    Args:
        rows: From :meth:`VectorFile.open`.
        places: Rows, in rising order.
    """
    if not isinstance(rows, np.memmap) or not len(places):
        return
    size = rows.strides[0]
    begin = places * size // mmap.PAGESIZE
    end = -(-(places + 1) * size // mmap.PAGESIZE)
    # Where a row begins on the page on which the one before it ends, or the next, they are one.
    cut = np.flatnonzero(begin[1:] > end[:-1])
    firsts = np.concatenate([begin[:1], begin[1:][cut]]) * mmap.PAGESIZE
    lasts = np.concatenate([end[:-1][cut], end[-1:]]) * mmap.PAGESIZE
    mapped = _map_of(rows)
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        mapped.madvise(mmap.MADV_WILLNEED, first, min(last, len(mapped)) - first)


def rows_of(rows: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Copies of some rows of a mapped file, in rising order, fetched together."""
    fetch(rows, places)
    return np.asarray(rows[places])


def _map_of(rows: np.memmap[Any, Any]) -> mmap.mmap:
    mapped: mmap.mmap = rows._mmap  # type: ignore[attr-defined]
    return mapped
