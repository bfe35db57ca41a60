"""Chests that are not frontal radiographs: laterals, and slices as computed tomography has them."""

import numpy as np

from cxrtext.phantom.foreign.canvas import band, clouds, disc, grid_of
from cxrtext.phantom.shapes import Map


def lateral(generator: np.random.Generator, size: int) -> Map:
    """A lateral chest, which faces left or right: spine behind, heart before, domes below."""
    g, r = grid_of(generator, size, turn=0.12), generator
    lean, bow = r.uniform(-0.1, 0.1), r.uniform(0.05, 0.2)
    # Horizontal places of the back and the breastbone, by height v in [-1, 1].
    back = r.uniform(0.6, 0.85) - bow * (g.v + r.uniform(-0.2, 0.3)) ** 2 + lean * g.v
    front = (
        -r.uniform(0.45, 0.85)
        - r.uniform(0, 0.3) * (g.v - 0.2)
        + r.uniform(0.1, 0.4) * (np.clip(-g.v - r.uniform(0.0, 0.3), 0, None))
    )
    skin_back, skin_front = back + r.uniform(0.1, 0.35), front - r.uniform(0.05, 0.25)
    if r.random() < 0.3:  # a breast
        skin_front = skin_front - r.uniform(0.1, 0.3) * np.exp(
            -(((g.v - r.uniform(0, 0.4)) / 0.25) ** 2)
        )
    body = band(g.u, skin_front, skin_back, 0.03)
    picture = body * r.uniform(0.4, 0.7)
    dome = r.uniform(0.3, 0.65) + r.uniform(0.1, 0.4) * (g.u + r.uniform(-0.1, 0.3)) ** 2
    dome = dome + r.uniform(-0.05, 0.25) * g.u
    top = -r.uniform(0.75, 1.0) + r.uniform(0.3, 0.8) * (g.u - r.uniform(0.1, 0.4)) ** 2
    inside = band(g.u, front, back, r.uniform(0.05, 0.2)) * band(g.v, top, dome, 0.1)
    picture -= inside * r.uniform(0.2, 0.45) * (1 + r.uniform(0.0, 0.25) * clouds(r, size))
    # Behind and below it is darker than above: the shoulders lie over the top.
    picture -= inside * r.uniform(0.0, 0.2) * (g.v + 0.5)
    shoulder = disc(
        g, (r.uniform(-0.1, 0.3), -0.95), (r.uniform(0.5, 0.9), r.uniform(0.3, 0.6)), 0.6
    )
    picture += shoulder * body * r.uniform(0.05, 0.3)
    heart = disc(
        g, (r.uniform(-0.45, -0.1), r.uniform(0.1, 0.4)), (r.uniform(0.25, 0.5), 0.35), 0.7
    )
    picture += heart * body * r.uniform(0.1, 0.35)
    below = band(g.v, dome, np.full_like(g.v, 3.0), r.uniform(0.04, 0.15))
    picture += below * body * r.uniform(0.05, 0.4)
    if r.random() < 0.4:  # gas in the stomach
        picture -= below * body * 0.3 * disc(g, (r.uniform(-0.3, 0.3), 0.75), (0.2, 0.12))
    width = r.uniform(0.08, 0.16)
    column = np.exp(-(((g.u - back + r.uniform(0.1, 0.2)) / width) ** 2))
    beads = 1 + r.uniform(0.1, 0.4) * np.sign(np.sin(g.v * r.uniform(20, 32) + r.uniform(0, 6)))
    picture += column * beads * body * r.uniform(0.03, 0.2)
    hilum = disc(g, (r.uniform(-0.05, 0.2), r.uniform(-0.3, 0.0)), (0.18, 0.18), 0.9)
    picture += hilum * r.uniform(0.0, 0.2)
    slope, ribs = r.uniform(0.3, 1.0), r.uniform(18, 28)
    picture += inside * r.uniform(0.0, 0.07) * np.sin(ribs * (g.v + slope * g.u**2))
    if r.random() < 0.5:  # an arm that is held up
        arm = band(g.u + r.uniform(-0.5, 0.5) * g.v, -0.3, 0.3, 0.1) * band(g.v, -2.0, -0.8, 0.1)
        picture += arm * r.uniform(0.1, 0.4)
    return picture[:, ::-1] if r.random() < 0.5 else picture


