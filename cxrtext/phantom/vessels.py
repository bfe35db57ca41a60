"""Branching lung vessels."""

from collections.abc import Sequence
from math import cos, sin

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.anatomy import Anatomy, Lung
from cxrtext.phantom.shapes import Map, Stroke, blur, strokes

HILA = {"right": (0.085, 0.43), "left": (0.088, 0.41)}
"""Where the vessels of each lung start: distance from the midline, and v."""

DIRECTIONS = (-1.35, -0.95, -0.5, -0.1, 0.3, 0.65, 1.0, 1.3)
"""Angles at which they leave it, from lateral, downwards positive."""

Point = tuple[float, float]


def _branches(
    start: Point, angle: float, width: float, bends: NDArray[np.float64]
) -> list[tuple[list[Point], float]]:
    """Grow one vessel and what branches off it.

    Args:
        start: Its origin: distance from the midline, and v.
        angle: Its direction.
        width: Its width.
        bends: Random changes of direction, [vessels, 8], used up row by row.

    Returns:
        Paths with their widths.
    """
    lines: list[tuple[list[Point], float]] = []
    pending = [(start, angle, width, 0)]
    for row in bends:
        if not pending:
            break
        (a, v), angle, width, order = pending.pop(0)
        length = 0.020 if order else 0.026
        path = [(a, v)]
        for step, bend in enumerate(row.tolist()):
            angle += bend
            a, v = a + length * cos(angle), v + length * sin(angle)
            path.append((a, v))
            if step in (2, 4, 6) and order < 2:
                turn = (0.55 + bend) * (-1) ** (step // 2 + order)
                pending.append(((a, v), angle + turn, width * 0.62, order + 1))
        lines.append((path[:5], width))
        lines.append((path[4:], width * 0.72))
    return lines


def _to_strokes(
    anatomy: Anatomy, sign: float, lines: Sequence[tuple[list[Point], float]]
) -> list[Stroke]:
    pixels = anatomy.size * anatomy.body.zoom
    points = np.asarray([point for path, _ in lines for point in path])
    columns, rows = anatomy.to_pixels(sign * points[:, 0], points[:, 1])
    where = iter(zip(columns.tolist(), rows.tolist(), strict=True))
    return [
        ([next(where) for _ in path], thick * pixels, min(0.9, 0.22 + thick * 65.0))
        for path, thick in lines
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
    for lung in (anatomy.right, anatomy.left):
        lines: list[tuple[list[Point], float]] = []
        for number, direction in enumerate(DIRECTIONS):
            upper = number < 3
            width = (0.0068 if upper else 0.0092) * (1.0 + fullness * (0.8 if upper else 0.4))
            bends = generator.normal(0.0, 0.13, size=(13, 8))
            angle = direction + float(generator.normal(0.0, 0.08))
            lines += _branches(HILA[lung.side], angle, width, bends)
        drawn += _to_strokes(anatomy, lung.sign, lines)
    drawn.sort(key=lambda stroke: stroke[2])
    image = blur(strokes(anatomy.size, drawn), 0.005 * fullness * anatomy.size)
    return 0.17 * image * (_reach(anatomy.right) + _reach(anatomy.left))


def _reach(lung: Lung) -> Map:
    """Vessels fade towards the pleura."""
    return np.asarray(lung.chest * np.clip(1.25 * (1.0 - lung.radius**3.0), 0.0, 1.0))
