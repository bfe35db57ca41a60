"""Soft shapes, strokes and textures on a pixel grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Map = NDArray[np.floating[Any]]  # a picture or a mask, [size, size]; 32 bit if speed matters
Stroke = tuple[Sequence[Sequence[float]], float, float]
"""Points (column, row) and width in pixels, and strength in (0, 1]."""


def ramp(distance: Map, width: float) -> Map:
    """A smooth edge of a width: 0 outside, 1 inside; distances are positive inside."""
    x = np.clip(distance * np.float32(1.0 / width) + np.float32(0.5), 0.0, 1.0)
    return np.asarray(x * x * (np.float32(3.0) - np.float32(2.0) * x))


def bump(distance: Map, width: float) -> Map:
    """A Gaussian of a signed distance, 1 at distance 0."""
    x = distance * np.float32(1.0 / width)
    return np.asarray(np.exp(-(x * x)))


def blob(u: Map, v: Map, center: tuple[float, float], radii: tuple[float, float]) -> Map:
    """A Gaussian spot, 1 at its center."""
    return bump(u - np.float32(center[0]), radii[0]) * bump(v - np.float32(center[1]), radii[1])


def texture(
    generator: np.random.Generator, size: int, cells: Sequence[int], fall: float = 0.6
) -> Map:
    """Smooth random texture; its content does not depend on the size.

    Args:
        cells: Grid cells along each side, one number for each octave, coarse to fine.
        fall: Strength of each octave relative to the one before.

    Returns:
        [size, size], mean about 0 and standard deviation about 1.
    """
    # Octaves are added on a grid twice as fine as the last one, which is then enlarged.
    side = min(2 * cells[-1], size)
    total = np.zeros((side, side), np.float32)
    for octave, count in enumerate(cells):
        grid = generator.standard_normal((count, count), dtype=np.float32)
        smooth = Image.fromarray(grid).resize((side, side), Image.Resampling.BICUBIC)
        total += np.float32(fall**octave) * np.asarray(smooth)
    norm = np.sqrt(sum(fall ** (2 * octave) for octave in range(len(cells))))
    large = Image.fromarray(total * np.float32(1.3 / norm))
    return np.asarray(large.resize((size, size), Image.Resampling.BILINEAR))


def strokes(size: int, lines: Sequence[Stroke]) -> Map:
    """Draw lines with smooth edges, [size, size] in [0, 1].

    A later line covers earlier ones: sort them from faint to strong.
    """
    factor = max(2, min(3, 512 // size))
    canvas = Image.new("L", (size * factor, size * factor))
    pen = ImageDraw.Draw(canvas)
    for points, width, strength in lines:
        thick = width * factor
        # A line thinner than a fine pixel is drawn one pixel wide and fainter.
        shade = int(255 * strength * min(thick, 1.0))
        path = [(x * factor, y * factor) for x, y in points]
        pen.line(path, fill=shade, width=max(1, round(thick)))
    return np.asarray(canvas.reduce(factor), np.float32) / np.float32(255.0)


def coarse(image: Map, cells: int) -> Map:
    """An image [size, size] with details smaller than a cell smoothed away."""
    side = image.shape[0]
    small = Image.fromarray(np.asarray(image, np.float32))
    small = small.resize((cells, cells), Image.Resampling.BOX)
    return np.asarray(small.resize((side, side), Image.Resampling.BICUBIC))
