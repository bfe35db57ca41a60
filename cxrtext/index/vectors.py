"""Vector files: rows of a fixed shape, appended and memory-mapped."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Rows of equal shape, one after another, without a header.

    The catalogue says how many rows count; what lies behind them is the trace of a process that
    was killed between writing vectors and noting them, and is cut off before the next write.

    Args:
        path: The file.
        shape: Shape of one row.
        dtype: Type of the numbers.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: str = "<f2"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    def truncate(self, rows: int) -> None:
        """Keep the first ``rows`` rows.

        Raises:
            CheckpointError: There are fewer.
        """
        self.path.touch()
        if self.path.stat().st_size < rows * self.row_bytes:
            raise CheckpointError(
                f"{self.path}: holds fewer vectors than the catalogue names; the index is "
                "damaged: build it anew"
            )
        os.truncate(self.path, rows * self.row_bytes)

    def append(self, values: NDArray[Any]) -> None:
        """Append rows [n, *shape] and wait until they are on disk."""
        if values.shape[1:] != self.shape:
            raise ValueError(f"rows must be {self.shape}, got {values.shape[1:]}")
        with self.path.open("ab") as handle:
            handle.write(np.ascontiguousarray(values, dtype=self.dtype).tobytes())
            handle.flush()
            os.fsync(handle.fileno())

    def open(self, rows: int) -> NDArray[Any]:
        """Map the first ``rows`` rows, read-only, [rows, *shape].

        Raises:
            CheckpointError: There are not exactly so many.
        """
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size != rows * self.row_bytes:
            raise CheckpointError(
                f"{self.path}: {size} bytes, expected {rows * self.row_bytes} for {rows} vectors; "
                "finish or mend the index by running 'cxrtext index' again"
            )
        if rows == 0:
            return np.empty((0, *self.shape), self.dtype)
        return np.memmap(self.path, dtype=self.dtype, mode="r", shape=(rows, *self.shape))
