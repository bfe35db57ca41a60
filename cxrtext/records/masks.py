"""Masks of box files: COCO's run lengths and polygons.

A mask [H, W] is kept as runs: lengths of runs of pixels down the columns, one column after the
other; the first run lies outside the mask (length 0 if the first pixel is in the mask).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Runs = tuple[int, ...]

PIXEL_LIMIT = 100_000_000
"""Largest image of a mask, in pixels, because measuring unfolds the mask."""

ADVICE = "a segmentation is a list of polygons, or {size, counts} of run lengths; fix it"


def runs_of_mask(mask: npt.ArrayLike) -> Runs:
    """The runs of a mask [H, W].

    >>> runs_of_mask([[0, 1], [0, 1]])
    (2, 2)
    """
    flat = np.asarray(mask, dtype=np.bool_).T.ravel()
    runs = np.diff(np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1, [flat.size]]))
    return (*([0] if flat.size and flat[0] else []), *(int(run) for run in runs))


def mask_of_runs(runs: Sequence[int], height: int, width: int) -> Mask:
    """Unfold runs to a mask [H, W].

    >>> mask_of_runs((2, 2), 2, 2).tolist()
    [[False, True], [False, True]]
    """
    lengths = np.asarray(runs, dtype=np.int64)
    if lengths.ndim != 1 or (lengths < 0).any() or int(lengths.sum()) != height * width:
        raise ValueError(f"these runs are not those of {height} x {width} pixels")
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(width, height).T


def box_of_mask(mask: Mask) -> tuple[float, float, float, float]:
    """The smallest box (x, y, w, h) around a mask [H, W] with at least one pixel."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    x, y = float(columns[0]), float(rows[0])
    return x, y, float(columns[-1]) + 1 - x, float(rows[-1]) + 1 - y


def mask_of_polygons(polygons: Iterable[Sequence[float]], height: int, width: int) -> Mask:
    """The mask [H, W] of the pixels with their center in any of the polygons.

    A polygon is x1, y1, x2, y2, and so on; if it crosses itself, the even-odd rule fills it.
    """
    mask: Mask = np.zeros((height, width), dtype=np.bool_)
    for polygon in polygons:
        mask |= _filled(np.asarray(polygon, dtype=np.float64).reshape(-1, 2), height, width)
    return mask


def _filled(corners: npt.NDArray[np.float64], height: int, width: int) -> Mask:
    """Fill one polygon [n, 2]: below each crossing of a column's middle, pixels change sides."""
    x0, y0 = corners.T
    x1, y1 = np.roll(corners, -1, axis=0).T
    ends = np.clip(np.ceil(np.stack([np.minimum(x0, x1), np.maximum(x0, x1)]) - 0.5), 0, width)
    first, last = ends.astype(np.int64)  # the columns whose middles an edge crosses
    counts = last - first
    edge = np.repeat(np.arange(len(corners)), counts)
    column = first[edge] + np.arange(len(edge)) - np.repeat(counts.cumsum() - counts, counts)
    share = (column + 0.5 - x0[edge]) / (x1 - x0)[edge]
    crossing = np.clip(np.ceil(y0[edge] + share * (y1 - y0)[edge] - 0.5), 0, height)
    places = column * (height + 1) + crossing.astype(np.int64)
    crossings = np.bincount(places, minlength=width * (height + 1)).reshape(width, height + 1)
    filled: Mask = (crossings.cumsum(axis=1) % 2 == 1)[:, :height].T
    return filled


def read_segmentation(value: Any, height: int, width: int) -> tuple[Runs, int, int] | None:
    """Read COCO's ``segmentation`` for an image of this size (0 x 0 if unknown).

    Polygons are filled; run lengths may be a list, or compressed text as pycocotools writes it.
    A ValueError says what is wrong.

    Returns:
        Runs, height and width; None without a segmentation (None, "" or an empty list).
    """
    if value is None or value in ("", []):
        return None
    if isinstance(value, dict):
        size, counts = value.get("size"), value.get("counts")
        if not isinstance(size, list) or len(size) != 2 or not all(map(_whole, size)):
            raise ValueError(ADVICE)
        if (height and width) and size != [height, width]:
            raise ValueError(
                f"the segmentation is of {size[1]} x {size[0]} pixels, its image of {width} x "
                f"{height}; fix it"
            )
        height, width = size
        runs = _uncompressed(counts) if isinstance(counts, str) else counts
        if not isinstance(runs, list) or not all(map(_whole, runs)):
            raise ValueError(ADVICE)
        _check_size(height, width)
        if sum(runs) != height * width:
            raise ValueError(
                f"the counts of the segmentation add up to {sum(runs)}, not to the {height * width}"
                " pixels of its size; fix them"
            )
        mask = mask_of_runs(runs, height, width)
    else:
        polygons = _polygons(value)
        if not (height and width):
            raise ValueError("polygons need the width and height of their image; add them")
        _check_size(height, width)
        mask = mask_of_polygons(polygons, height, width)
    if not mask.any():
        raise ValueError("the segmentation covers no pixel of its image; fix or remove it")
    return runs_of_mask(mask), height, width


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_size(height: int, width: int) -> None:
    if height * width > PIXEL_LIMIT:
        raise ValueError(f"a segmentation of {width} x {height} pixels is too large to be right")


def _polygons(value: Any) -> list[list[float]]:
    if not isinstance(value, list):
        raise ValueError(ADVICE)
    polygons = value if isinstance(value[0], list) else [value]
    for polygon in polygons:
        if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
            raise ValueError(ADVICE)
        numbers = [one for one in polygon if isinstance(one, (int, float))]
        if len(numbers) != len(polygon) or not np.isfinite(numbers).all():
            raise ValueError(ADVICE)
    return polygons


def _uncompressed(text: str) -> list[int] | None:
    """Counts from COCO's compressed text: six bits per letter, differences from the third count on.

    None if it is not such text.

    Source: rleFrString of the COCO API's maskApi.c.
    """
    counts: list[int] = []
    value = shift = 0
    for letter in text:
        bits = ord(letter) - 48
        if not 0 <= bits < 64 or shift > 60:
            return None
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return None if shift else counts
