"""Drawn pictures that are no frontal chest: what finds its way into archives of them.

Crude on purpose: they teach and test the check of what a picture is
(`cxrtext.images.frontal`), not the reading of anything in them.
"""

from collections.abc import Callable, Mapping

import numpy as np

from cxrtext.phantom.foreign import bodies, chests, pages
from cxrtext.phantom.shapes import Map

Drawing = Callable[[np.random.Generator, int], Map]
"""Draws a picture, [size, size] in [0, 1], bright where rays are stopped."""

LATERALS: Mapping[str, Drawing] = {"lateral": chests.lateral}
FOREIGN: Mapping[str, Drawing] = {
    "axial slice": chests.axial,
    "coronal slice": chests.coronal,
    "limb": bodies.limb,
    "hand": bodies.hand,
    "joint": bodies.joint,
    "skull": bodies.skull,
    "abdomen": bodies.abdomen,
    "spine": bodies.spine,
    "breast": bodies.breast,
    "ultrasound": bodies.ultrasound,
    "brain": bodies.brain,
    "text": pages.text,
    "screen": pages.screen,
    "noise": pages.noise,
    "gradient": pages.gradient,
    "scene": pages.scene,
    "digit": pages.digit,
}
"""What each picture shows, and how it is drawn."""


def draw_foreign(kind: str, generator: np.random.Generator, size: int) -> Map:
    """Draw a picture of a kind of ``LATERALS`` or ``FOREIGN``, [size, size] in [0, 1]."""
    drawing = LATERALS.get(kind) or FOREIGN[kind]
    return np.clip(drawing(generator, size), 0.0, 1.0).astype(np.float32)
