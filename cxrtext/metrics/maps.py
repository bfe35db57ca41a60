"""How well a map of scores agrees with what a radiologist drew.

A map is [H, W] in pixels, NaN where the model saw nothing; ``inside`` [H, W] marks the pixels of
one sentence's boxes or masks, at least one.  Boxes are COCO's (x, y, width, height); a pixel lies
in a box if its center does.  Arguments that do not fit raise a ValueError.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.metrics.intervals import placements
from cxrtext.metrics.ranking import Floats

Map = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
PAPER_THRESHOLDS: tuple[float, ...] = tuple(k / 20 for k in range(-20, 21))
"""−1, −0.95, …, 1, as in the paper."""
COMMON_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""The thresholds of other evaluations on MS-CXR."""


def box_slices(box: ArrayLike, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """The rows and columns with centers in a box, clipped to the image."""
    x, y, w, h = np.asarray(box, dtype=np.float64).tolist()
    ends = np.ceil(np.array([y, y + h, x, x + w]) - 0.5)
    top, bottom = np.clip(ends[:2], 0, shape[0]).astype(int).tolist()
    left, right = np.clip(ends[2:], 0, shape[1]).astype(int).tolist()
    return slice(top, bottom), slice(left, right)


def box_mask(boxes: ArrayLike, shape: tuple[int, int]) -> Mask:
    """The pixels, [H, W], with centers in any of the boxes [n, 4], clipped to the image."""
    rows = np.atleast_2d(np.asarray(boxes, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != 4 or not len(rows):
        raise ValueError(f"boxes are [n, 4] with n of at least 1, not {list(rows.shape)}")
    mask: Mask = np.zeros(shape, dtype=np.bool_)
    for number, row in enumerate(rows):
        if not np.isfinite(row).all() or (row[2:] <= 0).any():
            raise ValueError(
                f"box {number} is {row.tolist()}; x, y, width and height must be numbers, the last "
                "two above 0: leave it out or fix it"
            )
        place = box_slices(row, shape)
        if not mask[place].size:
            raise ValueError(
                f"box {number} {row.tolist()} covers no pixel of an image of {shape[1]} x "
                f"{shape[0]}: leave it out or fix it"
            )
        mask[place] = True
    return mask


def _checked(heat: ArrayLike, inside: ArrayLike) -> tuple[Map, Mask]:
    values, mask = np.asarray(heat), np.asarray(inside, dtype=np.bool_)
    if values.ndim != 2 or values.dtype.kind != "f" or values.shape != mask.shape or not mask.any():
        raise ValueError(
            f"a map {list(values.shape)} {values.dtype} and a mask {list(mask.shape)} must be "
            "[H, W], the map of floats, and the mask cover a pixel"
        )
    return values, mask


def contrast_to_noise(heat: ArrayLike, inside: ArrayLike, *, signed: bool = False) -> float:
    """Contrast-to-noise ratio of a map: |μ_in − μ_out| / √(σ²_in + σ²_out).

    >>> contrast_to_noise(np.array([[3.0, 1.0], [0.0, 0.0]]), [[True, True], [False, False]])
    2.0

    NaN pixels are left out.  ``signed`` keeps the sign of μ_in − μ_out, so that a map that avoids
    what was drawn is below 0.

    Returns:
        The ratio; NaN if nothing inside or nothing outside is defined (say, a box beyond the crop)
        or the map is constant; infinite if it has one value inside and another outside.

    Source: Boecking et al. 2022 (BioViL, MS-CXR), not signed.
    """
    values, mask = _checked(heat, inside)
    defined = ~np.isnan(values)
    within, without = values[mask & defined], values[~mask & defined]
    if not within.size or not without.size:
        return math.nan
    (mean_in, variance_in), (mean_out, variance_out) = _moments(within), _moments(without)
    contrast = mean_in - mean_out if signed else abs(mean_in - mean_out)
    noise = math.sqrt(variance_in + variance_out)
    if noise == 0:
        return math.copysign(math.inf, contrast) if contrast else math.nan
    return contrast / noise


def _moments(values: Map) -> tuple[float, float]:
    """Mean and variance; the latter is exactly 0 for equal values."""
    first = float(values[0])
    rest = values.astype(np.float64) - first
    return first + float(rest.mean()), float(rest.var())


def overlap_by_threshold(heat: ArrayLike, inside: ArrayLike) -> Floats:
    """Intersection over union of {map ≥ threshold} and what was drawn, [41].

    One for each of :data:`PAPER_THRESHOLDS`.  NaN pixels inside count as missed, because the
    finding is there.

    Source: Jaccard 1912; Boecking et al. 2022.
    """
    values, mask = _checked(heat, inside)
    both = _at_or_above(values[mask])
    overlap: Floats = both / (mask.sum() + _at_or_above(values.ravel()) - both)
    return overlap


def dice_by_threshold(heat: ArrayLike, inside: ArrayLike) -> Floats:
    """Dice coefficient of {map ≥ threshold} and what was drawn, [41]: 2 |A ∩ B| / (|A| + |B|).

    Source: Dice 1945.
    """
    overlap = overlap_by_threshold(heat, inside)
    dice: Floats = 2 * overlap / (1 + overlap)
    return dice


def _at_or_above(values: Map) -> NDArray[np.int64]:
    """How many values reach each of :data:`PAPER_THRESHOLDS`, [41], by one histogram."""
    cuts = np.asarray(PAPER_THRESHOLDS)
    reached = np.searchsorted(cuts, values.astype(np.float64), side="right")
    counts = np.bincount(reached, minlength=len(cuts) + 1)
    counts[-1] -= np.isnan(values).sum()  # NaN sorts after every number
    return counts[::-1].cumsum()[::-1][1:]


def pointing_game(heat: ArrayLike, inside: ArrayLike) -> float:
    """Whether the peak of a map lies inside: 1 or 0.

    If several pixels are equally high, it is the share of them that lies inside: a constant map
    gets what chance would.  NaN is never the peak; the result is NaN if the whole map is.

    Source: Zhang et al. 2018 (excitation backprop).
    """
    values, mask = _checked(heat, inside)
    if np.isnan(values).all():
        return math.nan
    return float(mask[values == np.nanmax(values)].mean())


def pixel_auroc(heat: ArrayLike, inside: ArrayLike) -> float:
    """The chance that a pixel inside is higher than one outside; a tie counts one half.

    NaN pixels are left out; the result is NaN if none are left inside, or outside.
    """
    values, mask = _checked(heat, inside)
    defined = ~np.isnan(values)
    truth = mask[defined]
    if not truth.any() or truth.all():
        return math.nan
    return float(placements(values[defined], truth)[0].mean())


def peaks_left(grids: ArrayLike) -> Floats:
    """The share of the highest regions of grids [h, w, ...] that lie on the patient's left.

    The patient's left is at the right of the picture.  Regions in the middle column count half, and
    so does a constant map.
    """
    values = np.asarray(grids)
    width = values.shape[1]
    weight = (np.sign(np.arange(width) - (width - 1) / 2) + 1) / 2
    highest = (values == values.max(axis=(0, 1))).sum(axis=0)  # [w, ...]
    share: Floats = np.tensordot(weight, highest, 1) / highest.sum(axis=0)
    return share
