"""Tubes and lines: denser than any finding, but thin."""

from collections.abc import Iterator

import numpy as np

from cxrtext.phantom.anatomy import Anatomy
from cxrtext.phantom.findings import Effect, Path, drawn, pick
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.state import side_of
from cxrtext.phantom.tissue import CARINA

LINES: dict[str, Path] = {
    "right ij": [(-0.085, -0.06), (-0.068, 0.06), (-0.052, 0.18), (-0.050, 0.30)],
    "left ij": [(0.085, -0.06), (0.066, 0.06), (0.045, 0.17), (-0.02, 0.235), (-0.049, 0.29)],
    "right picc": [(-0.56, 0.38), (-0.47, 0.20), (-0.36, 0.135), (-0.20, 0.145), (-0.05, 0.26)],
    "left picc": [(0.56, 0.38), (0.47, 0.20), (0.36, 0.135), (0.20, 0.145), (-0.04, 0.28)],
}
"""The ways of central lines to the superior vena cava, in body coordinates."""


def _wire(anatomy: Anatomy, path: Path, width: float) -> Map:
    """One line of a width in body coordinates."""
    return drawn(anatomy, [(path, width)])


def _device(finding: str, part: str, delta: Map) -> Effect:
    """A device with its mask spread by a pixel, so that a thin line's is not cut to pieces."""
    wide = np.pad(delta, 1)
    grown = np.max([wide[1:-1, :-2], wide[1:-1, 2:], wide[:-2, 1:-1], wide[2:, 1:-1]], axis=0)
    return Effect(finding, part, np.asarray(delta, np.float32), grown, over_all=True)


def tube(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """An endotracheal tube: its tip some 4 cm above the carina, or in the right bronchus."""
    side, depth = pick(generator, (-0.004, 0.004), (-0.012, 0.012))
    turn = 0.5 * anatomy.body.turn
    path = [(0.0, -0.15), (turn + side, 0.05)]
    if anatomy.body.state.tube == "low":
        path += [(turn - 0.010, 0.30), (turn - 0.028, 0.355), (turn - 0.050, 0.385 + depth)]
    else:
        path += [(turn + side - 0.004, CARINA - 0.105 + depth)]
    # A faint wall all over, and a dense stripe along one side.
    stripe = [(u + 0.0064, v) for u, v in path]
    delta = 0.07 * _wire(anatomy, path, 0.017) + 0.15 * _wire(anatomy, stripe, 0.0036)
    yield _device("Endotracheal Tube", "trachea", delta)


def line(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    entry = anatomy.body.state.line
    jitter = generator.normal(0.0, 0.006, size=(6, 2)).tolist()
    tip = (-0.052 + 0.5 * anatomy.body.turn, 0.40 + float(generator.uniform(-0.03, 0.05)))
    path = [
        (u + du, v + dv) for (u, v), (du, dv) in zip([*LINES[entry], tip], jitter, strict=False)
    ]
    yield _device("Central Line", side_of(entry), 0.19 * _wire(anatomy, path, 0.0055))
