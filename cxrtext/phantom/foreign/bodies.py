"""Other parts of the body, and other ways to look into it."""

import numpy as np

from cxrtext.phantom.foreign.canvas import band, clouds, disc, grid_of
from cxrtext.phantom.shapes import Map


def _bone(distance: Map, width: float) -> Map:
    """A bone along a line: dense at its walls, less so within."""
    inside = band(distance, -width, width, 0.04)
    wall = np.exp(-(((np.abs(distance) - width) / (0.35 * width)) ** 2))
    return 0.6 * inside + 0.4 * wall * band(distance, -1.2 * width, 1.2 * width, 0.04)


def limb(generator: np.random.Generator, size: int) -> Map:
    """One or two long bones in soft tissue."""
    g, r = grid_of(generator, size, turn=3.2), generator
    width = r.uniform(0.25, 0.7)
    bow = r.uniform(-0.15, 0.15) * g.v**2
    flare = r.uniform(-0.1, 0.2) * g.v**2
    picture = band(g.u - bow, -width - flare, width + flare, 0.05) * r.uniform(0.2, 0.5)
    for place in (0.0,) if r.random() < 0.5 else (-0.45 * width, 0.45 * width):
        thick = r.uniform(0.06, 0.2) * (1 + 0.4 * g.v**2)
        picture = picture + _bone(g.u - bow - place, 1.0) * 0
        shaft = band(g.u - bow - place, -thick, thick, 0.03)
        picture += shaft * r.uniform(0.2, 0.5)
        picture += r.uniform(0.0, 0.3) * np.exp(
            -(((np.abs(g.u - bow - place) - thick) / 0.03) ** 2)
        )
    return picture + 0.03 * clouds(r, size)


def joint(generator: np.random.Generator, size: int) -> Map:
    """A knee, an elbow or a shoulder: broad ends of bones that meet."""
    g, r = grid_of(generator, size, turn=3.2), generator
    width = r.uniform(0.4, 0.9)
    picture = band(g.u, -width, width, 0.08) * r.uniform(0.2, 0.45)
    gap = r.uniform(0.01, 0.05)
    for side in (-1, 1):
        away = np.clip(side * g.v, 0, None)
        thick = r.uniform(0.15, 0.3) + r.uniform(0.2, 0.5) * np.exp(-away / 0.2)
        end = band(g.u, -thick * 0.8, thick * 0.8, 0.04) * band(side * g.v, gap, 4.0, 0.03)
        picture = picture + end * r.uniform(0.2, 0.45)
    if r.random() < 0.4:
        picture = picture + 0.2 * disc(g, (r.uniform(-0.2, 0.2), -0.2), (0.25, 0.25))
    return picture + 0.03 * clouds(r, size)


def hand(generator: np.random.Generator, size: int) -> Map:
    """A palm with fingers, spread or side by side."""
    g, r = grid_of(generator, size, turn=3.2), generator
    soft = disc(g, (0, 0.35), (r.uniform(0.35, 0.5), r.uniform(0.4, 0.6)), edge=0.1)
    bones = np.zeros_like(soft)
    spread, joints = r.uniform(0.1, 0.4), r.uniform(14, 22)
    for number in range(5):
        angle = (number - 2) * spread * 0.6
        u = np.cos(angle) * g.u + np.sin(angle) * (g.v - 0.5) - 0.03 * (number - 2)
        v = -np.sin(angle) * g.u + np.cos(angle) * (g.v - 0.5)
        length = r.uniform(1.0, 1.4) - 0.12 * abs(number - 2) ** 1.5
        soft = np.maximum(soft, band(u, -0.1, 0.1, 0.04) * band(v, -length, 0.2, 0.05))
        shaft = band(u, -0.04, 0.04, 0.02) * band(v, -length + 0.08, 0.3, 0.03)
        bones = np.maximum(bones, shaft * (0.75 + 0.25 * np.sign(np.sin(joints * v))))
    return soft * r.uniform(0.2, 0.45) + bones * r.uniform(0.2, 0.5)


def skull(generator: np.random.Generator, size: int) -> Map:
    """A head from the front or the side: a bright rim, eye sockets or a jaw."""
    g, r = grid_of(generator, size, turn=0.2), generator
    wide, high = r.uniform(0.55, 0.85), r.uniform(0.65, 0.9)
    distance = np.hypot(g.u / wide, (g.v + 0.1) / high)
    picture = band(distance, -1.0, 1.0, 0.06) * r.uniform(0.35, 0.65)
    picture += np.exp(-(((distance - 0.94) / r.uniform(0.03, 0.07)) ** 2)) * r.uniform(0.2, 0.45)
    face = disc(g, (r.uniform(-0.3, 0.3), 0.6), (r.uniform(0.35, 0.55), 0.45))
    picture += face * r.uniform(0.05, 0.3)
    if r.random() < 0.6:
        for side in (-1, 1):
            picture -= 0.25 * disc(g, (side * 0.3, r.uniform(0.1, 0.25)), (0.2, 0.15))
        picture -= 0.2 * disc(g, (0, 0.4), (0.1, 0.18))
    picture += band(g.u, -0.25, 0.25, 0.1) * band(g.v, 0.7, 3.0, 0.1) * r.uniform(0.1, 0.4)
    return picture * (1 + 0.12 * clouds(r, size))


