"""From a grid of region scores to a map in original pixels."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.images import Geometry


def smooth_grid(grid: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Smooth a grid with a Gaussian cut off at 4 σ, mirrored at its edges.

    Args:
        grid: [h, w].
        sigma: In cells; 0 leaves the grid as it is.

    Returns:
        [h, w].

    Raises:
        ValueError: The grid is not [h, w], or sigma is negative.

    Source: The heat maps of BioViL (Boecking et al. 2022) have σ = 1.5; equals
        ``scipy.ndimage.gaussian_filter``.
    """
    values = np.asarray(grid, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"a grid is [h, w], not {list(values.shape)}")
    if not sigma >= 0:
        raise ValueError(f"sigma must be 0 or more, not {sigma}")
    radius = int(4 * sigma + 0.5)
    if not radius:
        return values
    offsets = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 * (offsets / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        margin = [(radius, radius) if axis == one else (0, 0) for one in (0, 1)]
        padded = np.pad(values, margin, mode="symmetric")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis=axis)
        values = windows @ kernel
    return values


def heat_map(grid: ArrayLike, geometry: Geometry, sigma: float = 0.0) -> NDArray[np.float32]:
    """Enlarge a grid of region scores onto the crop's place in the original image.

    Bilinear between the centres of regions, as ``align_corners=False``.

    Args:
        grid: [h, w], region scores; covers the crop evenly.
        geometry: Where the crop lies in the original.
        sigma: Of a Gaussian over the grid, in cells; 0 for none, as the paper has it.

    Returns:
        [H, W] in original pixels; NaN outside the crop.

    Raises:
        ValueError: See :func:`smooth_grid`.
    """
    return geometry.map_to_original(smooth_grid(grid, sigma))
