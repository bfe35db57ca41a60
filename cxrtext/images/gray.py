"""A decoded picture that gives gray values as 32-bit floats or as 8 bits.

Most radiographs have few different values: each pixel is a place in a table.  The result is worked
out once for each entry of the table, then looked up for each pixel.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cxrtext.errors import ImageError
from cxrtext.images.limits import MAX_PIXELS, MAX_SIDE
from cxrtext.images.placement import Placement

Floats = npt.NDArray[np.float32]
Samples = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]

_LOW, _HIGH = 0.005, 0.995
_MARKER = 0.05  # largest share of the pixels that a marker covers
# NumPy widens places before it looks them up; pieces of this size stay within a core's cache.
_PIECE = 2**15


def check_size(height: int, width: int) -> None:
    """Refuse an empty image and one that is too large, before it is decoded."""
    if height < 1 or width < 1:
        raise ImageError(f"is {width} x {height} pixels; send an image that is not empty")
    if max(height, width) > MAX_SIDE:
        raise ImageError(
            f"is {width} x {height} pixels, more than {MAX_SIDE} a side; make the image smaller"
        )
    if height * width > MAX_PIXELS:
        raise ImageError(
            f"is {width} x {height} pixels, more than {MAX_PIXELS // 1_000_000} million; "
            "make the image smaller"
        )


def luma(rgb: Samples) -> Floats:
    """Weigh RGB into gray, [..., 3] -> [...], in the units given (ITU-R BT.601, the Y of YCbCr)."""
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return np.asarray(rgb.astype(np.float32) @ weights, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Gray:
    """A decoded picture, black 0 and white 1."""

    # [H, W].  With a table, places in it; without one, uint8 that stand for x/255, or float32 gray
    # values.
    pixels: Samples
    table: Floats | None = None  # [n] float32 gray values
    placement: Placement | None = None  # how it lies over stored pixels; None if it is the same
    # [height, width] of the picture, if decoding halved both once or more.
    whole: tuple[int, int] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the picture, whatever size it was decoded at."""
        height, width = self.pixels.shape
        return self.whole or (height, width)

    def __post_init__(self) -> None:
        levels = self.pixels if self.table is None else self.table
        if levels.dtype != np.uint8 and not (
            np.isfinite(levels.min()) and np.isfinite(levels.max())
        ):
            raise ImageError("holds values that are not numbers; export the file again")

    def floats(self) -> Floats:
        """The gray values, [1, H, W] in [0, 1]."""
        if self.table is not None:
            return look_up(np.clip(self.table, 0.0, 1.0), self.pixels)[np.newaxis]
        if self.pixels.dtype == np.uint8:
            # One pass is twice as quick as a conversion and then a division.
            return np.divide(self.pixels, np.float32(255), dtype=np.float32)[np.newaxis]
        inside = self.pixels.min() >= 0 and self.pixels.max() <= 1
        clipped = self.pixels if inside else np.clip(self.pixels, 0.0, 1.0)
        return np.ascontiguousarray(clipped, dtype=np.float32)[np.newaxis]

    def bytes(self) -> Bytes:
        """The gray values rounded to 8 bits, [1, H, W]; `eight_bit` of `floats`."""
        if self.table is not None:
            return look_up(eight_bit(self.table), self.pixels)[np.newaxis]
        if self.pixels.dtype == np.uint8:
            return np.ascontiguousarray(self.pixels)[np.newaxis]
        return eight_bit(self.pixels)[np.newaxis]


def eight_bit(values: Floats) -> Bytes:
    """Round gray values in [0, 1] to 8 bits and clip others; a NaN raises a ValueError."""
    scaled = values * np.float32(255)
    if scaled.size and np.isnan(scaled.min()):
        raise ValueError("an image holds no NaN")
    np.clip(np.rint(scaled, out=scaled), 0, 255, out=scaled)
    return scaled.astype(np.uint8)


def look_up(table: npt.NDArray[np.generic], places: Samples) -> Samples:
    """The entries of a table at whole-number places within it, shaped like the places."""
    entries = np.empty(places.shape, dtype=table.dtype)
    flat, out = np.ascontiguousarray(places).reshape(-1), entries.reshape(-1)
    for start in range(0, flat.size, _PIECE):
        piece = slice(start, start + _PIECE)
        # With a mode other than "raise", NumPy writes straight into the result.
        np.take(table, flat[piece], out=out[piece], mode="clip")
    return entries


def stretched(levels: Doubles, counts: npt.NDArray[np.int64]) -> Doubles:
    """Spread the 0.5th to the 99.5th percentile over [0, 1], as for images without a window.

    A mask's rare values are spread by their extremes; a flat image becomes 0.  A rare level that is
    farther above all others than they are apart belongs to a marker and does not count.

    Args:
        levels: [n], what each value stands for.
        counts: [n], how many pixels have it.
    """
    low, high = spread(levels, counts)
    if low == high:
        return np.zeros_like(levels)
    return np.asarray(np.clip((levels - low) / (high - low), 0.0, 1.0), dtype=np.float64)


def spread(levels: Doubles, counts: npt.NDArray[np.int64]) -> tuple[float, float]:
    """The two levels that `stretched` spreads between; a flat image gives the same twice."""
    present = counts > 0
    order = np.argsort(levels[present], kind="stable")
    values, share = levels[present][order], np.cumsum(counts[present][order])
    rare = len(values) > 2 and share[-1] - share[-2] <= _MARKER * share[-1]
    if rare and values[-1] - values[-2] > values[-2] - values[0]:
        values, share = values[:-1], share[:-1]
    low, high = values[np.searchsorted(share, [_LOW * share[-1], _HIGH * share[-1]])]
    if low == high:
        low, high = values[0], values[-1]
    return float(low), float(high)


def count(places: Samples, entries: int) -> npt.NDArray[np.int64]:
    """Count how often each of the first ``entries`` whole numbers occurs."""
    flat = np.ascontiguousarray(places).reshape(-1)
    total = np.zeros(entries, dtype=np.int64)
    step = max(_PIECE, 8 * entries)
    for start in range(0, flat.size, step):
        total += np.bincount(flat[start : start + step], minlength=entries)
    return total
