"""A finding as what it adds to the attenuation, and how faint it is made.

A finding changes nothing outside its box but what scattered light and the edge filter carry there.
The exceptions change the body itself: cardiomegaly, emphysema (hyperinflation), a raised dome, and
the shift of the mediastinum by much fluid or a tension pneumothorax.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.anatomy import Anatomy, Lung
from cxrtext.phantom.shapes import Map, strokes

Path = list[tuple[float, float]]
EDGE = 0.15  # a finding's mask is where its extent passes this share of its maximum


@dataclass(frozen=True, slots=True)
class Effect:
    finding: str  # its name, as in the boxes and labels
    part: str  # where: a lobe, "right", "left", "heart", "trachea", "sternum" or "hiatus"
    delta: Map  # what it adds to the attenuation, [size, size]
    extent: Map  # what its box surrounds, [size, size], compared with a part of its maximum
    over_all: bool = False  # whether heart and mediastinum do not hide it
    # From 0, the mildest of its kind, to 1; the difficulty leaves severe ones seen.
    severity: float = 0.0

    def mask(self) -> NDArray[np.bool_]:
        """Where the finding is, [size, size]."""
        return np.asarray(self.extent > EDGE * float(self.extent.max()))

    def box(self) -> tuple[float, float, float, float]:
        """x, y, w, h in pixels around the mask."""
        inside = self.mask()
        columns, rows = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
        x, y = int(columns[0]), int(rows[0])
        return float(x), float(y), float(columns[-1] + 1 - x), float(rows[-1] + 1 - y)


def pick(generator: np.random.Generator, *ranges: tuple[float, float]) -> list[float]:
    """One number of each range."""
    return [float(generator.uniform(low, high)) for low, high in ranges]


def in_lung(lung: Lung, path: Path) -> Path:
    """A path in distance from the midline and v, in body coordinates."""
    return [(lung.sign * across, v) for across, v in path]


def body_path(anatomy: Anatomy, path: Path) -> Path:
    """A path in body coordinates, as columns and rows."""
    points = np.asarray(path, np.float64)
    columns, rows = anatomy.to_pixels(points[:, 0], points[:, 1])
    return list(zip(columns.tolist(), rows.tolist(), strict=True))


def drawn(anatomy: Anatomy, lines: Sequence[tuple[Path, float]]) -> Map:
    """Lines in body coordinates, a path and a width each, [size, size] in [0, 1]."""
    pixels = anatomy.size * anatomy.body.zoom
    return strokes(
        anatomy.size, [(body_path(anatomy, path), width * pixels, 1.0) for path, width in lines]
    )


def grown(image: Map, size: int) -> Map:
    """The image spread by a small margin, so that a thin line's mask is not cut to pieces."""
    reach = max(1, round(0.004 * size))
    spread = np.array(image)
    for axis in (0, 1):
        before = np.moveaxis(spread.copy(), axis, 0)
        after = np.moveaxis(spread, axis, 0)
        np.maximum(after[reach:], before[:-reach], out=after[reach:])
        np.maximum(after[:-reach], before[reach:], out=after[:-reach])
    return spread
