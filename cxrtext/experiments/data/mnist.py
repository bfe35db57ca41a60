"""MNIST as its page has it: idx files, plain or .gz; and ColorMNIST."""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import Pixels, SmallImages, assemble, read_bytes

PARTS = {"train": "train", "test": "t10k"}
UNSIGNED_BYTES = 0x08
DIGIT = 128
"""Gray value from which on a pixel of MNIST belongs to the stroke."""
SIDE = 32
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def _parsed(source: Path | str, data: bytes) -> Bytes:
    """The array in the decompressed bytes of an idx file.

    Source: LeCun, Cortes and Burges, the MNIST page.
    """
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTES:
        raise DataError(f"{source}: no idx file of 8-bit numbers; give a file of MNIST")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    if not 1 <= dimensions <= 4 or len(data) < start:
        raise DataError(f"{source}: the idx header is cut short; get the file again")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if math.prod(shape) != len(data) - start:
        raise DataError(
            f"{source}: {len(data) - start} bytes, not the {math.prod(shape)} of its header; get "
            "the file again"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _find(folder: Path, part: str, what: str, dimensions: int) -> Path | None:
    stem = PARTS[part]
    for joint in ("-", "."):
        for ending in ("", ".gz"):
            path = folder / f"{stem}-{what}{joint}idx{dimensions}-ubyte{ending}"
            if path.is_file():
                return path
    return None


def is_idx_folder(folder: Path) -> bool:
    """Whether a folder holds idx files of MNIST."""
    return any(_find(folder, part, "images", 3) is not None for part in PARTS)


def _read(folder: Path, part: str, what: str, dimensions: int) -> Bytes:
    path = _find(folder, part, what, dimensions)
    if path is None:
        name = f"{PARTS[part]}-{what}-idx{dimensions}-ubyte"
        raise DataError(f"{folder}: holds no {name} (or {name}.gz); give all four files of MNIST")
    found = _parsed(path, read_bytes(path))
    if found.ndim != dimensions:
        raise DataError(f"{path}: has {found.ndim} dimensions, not {dimensions}")
    return found


def read_idx_folder(folder: Path) -> SmallImages:
    """Read a folder with the four files of MNIST."""
    train, test = (
        (_read(folder, part, "images", 3), _read(folder, part, "labels", 1)) for part in PARTS
    )
    return assemble(folder, "mnist", train, test)


def color_mnist(
    digits: Pixels, generator: np.random.Generator
) -> tuple[Pixels, NDArray[np.float32]]:
    """MNIST with a background of random color: 32 × 32, the stroke black.

    White strokes [n, 1, 28, 28] give images [n, 3, 32, 32] and the red, green and blue of each
    background, [n, 3], 0 to 255, uniform.

    Source: Tsai et al. 2022 (CCL-K), section 4.2 and appendix F.4; the margin of two pixels and
    the threshold of half the range are ours.
    """
    colors = generator.integers(0, 256, (len(digits), 3)).astype(np.uint8)
    margin = (SIDE - digits.shape[-1]) // 2
    padding = ((0, 0), (0, 0), (margin, margin), (margin, margin))
    stroke = np.pad(digits, padding) >= DIGIT
    images = np.where(stroke, np.uint8(0), colors[:, :, None, None])
    return images, colors.astype(np.float32)
