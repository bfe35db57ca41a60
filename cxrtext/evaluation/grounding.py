"""How well a map of scores agrees with the boxes a radiologist drew.

A map is [H, W] in original pixels, NaN where the model saw nothing.  Boxes are COCO's
(x, y, width, height) in original pixels; a pixel lies in a box when its centre does.  Several
boxes of one sentence count as their union unless a name says otherwise.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.box_mask import Map, box_mask, map_and_boxes

PAPER_THRESHOLDS: tuple[float, ...] = tuple(k / 20 for k in range(-20, 21))
"""−1, −0.95, …, 1, as the paper has them."""

COMMON_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Those of other evaluations on MS-CXR."""


def contrast_to_noise(heat: ArrayLike, boxes: ArrayLike, *, signed: bool = False) -> float:
    """Contrast-to-noise ratio of a map: |μ_in − μ_out| / √(σ²_in + σ²_out).

    >>> contrast_to_noise(np.array([[3.0, 1.0], [0.0, 0.0]]), [0, 0, 2, 1])
    2.0

    Args:
        heat: [H, W]; pixels that are NaN are left out.
        boxes: [n, 4], COCO boxes; "in" is their union, "out" the rest of the image.
        signed: Keep the sign of μ_in − μ_out, so that a map that avoids the boxes is below 0.

    Returns:
        The ratio; NaN where nothing inside or nothing outside is defined (say, a box beyond the
        crop) or the map is constant; infinite where it has one value inside and another
        outside.

    Raises:
        ValueError: The map is not [H, W], or see :func:`~cxrtext.evaluation.box_mask.box_mask`.

    Source: Boecking et al. 2022 (BioViL, MS-CXR), not signed.
    """
    values, rows = map_and_boxes(heat, boxes)
    mask = box_mask(rows, values.shape)
    defined = ~np.isnan(values)
    inside, outside = values[mask & defined], values[~mask & defined]
    if not inside.size or not outside.size:
        return math.nan
    (mean_in, variance_in), (mean_out, variance_out) = _moments(inside), _moments(outside)
    contrast = mean_in - mean_out if signed else abs(mean_in - mean_out)
    noise = math.sqrt(variance_in + variance_out)
    if noise == 0:
        return math.copysign(math.inf, contrast) if contrast else math.nan
    return contrast / noise


def _moments(values: Map) -> tuple[float, float]:
    """Mean and variance; of equal values the variance is exactly 0."""
    first = float(values[0])
    rest = values.astype(np.float64) - first
    return first + float(rest.mean()), float(rest.var())


def contrast_to_noise_by_box(
    heat: ArrayLike, boxes: ArrayLike, *, signed: bool = False
) -> NDArray[np.float64]:
    """The ratio of each box alone, "out" being all that lies outside that box.

    Args:
        heat: [H, W].
        boxes: [n, 4].
        signed: See :func:`contrast_to_noise`.

    Returns:
        [n]; its mean is the variant of evaluations that average over boxes.

    Raises:
        ValueError: See :func:`contrast_to_noise`.
    """
    _, rows = map_and_boxes(heat, boxes)
    return np.array([contrast_to_noise(heat, row, signed=signed) for row in rows])


def overlap_by_threshold(
    heat: ArrayLike,
    boxes: ArrayLike,
    thresholds: Sequence[float] = PAPER_THRESHOLDS,
    *,
    undefined: Literal["missed", "ignored"] = "missed",
) -> NDArray[np.float64]:
    """Intersection over union of {map ≥ threshold} and the union of the boxes.

    One histogram a side answers every threshold.

    Args:
        heat: [H, W].
        boxes: [n, 4], COCO boxes.
        thresholds: [k], rising.
        undefined: Pixels of a box where the map is NaN count as "missed", since the finding is
            there; or are "ignored".

    Returns:
        [k]; NaN where pixels are ignored and no others are left.

    Raises:
        ValueError: The thresholds do not rise; or see :func:`contrast_to_noise`.

    Source: Jaccard 1912; Boecking et al. 2022.
    """
    values, rows = map_and_boxes(heat, boxes)
    cuts = np.asarray(thresholds, dtype=np.float64)
    if cuts.ndim != 1 or not cuts.size or not (np.diff(cuts) > 0).all():
        raise ValueError("thresholds must be at least one number, and rise")
    boxed = values[box_mask(rows, values.shape)]
    area = int((~np.isnan(boxed)).sum()) if undefined == "ignored" else boxed.size
    inside = _at_or_above(boxed, cuts)
    union = area + _at_or_above(values.ravel(), cuts) - inside
    overlap: NDArray[np.float64] = np.divide(
        inside, union, out=np.full(len(cuts), np.nan), where=union > 0
    )
    return overlap


def _at_or_above(values: Map, cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many values reach each of the rising cuts, [k]."""
    reached = np.searchsorted(cuts, values.astype(np.float64), side="right")
    counts = np.bincount(reached, minlength=len(cuts) + 1)
    counts[-1] -= np.isnan(values).sum()  # NaN is sorted behind every number
    total: NDArray[np.int64] = counts[::-1].cumsum()[::-1][1:]
    return total


def mean_iou(
    heat: ArrayLike,
    boxes: ArrayLike,
    thresholds: Sequence[float] = PAPER_THRESHOLDS,
    *,
    undefined: Literal["missed", "ignored"] = "missed",
) -> float:
    """Mean over thresholds of the overlap of {map ≥ threshold} and the boxes.

    Args:
        heat: [H, W].
        boxes: [n, 4].
        thresholds: The paper's by default; :data:`COMMON_THRESHOLDS` are those of others.
        undefined: See :func:`overlap_by_threshold`.

    Raises:
        ValueError: See :func:`overlap_by_threshold`.
    """
    return float(overlap_by_threshold(heat, boxes, thresholds, undefined=undefined).mean())


def pointing_game(heat: ArrayLike, boxes: ArrayLike, tolerance: float = 0.0) -> float:
    """Whether the peak of a map lies in a box.

    Args:
        heat: [H, W]; NaN is never the peak.
        boxes: [n, 4], COCO boxes.
        tolerance: How far from a box the peak may lie, in original pixels.

    Returns:
        1 or 0; where several pixels are equally high the share of them that lies in a box, so
        that a constant map gets what chance would.  NaN where the map is nowhere defined.

    Raises:
        ValueError: The tolerance is negative; or see :func:`contrast_to_noise`.

    Source: Zhang et al. 2018 (excitation backprop).
    """
    values, rows = map_and_boxes(heat, boxes)
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be 0 or more, not {tolerance}")
    if np.isnan(values).all():
        return math.nan
    mask = box_mask(rows, values.shape)
    at = np.argwhere(values == np.nanmax(values))
    hit = mask[at[:, 0], at[:, 1]]
    if tolerance:
        points = at[:, ::-1] + 0.5
        first, last = rows[:, None, :2], rows[:, None, :2] + rows[:, None, 2:]
        away = np.maximum(np.maximum(first - points, points - last), 0)  # [n, peaks, 2]
        hit |= (np.hypot(away[..., 0], away[..., 1]) <= tolerance).any(axis=0)
    return float(hit.mean())
