"""How the picture shown lies over the pixels stored in a file.

Pictures are shown upright, the patient's left at the right, with square pixels.  If a file stores
them differently, answers have coordinates of the picture shown, and a box file those of the stored
rows and columns; a `Placement` maps between the two.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Placement:
    """Stored pixels are transposed, then flipped, then resized to become the picture shown.

    Points are continuous (x, y) and boxes (x, y, width, height), as in `Geometry`.
    """

    stored_height: int
    stored_width: int
    height: int  # of the picture shown
    width: int
    transposed: bool = False
    mirrored: bool = False  # flipped from left to right, after transposing
    inverted: bool = False  # flipped upside down, after transposing

    @property
    def plain(self) -> bool:
        """Whether the picture shown is the stored pixels unchanged."""
        return not (self.transposed or self.mirrored or self.inverted) and not self.stretched

    @property
    def stretched(self) -> bool:
        """Whether pixels were resized to be square."""
        stored = self.stored_height, self.stored_width
        return (stored[::-1] if self.transposed else stored) != (self.height, self.width)

    @property
    def movement(self) -> Literal["", "mirrored", "turned"]:
        """What was undone: "mirrored", "turned", or "" if the picture was stored upright."""
        flips = (self.transposed, self.mirrored, self.inverted)
        return "mirrored" if sum(flips) % 2 else "turned" if any(flips) else ""

    def turned(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn stored pixels, [H, W], upright; their number stays, the sides may swap."""
        if self.transposed:
            pixels = pixels.T
        pixels = pixels[:: -1 if self.inverted else 1, :: -1 if self.mirrored else 1]
        return np.ascontiguousarray(pixels)

    def points_to_shown(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map points of the stored pixels to the picture shown, [..., 2] -> [..., 2]."""
        share = np.asarray(points, dtype=np.float64) / (self.stored_width, self.stored_height)
        share = share[..., ::-1] if self.transposed else share
        return self._flipped(share) * (self.width, self.height)

    def points_to_stored(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map points of the picture shown to the stored pixels, [..., 2] -> [..., 2]."""
        share = self._flipped(np.asarray(points, dtype=np.float64) / (self.width, self.height))
        share = share[..., ::-1] if self.transposed else share
        return np.asarray(share * (self.stored_width, self.stored_height))

    def boxes_to_shown(self, boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map boxes of the stored pixels to the picture shown, [..., 4] -> [..., 4]."""
        first, last = _corners(boxes)
        return _box(self.points_to_shown(first), self.points_to_shown(last))

    def boxes_to_stored(self, boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map boxes of the picture shown to the stored pixels, [..., 4] -> [..., 4]."""
        first, last = _corners(boxes)
        return _box(self.points_to_stored(first), self.points_to_stored(last))

    def _flipped(self, share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        flips = np.array([self.mirrored, self.inverted])
        return np.where(flips, 1.0 - share, share)


def _corners(boxes: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    box = np.asarray(boxes, dtype=np.float64)
    return box[..., :2], box[..., :2] + box[..., 2:]


def _box(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    low = np.minimum(one, other)
    return np.concatenate([low, np.maximum(one, other) - low], axis=-1)