def _column(g_u: Map, g_v: Map, generator: np.random.Generator, width: float) -> Map:
    period = generator.uniform(14, 24)
    beads = 0.8 + 0.2 * np.sign(np.sin(period * g_v + generator.uniform(0, 6)))
    return np.asarray(band(g_u, -width, width, 0.04) * beads)


def abdomen(generator: np.random.Generator, size: int) -> Map:
    """A belly from the front: spine, flanks, hips, gas."""
    g, r = grid_of(generator, size, turn=0.15), generator
    half = r.uniform(0.75, 1.2)
    picture = band(g.u, -half, half, 0.08) * r.uniform(0.4, 0.7) * (1 - 0.25 * g.u**2)
    scoliosis = r.uniform(-0.08, 0.08) * np.sin(2 * g.v)
    picture = picture + _column(g.u - scoliosis, g.v, r, r.uniform(0.1, 0.16)) * r.uniform(0.1, 0.3)
    if r.random() < 0.7:
        for side in (-1, 1):
            place = (side * r.uniform(0.45, 0.6), r.uniform(0.55, 0.9))
            picture += disc(g, place, (0.38, 0.36), edge=0.2) * r.uniform(0.1, 0.3)
            hip = disc(g, (side * 0.5, 1.05), (0.14, 0.14), edge=0.2)
            picture += hip * r.uniform(0.0, 0.25)
    if r.random() < 0.4:  # the bases of the lungs stand over the picture's edge
        picture -= band(g.v, -3.0, -0.8 + 0.3 * np.abs(g.u), 0.1) * r.uniform(0.1, 0.3)
    for _ in range(r.integers(0, 14)):
        place = (r.uniform(-0.7, 0.7), r.uniform(-0.7, 0.7))
        gas = disc(g, place, (r.uniform(0.05, 0.2), r.uniform(0.05, 0.14)), edge=0.4)
        picture -= gas * r.uniform(0.05, 0.3)
    return picture + r.uniform(0.01, 0.06) * clouds(r, size)


def spine(generator: np.random.Generator, size: int) -> Map:
    """A spine from the front or the side, narrowly collimated or not."""
    g, r = grid_of(generator, size, turn=0.2), generator
    bend = r.uniform(-0.35, 0.35) * g.v**2
    width = r.uniform(0.12, 0.3)
    picture = np.full_like(g.u, r.uniform(0.2, 0.5)) - r.uniform(0, 0.2) * g.u**2
    picture += _column(g.u - bend, g.v, r, width) * r.uniform(0.15, 0.45)
    picture += np.exp(-(((g.u - bend - 1.4 * width) / 0.08) ** 2)) * r.uniform(0.0, 0.2)
    sides = r.uniform(0.35, 1.1)
    return picture * band(g.u, -sides, sides, 0.02) + 0.02 * clouds(r, size)


def breast(generator: np.random.Generator, size: int) -> Map:
    """A mammogram: half a dome at one edge, black beside."""
    g, r = grid_of(generator, size, turn=0.2), generator
    dome = disc(g, (-1, r.uniform(-0.2, 0.2)), (r.uniform(0.8, 1.5), r.uniform(0.6, 1.0)), edge=0.1)
    picture = dome * (r.uniform(0.3, 0.6) + r.uniform(0.1, 0.25) * clouds(r, size))
    muscle = band(g.v - g.u * r.uniform(0.5, 1.5), -4.0, -r.uniform(0.0, 0.6), 0.05)
    picture = picture + muscle * dome * r.uniform(0, 0.4)
    return picture[:, ::-1] if r.random() < 0.5 else picture


def ultrasound(generator: np.random.Generator, size: int) -> Map:
    """A fan of speckle on black."""
    g, r = grid_of(generator, size, turn=0.05), generator
    top = r.uniform(-1.1, -0.8)
    radius, angle = np.hypot(g.u, g.v - top), np.abs(np.arctan2(g.u, g.v - top))
    fan = band(radius, r.uniform(0.05, 0.4), r.uniform(1.4, 1.9), 0.02)
    fan = fan * band(angle, -1.0, r.uniform(0.4, 0.8), 0.02)
    speckle = np.abs(clouds(r, size, (8, 24, 48))) * r.uniform(0.2, 0.5)
    hole = disc(g, (r.uniform(-0.3, 0.3), r.uniform(-0.1, 0.5)), (r.uniform(0.1, 0.4), 0.2))
    return fan * (r.uniform(0.1, 0.3) + speckle) * (1 - 0.8 * hole)


def brain(generator: np.random.Generator, size: int) -> Map:
    """A slice of a head: an oval on black, with a rim and dark spaces within."""
    g, r = grid_of(generator, size, turn=0.2), generator
    distance = np.hypot(g.u / r.uniform(0.55, 0.8), g.v / r.uniform(0.7, 0.9))
    picture = band(distance, -1.0, 1.0, 0.03) * (r.uniform(0.3, 0.6) + 0.08 * clouds(r, size))
    picture += np.exp(-(((distance - 0.95) / 0.04) ** 2)) * r.uniform(-0.2, 0.5)
    for side in (-1, 1):
        hole = disc(g, (side * 0.12, r.uniform(-0.1, 0.1)), (0.08, 0.28), edge=0.3)
        picture -= hole * r.uniform(0.0, 0.3)
    return np.clip(picture, 0, 1)
