"""Emphysema, fibrosis and a raised hemidiaphragm."""

from collections.abc import Iterator

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, rest_chest
from cxrtext.phantom.effects import Effect, pick
from cxrtext.phantom.shapes import Map, bump, ramp, texture


def emphysema(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Lucent lungs, most so above; the body is hyperinflated as well, so all of it changes."""
    grade = anatomy.body.state.emphysema
    strength = pick(generator, ((0, 0), (0.05, 0.075), (0.085, 0.12))[grade])[0]
    if not grade:
        return
    patches = texture(generator, anatomy.size, (5, 11), 0.6)
    for lung in (anatomy.right, anatomy.left):
        above = 0.35 + 0.65 * ramp(0.55 - lung.height, 0.8)
        delta = -np.float32(strength) * lung.chest * above * np.clip(1.0 + 0.4 * patches, 0.2, 1.9)
        yield Effect("Emphysema", lung.side, np.asarray(delta, np.float32), lung.chest)


def pruned(anatomy: Anatomy, marks: Map) -> Map:
    """Vessels with the fewer and thinner ones that emphysema leaves, [size, size]."""
    grade = anatomy.body.state.emphysema
    if not grade:
        return marks
    loss = np.zeros_like(anatomy.u)
    for lung in (anatomy.right, anatomy.left):
        above = 0.35 + 0.65 * ramp(0.6 - lung.height, 0.8)
        loss += lung.chest * above * ramp(lung.lateral - 0.12, 0.1)
    return marks * (1.0 - np.float32(0.36 * grade) * loss)


def fibrosis(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A net of fine lines in the bases and along the pleura."""
    grade = anatomy.body.state.fibrosis
    strength = pick(generator, ((0, 0), (0.085, 0.115), (0.15, 0.20))[grade])[0]
    reach = pick(generator, ((0, 0), (0.72, 0.78), (0.52, 0.64))[grade])[0]
    if not grade:
        return
    # Lines run where two smooth random fields are 0.
    net = np.maximum(
        bump(texture(generator, anatomy.size, (46, 80), 0.5), 0.34),
        bump(texture(generator, anatomy.size, (34, 62), 0.5), 0.28),
    )
    for lung in (anatomy.right, anatomy.left):
        low = ramp(
            lung.height - np.float32(reach) + 0.45 * np.clip(lung.radius - 0.75, 0, 0.3), 0.3
        )
        where = lung.chest * low * (0.35 + 0.65 * ramp(lung.radius - 0.5, 0.5))
        delta = np.float32(strength) * where * (net + 0.12)
        yield Effect("Fibrosis", lung.side, np.asarray(delta, np.float32), where)


def raised_dome(anatomy: Anatomy, _: np.random.Generator) -> Iterator[Effect]:
    """What lies between a raised diaphragm and where it was; the body itself is raised."""
    side = anatomy.body.state.diaphragm
    if not side:
        return
    lung = anatomy.right if side == "right" else anatomy.left
    lost = np.clip(rest_chest(anatomy, lung) - lung.chest, 0.0, 1.0)
    yield Effect("Elevated Hemidiaphragm", side, np.zeros_like(anatomy.u), lost)


CHRONIC = {"emphysema": emphysema, "fibrosis": fibrosis, "diaphragm": raised_dome}
"""What draws each axis of a state."""
