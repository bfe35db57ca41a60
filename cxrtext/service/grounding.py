"""From a grid of region scores to a map, a peak and boxes in the original image."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.images import Geometry

Grid = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GroundedBox:
    """A group of neighbouring regions above the threshold.

    Args:
        bbox: x, y, w, h in original pixels.
        score: Highest region score in it.
    """

    bbox: tuple[float, float, float, float]
    score: float


@dataclass(frozen=True, slots=True)
class Grounding:
    """Where an image supports a sentence.

    Args:
        score: Score of the whole image, in [−1, 1].
        grid: [h, w], region scores in [−1, 1].
        geometry: Where the grid lies in the original.
        peak: x and y of the centre of the best region, in original pixels.
        threshold: The score from which on a region counts for the boxes.
        boxes: Groups of regions above it, best first.
    """

    score: float
    grid: Grid
    geometry: Geometry
    peak: tuple[float, float]
    threshold: float
    boxes: list[GroundedBox]

    @property
    def limits(self) -> tuple[float, float]:
        """The scores between which a picture shades: from the mean to the maximum."""
        return float(self.grid.mean()), float(self.grid.max())

    def map(self) -> Grid:
        """The map [H, W] in original pixels; NaN outside the crop that the model saw."""
        return self.geometry.map_to_original(self.grid)


def connected_regions(mask: NDArray[np.bool_]) -> list[list[tuple[int, int]]]:
    """Groups of True cells that touch by an edge; each a list of (row, column)."""
    todo = {(int(row), int(column)) for row, column in np.argwhere(mask)}
    groups = []
    while todo:
        group, edge = [], [todo.pop()]
        while edge:
            row, column = edge.pop()
            group.append((row, column))
            for cell in (
                (row + 1, column),
                (row - 1, column),
                (row, column + 1),
                (row, column - 1),
            ):
                if cell in todo:
                    todo.remove(cell)
                    edge.append(cell)
        groups.append(group)
    return groups


def ground_grid(
    grid: Grid, score: float, geometry: Geometry, threshold: float | None = None
) -> Grounding:
    """Describe a grid of region scores.

    Args:
        grid: [h, w], region scores.
        score: Score of the whole image.
        geometry: Where the grid lies in the original.
        threshold: From which score on a region counts for the boxes; by default halfway between
            the mean and the maximum of the grid.
    """
    cut = float((grid.mean() + grid.max()) / 2) if threshold is None else threshold
    peak = tuple(int(i) for i in np.unravel_index(int(grid.argmax()), grid.shape))
    x, y, w, h = _box([(peak[0], peak[1])], grid.shape, geometry)
    boxes = [
        GroundedBox(_box(group, grid.shape, geometry), max(float(grid[cell]) for cell in group))
        for group in connected_regions(grid >= cut)
    ]
    boxes.sort(key=lambda box: -box.score)
    return Grounding(score, grid, geometry, (x + w / 2, y + h / 2), cut, boxes)


def _box(
    cells: list[tuple[int, int]], shape: tuple[int, ...], geometry: Geometry
) -> tuple[float, float, float, float]:
    """The box around cells (row, column) of a grid that covers the crop, in original pixels."""
    rows, columns = zip(*cells, strict=True)
    height, width = (geometry.preprocessing.crop / cells_along for cells_along in shape)
    x, y, w, h = geometry.boxes_to_original(
        (
            min(columns) * width,
            min(rows) * height,
            (max(columns) - min(columns) + 1) * width,
            (max(rows) - min(rows) + 1) * height,
        )
    ).tolist()
    return x, y, w, h
