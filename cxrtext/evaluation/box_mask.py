"""Which pixels of a map lie in which boxes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Map = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


def map_and_boxes(heat: ArrayLike, boxes: ArrayLike) -> tuple[Map, NDArray[np.float64]]:
    """Check a map and its boxes, and give them as arrays, [H, W] and [n, 4].

    Raises:
        ValueError: The map is not [H, W] of floats, there is no box, or a box has no area.
    """
    values, rows = np.asarray(heat), np.atleast_2d(np.asarray(boxes, dtype=np.float64))
    if values.ndim != 2 or not values.size or values.dtype.kind != "f":
        raise ValueError(f"a map is [H, W] of floats, not {list(values.shape)} {values.dtype}")
    if rows.ndim != 2 or rows.shape[1] != 4 or not len(rows):
        raise ValueError(f"boxes are [n, 4] with n of at least 1, not {list(rows.shape)}")
    for number, row in enumerate(rows):
        if not np.isfinite(row).all() or (row[2:] <= 0).any():
            raise ValueError(
                f"box {number} is {row.tolist()}; x, y, width and height are numbers, the latter "
                "two above 0: leave it out or mend it"
            )
    return values, rows


def _slices(box: NDArray[np.float64], shape: tuple[int, ...]) -> tuple[slice, slice]:
    """The rows and columns whose centres lie in a box, clipped to the image."""
    x, y, w, h = box.tolist()
    ends = np.ceil(np.array([y, y + h, x, x + w]) - 0.5)
    top, bottom = np.clip(ends[:2], 0, shape[0]).astype(int).tolist()
    left, right = np.clip(ends[2:], 0, shape[1]).astype(int).tolist()
    return slice(top, bottom), slice(left, right)


def box_mask(boxes: ArrayLike, shape: tuple[int, int]) -> Mask:
    """The pixels whose centres lie in any of the boxes.

    Args:
        boxes: [n, 4], COCO boxes in pixels; clipped to the image.
        shape: (H, W) of the image.

    Returns:
        [H, W].

    Raises:
        ValueError: There is no box, a box has no area, or a box covers no pixel of the image.
    """
    _, rows = map_and_boxes(np.zeros((1, 1)), boxes)
    mask: Mask = np.zeros(shape, dtype=np.bool_)
    for number, row in enumerate(rows):
        place = _slices(row, shape)
        if not mask[place].size:
            raise ValueError(
                f"box {number} {row.tolist()} covers no pixel of an image of {shape[1]} x "
                f"{shape[0]}: leave it out or mend it"
            )
        mask[place] = True
    return mask
