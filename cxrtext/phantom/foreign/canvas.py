"""Soft shapes on a grid that is turned and scaled at random."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.shapes import Map, texture

Edge = float | Map


@dataclass(frozen=True, slots=True)
class Grid:
    """Coordinates of every pixel, [size, size], about −1 to 1: u to the right, v down."""

    u: NDArray[np.float64]
    v: NDArray[np.float64]


def grid_of(generator: np.random.Generator, size: int, turn: float = 0.1) -> Grid:
    """A grid that is turned by up to ``turn`` radians, moved and scaled a little."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = np.meshgrid(axis, axis)
    angle = generator.uniform(-turn, turn)
    x, y = x + generator.uniform(-0.12, 0.12), y + generator.uniform(-0.12, 0.12)
    across, down = generator.uniform(0.85, 1.15, 2)
    turned = np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y
    return Grid(turned[0] * across, turned[1] * down)


def band(values: Map, low: Edge, high: Edge, edge: float) -> Map:
    """1 between two borders, 0 beyond, with soft edges of a width."""
    return np.asarray(_step((values - low) / edge) * _step((high - values) / edge))


def disc(
    grid: Grid, center: tuple[float, float], radii: tuple[float, float], edge: float = 0.15
) -> Map:
    """An ellipse, 1 inside; ``edge`` is the share of its radius over which it ends."""
    distance = np.hypot((grid.u - center[0]) / radii[0], (grid.v - center[1]) / radii[1])
    return _step((1 - distance) / edge)


def clouds(
    generator: np.random.Generator, size: int, cells: tuple[int, ...] = (4, 8, 16, 32)
) -> Map:
    """Smooth noise of mean 0 and deviation 1."""
    return texture(generator, size, cells)


def _step(x: Map) -> Map:
    smooth = np.clip(x + 0.5, 0, 1)
    return np.asarray(smooth * smooth * (3 - 2 * smooth))