def axial(generator: np.random.Generator, size: int) -> Map:
    """A slice across the chest, in a window of the lung or of soft tissue, and of its table."""
    g, r = grid_of(generator, size, turn=0.08), generator
    wide, deep = r.uniform(0.75, 1.05), r.uniform(0.5, 0.85)
    body = disc(g, (0, 0), (wide, deep), edge=0.02)
    soft = r.uniform(0.35, 0.9)
    picture = body * soft
    for side in (-1, 1):
        place = (side * wide * r.uniform(0.4, 0.52), r.uniform(-0.08, 0.08))
        lung = disc(
            g, place, (wide * r.uniform(0.28, 0.42), deep * r.uniform(0.5, 0.75)), edge=0.02
        )
        level = r.uniform(0.0, 0.3)
        haze = r.uniform(0, 0.5) * np.clip(clouds(r, size), 0, None)
        vessels = r.uniform(0, 0.5) * (clouds(r, size, (12, 24, 40)) > 1.2)
        picture = picture * (1 - lung) + lung * (level + haze + vessels)
    heart = disc(g, (r.uniform(-0.05, 0.25), -0.1), (r.uniform(0.15, 0.35), 0.3), edge=0.04)
    picture = picture * (1 - heart) + heart * soft * r.uniform(0.95, 1.3)
    bone = disc(g, (0, deep * r.uniform(0.5, 0.75)), (0.14, 0.14), edge=0.03)
    picture += bone * r.uniform(0.1, 0.5)
    rim = np.exp(-(((np.hypot(g.u / wide, g.v / deep) - 0.88) / 0.04) ** 2))
    picture += rim * r.uniform(0, 0.4) * (clouds(r, size, (8, 16)) > 0.2)
    if r.random() < 0.5:
        picture += r.uniform(0.1, 0.4) * np.exp(-(((g.v - deep - 0.1 + 0.1 * g.u**2) / 0.02) ** 2))
    return picture


def coronal(generator: np.random.Generator, size: int) -> Map:
    """A slice from side to side: flat gray lungs with sharp edges in a bright body."""
    g, r = grid_of(generator, size, turn=0.06), generator
    wide = r.uniform(0.75, 1.3)
    body = band(g.u, -wide, wide, 0.02)
    neck = band(g.v, np.clip(np.abs(g.u) - 0.3, 0, 1) * r.uniform(0.2, 1) - 1.1, 3.0, 0.03)
    soft = r.uniform(0.6, 1.0)
    picture = body * neck * soft * (1 + r.uniform(0, 0.15) * clouds(r, size))
    if r.random() < 0.3:
        picture = np.maximum(picture, r.uniform(0.1, 0.4))
    floor, apex = r.uniform(0.25, 0.75), -r.uniform(0.7, 1.0)
    reach, level = r.uniform(0.6, 0.85) * min(wide, 1.0), r.uniform(0.05, 0.45)
    height = np.clip((g.v - apex) / (floor - apex), 0.001, 1)
    for side in (-1, 1):
        u = g.u * side
        inner = r.uniform(0.06, 0.14) + r.uniform(0, 0.3) * height * (side > 0 or r.random() < 0.4)
        outer = reach * height ** r.uniform(0.25, 0.5)
        dome = floor + r.uniform(0.1, 0.6) * np.clip(u - 0.3, -0.3, 1)
        lung = band(u, inner, outer, 0.02) * band(g.v, np.full_like(u, apex), dome, 0.02)
        vessels = r.uniform(0.2, 0.6) * (clouds(r, size, (16, 32, 48)) > r.uniform(1.2, 2.2))
        haze = r.uniform(0, 0.5) * np.clip(clouds(r, size) - r.uniform(0, 1.5), 0, None)
        picture = picture * (1 - lung) + lung * (level + np.maximum(haze, vessels))
        rib = np.exp(-(((u - outer - 0.06) / 0.03) ** 2)) * (np.sin(g.v * r.uniform(20, 32)) > 0.2)
        picture += rib * r.uniform(-0.2, 0.3) * body
    if r.random() < 0.5:
        trachea = band(g.u, -0.06, 0.06, 0.02) * band(g.v, -1.0, r.uniform(-0.4, 0.0), 0.03)
        picture = picture * (1 - trachea * r.uniform(0.3, 1))
    if r.random() < 0.4:
        beads = np.sin(g.v * r.uniform(16, 26)) > -0.3
        picture += band(g.u, -0.12, 0.12, 0.03) * beads * r.uniform(-0.2, 0.3)
    return picture
