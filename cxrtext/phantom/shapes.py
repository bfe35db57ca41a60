"""Soft shapes, strokes and textures on a pixel grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Map = NDArray[np.floating[Any]]  # a picture or a mask, [size, size]; 32 bit where speed matters
Stroke = tuple[Sequence[Sequence[float]], float, float]
"""Points (column, row) and width in pixels, and strength in (0, 1]."""
Polygon = tuple[NDArray[np.float64], float]
"""Corners (column, row) in pixels, [K, 2], and strength in [0, 1]."""


def ramp(distance: Map, width: float) -> Map:
    """A smooth edge over a width: 0 outside, 1 inside; distances are positive inside."""
    x = np.asarray(distance * np.float32(1.0 / width))
    x += np.float32(0.5)
    np.clip(x, 0.0, 1.0, out=x)
    smooth = 3.0 - 2.0 * x
    smooth *= x
    smooth *= x
    return smooth


def bump(distance: Map, width: float) -> Map:
    """A Gaussian of a signed distance, 1 where it is 0."""
    x = distance * np.float32(1.0 / width)
    return np.asarray(np.exp(-(x * x)))


def blob(u: Map, v: Map, center: tuple[float, float], radii: tuple[float, float]) -> Map:
    """A Gaussian spot, 1 at its center."""
    across = (u - np.float32(center[0])) * np.float32(1.0 / radii[0])
    down = (v - np.float32(center[1])) * np.float32(1.0 / radii[1])
    return np.asarray(np.exp(-(across * across) - down * down))


def window(u: Map, v: Map, across: tuple[float, float], down: tuple[float, float]) -> Any:
    """The index, rows and columns, of what a grid (u, v) has in a rectangle."""
    low, high = v[:, [0, -1]].min(axis=1), v[:, [0, -1]].max(axis=1)
    left, right = u[[0, -1]].min(axis=0), u[[0, -1]].max(axis=0)
    places = []
    for inside in (
        (high >= down[0]) & (low <= down[1]),
        (right >= across[0]) & (left <= across[1]),
    ):
        touched = np.flatnonzero(inside)
        places.append(slice(int(touched[0]), int(touched[-1]) + 1) if touched.size else slice(0, 0))
    return tuple(places)


def texture(
    generator: np.random.Generator, size: int, cells: Sequence[int], fall: float = 0.6
) -> Map:
    """Smooth random texture whose content does not depend on the size.

    Args:
        cells: Grid cells along each side, one number an octave, coarse to fine.
        fall: Strength of each octave relative to the one before.

    Returns:
        [size, size], mean about 0 and standard deviation about 1.
    """
    # The octaves are added on a grid twice as fine as the last one, then enlarged at once.
    side = min(2 * cells[-1], size)
    total = np.zeros((side, side), np.float32)
    for octave, count in enumerate(cells):
        grid = generator.standard_normal((count, count), dtype=np.float32)
        smooth = Image.fromarray(grid).resize((side, side), Image.Resampling.BICUBIC)
        total += np.float32(fall**octave) * np.asarray(smooth)
    norm = np.sqrt(sum(fall ** (2 * octave) for octave in range(len(cells))))
    large = Image.fromarray(total * np.float32(1.3 / norm))
    return np.asarray(large.resize((size, size), Image.Resampling.BILINEAR))


def _reduced(canvas: Image.Image, factor: int) -> Map:
    """A canvas at the size wanted; a large one is softened, as a focal spot does."""
    small = canvas.reduce(factor)
    if small.width >= 384:
        small = small.filter(ImageFilter.GaussianBlur(0.0017 * small.width))
    return np.asarray(small, np.float32) / np.float32(255.0)


def strokes(size: int, lines: Sequence[Stroke]) -> Map:
    """Draw lines with smooth edges, [size, size] in [0, 1].

    Where lines cross, the later one stays: sort them from faint to strong.
    """
    factor = max(2, min(3, 512 // size))
    canvas = Image.new("L", (size * factor, size * factor))
    pen = ImageDraw.Draw(canvas)
    for points, width, strength in lines:
        thick = width * factor
        # A line thinner than a fine pixel is drawn one wide and fainter.
        shade = int(255 * strength * min(thick, 1.0))
        path = [(x * factor, y * factor) for x, y in points]
        pen.line(path, fill=shade, width=max(1, round(thick)), joint="curve")
    return _reduced(canvas, factor)


def polygons(size: int, shapes: Sequence[Polygon]) -> Map:
    """Fill polygons with smooth edges, [size, size] in [0, 1]; the later ones stay."""
    factor = max(2, min(3, 512 // size))
    canvas = Image.new("L", (size * factor, size * factor))
    pen = ImageDraw.Draw(canvas)
    for points, strength in shapes:
        pen.polygon((points * factor).ravel().tolist(), fill=round(255 * strength))
    return _reduced(canvas, factor)


def coarse(image: Map, cells: int) -> Map:
    """What is left of an image [size, size] when details smaller than a cell are smoothed away."""
    side = image.shape[0]
    small = Image.fromarray(np.asarray(image, np.float32))
    small = small.resize((cells, cells), Image.Resampling.BOX)
    return np.asarray(small.resize((side, side), Image.Resampling.BICUBIC))


def blur(image: Map, sigma: float) -> Map:
    """Blur an image [H, W] with three box filters, the edge repeated; not below half a pixel."""
    half = round((np.sqrt(4.0 * sigma * sigma + 1.0) - 1.0) / 2.0)
    if half < 1:
        return image
    for _ in range(3):
        for axis in (0, 1):
            pad = [(0, 0), (0, 0)]
            pad[axis] = (half + 1, half)
            total = np.cumsum(np.pad(image, pad, mode="edge"), axis=axis, dtype=np.float64)
            total = np.moveaxis(total, axis, 0)
            image = np.moveaxis(total[2 * half + 1 :] - total[: -2 * half - 1], 0, axis)
            image = (image / (2 * half + 1)).astype(np.float32)
    return image
