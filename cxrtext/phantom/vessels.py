"""Branching lung vessels."""

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.anatomy import Anatomy, Lung
from cxrtext.phantom.shapes import Map, Stroke, blur, strokes

HILA = {"right": (0.085, 0.43), "left": (0.088, 0.41)}
"""Where the vessels of each lung start: distance from the midline, and v."""

DIRECTIONS = (-1.35, -0.95, -0.5, -0.1, 0.3, 0.65, 1.0, 1.3)
"""Angles at which they leave it, from lateral, downwards positive."""

TRUNKS = {
    "right": ((0.066, 0.408), (0.080, 0.425), (0.095, 0.455), (0.104, 0.50), (0.112, 0.55)),
    "left": ((0.056, 0.384), (0.070, 0.374), (0.090, 0.380), (0.104, 0.42), (0.112, 0.47)),
}
"""The middle lines of the pulmonary arteries, which the lower vessels leave."""

Floats = NDArray[np.float64]

Cuts = tuple[tuple[int, int, float], ...]
CUTS: tuple[Cuts, ...] = (
    ((0, 3, 1.0), (2, 5, 0.76), (4, 9, 0.52)),
    ((0, 3, 1.0), (2, 5, 0.76), (4, 9, 0.52)),
    ((0, 6, 0.75),),
)
"""First and last point of each piece of a vessel and its width, by order: vessels taper."""

STEPS = (0.026, 0.021, 0.016)
"""Length of a step of a vessel, of what branches off it, and of what branches off that."""


def _grow(start: Floats, angle: Floats, bends: Floats) -> list[tuple[Floats, Floats]]:
    """Grow vessels, each with 3 branches that have 3 branches each.

    Args:
        start: Where they start: distance from the midline and v, [N, 2].
        angle: Their directions, [N].
        bends: Random changes of direction, [N, 13, 8]: 1 + 3 + 9 vessels of 8 steps.

    Returns:
        For each order of branches the paths [N, M, 9, 2], and widths relative to the first [M].
    """
    start, angle, width = start[:, None], angle[:, None], np.ones(1)
    orders = []
    for order, rows in enumerate((slice(0, 1), slice(1, 4), slice(4, 13))):
        bend = bends[:, rows]
        heading = angle[..., None] + np.cumsum(bend, axis=-1)
        ways = STEPS[order] * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
        path = start[:, :, None] + np.concatenate(
            [np.zeros_like(ways[:, :, :1]), np.cumsum(ways, axis=2)], axis=2
        )
        orders.append((path, width))
        # Branches leave after steps 1, 3 and 5, to both sides by turns.
        sides = np.array([1.0, -1.0, 1.0]) * (-1.0) ** order
        turned = heading[:, :, 1:6:2] + (0.55 + bend[:, :, 1:6:2]) * sides
        start, angle = path[:, :, 2:7:2].reshape(len(path), -1, 2), turned.reshape(len(path), -1)
        width = (width[:, None] * np.array([0.61, 0.51, 0.41])).ravel()
    return orders


def _pieces(anatomy: Anatomy, sign: float, path: Floats, width: float, cuts: Cuts) -> list[Stroke]:
    """Cut paths [N, M, 9, 2] into pieces of falling width."""
    pixels = anatomy.size * anatomy.body.zoom
    columns, rows = anatomy.to_pixels(sign * path[..., 0], path[..., 1])
    points = np.stack([columns, rows], axis=-1).reshape(-1, path.shape[2], 2).tolist()
    return [
        (line[first:last], thick * width * pixels, min(0.85, 0.16 + thick * width * 52.0))
        for line in points
        for first, last, thick in cuts
    ]


def vessels(anatomy: Anatomy, generator: np.random.Generator, fullness: float) -> Map:
    """Attenuation of the lung vessels.

    Args:
        anatomy: The body on its grid.
        generator: The source of randomness; what is drawn from it does not depend on the size.
        fullness: Widening and blurring of the vessels, 0 for normal ones; the upper ones widen
            most.

    Returns:
        [size, size].
    """
    drawn: list[Stroke] = []
    wide = (1.0 + 0.8 * fullness) * 0.0072, (1.0 + 0.4 * fullness) * 0.0105
    for lung in (anatomy.right, anatomy.left):
        trunk = np.asarray(TRUNKS[lung.side])
        for i in range(4):
            thick = 0.0215 * (1.0 + 0.3 * fullness) * (1.0 - 0.13 * i)
            piece = trunk[None, None, i : i + 2]
            drawn += _pieces(anatomy, lung.sign, piece, thick, ((0, 2, 1.0),))
        bends = generator.normal(0.0, 0.13, size=(len(DIRECTIONS), 13, 8))
        angle = np.asarray(DIRECTIONS) + generator.normal(0.0, 0.08, size=len(DIRECTIONS))
        start = np.stack([HILA[lung.side]] * 4 + [trunk[i] for i in (1, 2, 3, 4)])
        for order, (paths, widths) in enumerate(_grow(start, angle, bends)):
            for column, share in enumerate(widths.tolist()):
                for part, width in ((slice(0, 3), wide[0]), (slice(3, None), wide[1])):
                    some = paths[part, column : column + 1]
                    drawn += _pieces(anatomy, lung.sign, some, width * share, CUTS[order])
    drawn.sort(key=lambda stroke: stroke[2])
    image = blur(strokes(anatomy.size, drawn), 0.005 * fullness * anatomy.size)
    return np.float32(0.21) * image * (_reach(anatomy.right) + _reach(anatomy.left))


def _reach(lung: Lung) -> Map:
    """Vessels fade towards the pleura."""
    cube = lung.radius * lung.radius * lung.radius
    return np.asarray(lung.chest * np.clip(1.3 * (1.0 - cube), 0.0, 1.0))
