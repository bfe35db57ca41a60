"""Features of boxes, pooled from a grid of regions (RoIAlign)."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from cxrtext.images import Geometry

BOXES_AT_ONCE = 64
"""Boxes pooled at the same time; bounds memory."""


def region_boxes(boxes: ArrayLike, geometry: Geometry, grid: tuple[int, int]) -> Tensor:
    """Map boxes of the original image onto the region grid.

    Args:
        boxes: [n, 4], COCO boxes (x, y, width, height) in original pixels.
        geometry: Where the crop lies in the original.
        grid: (h, w) of the region grid, which covers the crop evenly.

    Returns:
        float64 [n, 4], COCO boxes in cells, clipped to the grid; a box that lies wholly outside
        the crop has no area, and is for the caller to leave out and count.
    """
    inside = geometry.boxes_to_crop(boxes, clip=True)
    height, width = (cells / geometry.preprocessing.crop for cells in grid)
    return torch.from_numpy(inside * np.array([width, height, width, height]))


def region_of_interest_align(
    features: Tensor,
    boxes: Tensor,
    size: int | tuple[int, int],
    images: Tensor | None = None,
    *,
    sampling_ratio: int = 0,
    aligned: bool = True,
) -> Tensor:
    """Pool a region grid over boxes: RoIAlign.

    Each box is divided into ``size`` bins; a bin's value is the mean of samples taken bilinearly
    at regular points in it.  Bilinear sampling and the mean act on rows and columns apart, so the
    whole is two matrix products a box.  Gradients flow to the features.

    Args:
        features: [B, D, h, w], values at the centres of the cells.
        boxes: [R, 4], COCO boxes (x, y, width, height) in cells (:func:`region_boxes`).
        size: Bins down and across, or one number for both.
        images: [R], the row of ``features`` that each box belongs to; may be left out where
            B = 1.
        sampling_ratio: Samples along each side of a bin; 0 takes as many as the bin has cells,
            rounded up.
        aligned: Cell centres at +0.5, as the geometry has them.  False is the older form, half a
            cell off, in which a box is at least one cell wide.

    Returns:
        [R, D, size, size], in the type of the features.

    Raises:
        ValueError: The shapes do not fit, or a box has no area.

    Source: He et al. 2017, section 3; ``aligned`` as in Detectron2.
    """
    bins = (size, size) if isinstance(size, int) else size
    place = _check(features, boxes, images, bins, sampling_ratio)
    _, D, h, w = features.shape
    parts = [features.new_empty(0, D, *bins)]
    for start in range(0, len(boxes), BOXES_AT_ONCE):
        some = slice(start, start + BOXES_AT_ONCE)
        x, y, width, height = boxes[some].detach().to(torch.float64).unbind(dim=1)
        options = (sampling_ratio, aligned)
        down = _weights(y, height, bins[0], h, *options).to(features)
        across = _weights(x, width, bins[1], w, *options).to(features)
        # [r, p, h], [r, D, h, w], [r, q, w] -> [r, D, p, q]
        rows = torch.einsum("rph,rdhw->rdpw", down, features[place[some]])
        parts.append(torch.einsum("rdpw,rqw->rdpq", rows, across))
    return torch.cat(parts)


def _check(
    features: Tensor, boxes: Tensor, images: Tensor | None, bins: tuple[int, int], ratio: int
) -> Tensor:
    if features.ndim != 4 or not features.numel():
        raise ValueError(f"features must be [B, D, h, w], not {list(features.shape)}")
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes must be [R, 4], not {list(boxes.shape)}")
    if min(bins) < 1 or ratio < 0:
        raise ValueError(f"size must be at least 1 and sampling_ratio 0 or more: {bins}, {ratio}")
    wrong = (~boxes.isfinite().all(dim=1)) | (boxes[:, 2:] <= 0).any(dim=1)
    if wrong.any():
        number = int(wrong.nonzero()[0])
        raise ValueError(
            f"box {number} is {boxes[number].tolist()}; x, y, width and height are numbers, the "
            "latter two above 0: leave out boxes outside the crop"
        )
    if images is None:
        if len(features) != 1:
            raise ValueError(f"images must say which of {len(features)} images each box is of")
        images = torch.zeros(len(boxes), dtype=torch.long)
    if images.shape != (len(boxes),):
        raise ValueError(f"images must be [{len(boxes)}], not {list(images.shape)}")
    if len(images) and not 0 <= int(images.min()) <= int(images.max()) < len(features):
        raise ValueError(f"images must name rows 0 to {len(features) - 1} of the features")
    return images.to(features.device)


def _weights(
    start: Tensor, extent: Tensor, bins: int, cells: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """How much each cell of an axis adds to each bin, [R], [R] -> [R, bins, cells]."""
    if aligned:
        start = start - 0.5
    else:
        extent = extent.clamp(min=1.0)
    wide = extent / bins
    samples = (
        torch.full_like(wide, sampling_ratio) if sampling_ratio else wide.ceil().clamp(min=1.0)
    )
    steps = torch.arange(int(samples.max()), device=wide.device)
    share = (steps + 0.5) / samples[:, None]  # [R, s]
    bin_starts = start[:, None] + wide[:, None] * torch.arange(bins, device=wide.device)
    at = bin_starts[:, :, None] + (share * wide[:, None])[:, None, :]  # [R, bins, s]
    # Boxes have different numbers of samples; those beyond a box's own, and those more than one
    # cell outside the grid, weigh nothing.
    counts = (steps < samples[:, None])[:, None, :] & (at >= -1) & (at <= cells)
    at = at.clamp(0, cells - 1)
    before = at.floor().clamp(max=max(cells - 2, 0))
    after = (before + 1).clamp(max=cells - 1)
    part = at - before
    each = counts / samples[:, None, None]
    weights = torch.zeros(*wide.shape, bins, cells, dtype=wide.dtype, device=wide.device)
    weights.scatter_add_(2, before.long(), each * (1 - part))
    weights.scatter_add_(2, after.long(), each * part)
    return weights
