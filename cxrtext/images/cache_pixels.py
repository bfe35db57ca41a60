"""Squares of pixels one after another in a file of their own."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def checksum(digest: bytes, height: int, width: int, pixels: Pixels) -> int:
    """Give a number that changes when a square, or what is noted of it, is not what was kept."""
    told = digest + struct.pack("<II", height, width)
    return zlib.crc32(np.ascontiguousarray(pixels).data, zlib.crc32(told))


class PixelFile:
    """An open file of squares, each [size, size] uint8; a slot is a place in it, from 0.

    Args:
        path: The file.
        size: Side of a square, in pixels.
        write: Whether to write; the file is then made when missing, for its owner alone.
    """

    def __init__(self, path: Path, size: int, *, write: bool) -> None:
        self._size = size
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        self._handle = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def slots(self) -> int:
        """How many whole squares the file can hold now."""
        return os.fstat(self._handle).st_size // self._size**2

    def read(self, slot: int) -> Pixels | None:
        """Read a square, [1, size, size]; None where the file is too short.

        Read and not mapped: a mapped file that another process cuts short ends this one.
        """
        pixels = np.empty((1, self._size, self._size), dtype=np.uint8)
        view = pixels.data.cast("B")
        place = slot * len(view)
        while view:
            count = os.preadv(self._handle, [view], place)
            if count == 0:
                return None
            view, place = view[count:], place + count
        return pixels

    def write(self, slot: int, pixels: Pixels) -> None:
        """Write a square, [1, size, size].

        Raises:
            OSError: The disk is full, or does not answer.
        """
        view = np.ascontiguousarray(pixels, dtype=np.uint8).data.cast("B")
        place = slot * self._size**2
        while view:
            count = os.pwrite(self._handle, view, place)
            view, place = view[count:], place + count


def map_squares(path: Path, slots: int, size: int) -> Pixels:
    """Map the first ``slots`` squares of a file into memory, [slots, size, size], to be read."""
    if slots == 0:
        return np.empty((0, size, size), dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(slots, size, size))
