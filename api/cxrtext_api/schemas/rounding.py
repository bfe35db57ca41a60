"""Numbers as answers give them."""

from collections.abc import Iterable

from cxrtext.client.answers.parts import Quad

DIGITS = 6
"""Decimals of a number in an answer."""


def rounded(value: float) -> float:
    """A number with as many decimals as answers have."""
    return round(float(value), DIGITS)


def quad(box: tuple[float, float, float, float]) -> Quad:
    """A box with rounded numbers."""
    x, y, width, height = box
    return rounded(x), rounded(y), rounded(width), rounded(height)


def grid_rows(grid: Iterable[Iterable[float]]) -> list[list[float]]:
    """A grid [h, w] as rows of rounded numbers."""
    return [[rounded(value) for value in row] for row in grid]
