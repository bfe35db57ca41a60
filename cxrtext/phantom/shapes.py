"""Soft shapes, strokes and textures on a pixel grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Map = NDArray[np.floating[Any]]
"""A picture or a mask, [size, size]; 32 bit where speed matters."""
Stroke = tuple[Sequence[tuple[float, float]], float, float]
"""Points (column, row) and width in pixels, and strength in (0, 1]."""


def ramp(distance: Map, width: float) -> Map:
    """A smooth edge: 0 outside, 1 inside.

    Args:
        distance: Distance to the edge, positive inside, any shape.
        width: Length over which it rises, in the same unit.

    Returns:
        The same shape.
    """
    x = np.asarray(distance * np.float32(1.0 / width))
    x += np.float32(0.5)
    np.clip(x, 0.0, 1.0, out=x)
    smooth = 3.0 - 2.0 * x
    smooth *= x
    smooth *= x
    return smooth


def bump(distance: Map, width: float) -> Map:
    """A Gaussian of a signed distance, 1 where it is 0."""
    return np.asarray(np.exp(-((distance * np.float32(1.0 / width)) ** 2)))


def blob(u: Map, v: Map, centre: tuple[float, float], radii: tuple[float, float]) -> Map:
    """A Gaussian spot, 1 at its centre."""
    return np.exp(
        -(((u - centre[0]) / np.float32(radii[0])) ** 2)
        - ((v - centre[1]) / np.float32(radii[1])) ** 2
    )


def texture(
    generator: np.random.Generator, size: int, cells: Sequence[int], fall: float = 0.6
) -> Map:
    """Smooth random texture whose content does not depend on the size.

    Args:
        generator: The source of randomness.
        size: Pixels along each side.
        cells: Grid cells along each side, one number an octave, coarse to fine.
        fall: Strength of each octave relative to the one before.

    Returns:
        [size, size], mean about 0 and standard deviation about 1.
    """
    total = np.zeros((size, size), np.float32)
    for octave, count in enumerate(cells):
        grid = generator.standard_normal((count, count), dtype=np.float32)
        smooth = Image.fromarray(grid).resize((size, size), Image.Resampling.BICUBIC)
        total += np.float32(fall**octave) * np.asarray(smooth)
    norm = np.sqrt(sum(fall ** (2 * octave) for octave in range(len(cells))))
    return total * np.float32(1.3 / norm)


def strokes(size: int, lines: Sequence[Stroke]) -> Map:
    """Draw lines with smooth edges; where lines cross, the later one stays.

    Args:
        size: Pixels along each side.
        lines: Strokes in pixels of the result; sort them from faint to strong.

    Returns:
        [size, size], 0 to 1.
    """
    factor = max(2, min(4, 1024 // size))
    canvas = Image.new("L", (size * factor, size * factor))
    pen = ImageDraw.Draw(canvas)
    for points, width, strength in lines:
        thick = width * factor
        # A line thinner than a fine pixel is drawn one wide and fainter.
        shade = int(255 * strength * min(thick, 1.0))
        path = [(x * factor, y * factor) for x, y in points]
        pen.line(path, fill=shade, width=max(1, round(thick)), joint="curve")
    return np.asarray(canvas.reduce(factor), np.float32) / np.float32(255.0)


def glow(image: Map, sigma: float) -> Map:
    """Blur widely, on a coarse copy.

    Args:
        image: [size, size].
        sigma: Standard deviation, as a share of the side.

    Returns:
        [size, size].
    """
    side, coarse = image.shape[0], 64
    small = Image.fromarray(np.asarray(image, np.float32))
    small = small.resize((coarse, coarse), Image.Resampling.BOX)
    soft = Image.fromarray(blur(np.asarray(small), sigma * coarse))
    return np.asarray(soft.resize((side, side), Image.Resampling.BICUBIC))


def blur(image: Map, sigma: float) -> Map:
    """Blur with three box filters, the edge repeated.

    Args:
        image: [H, W].
        sigma: Standard deviation, in pixels; below half a pixel nothing is done.

    Returns:
        [H, W].
    """
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
