"""Drawn pictures that are no frontal chest: what finds its way into archives of them.

Crude on purpose: they teach and test the check of what a picture is
(`cxrtext.images.frontal`), not the reading of anything in them.
"""

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from cxrtext.phantom.shapes import Map, texture

Edge = float | Map


@dataclass(frozen=True, slots=True)
class Grid:
    """Coordinates of every pixel, [size, size], about −1 to 1: u to the right, v down."""

    u: NDArray[np.float64]
    v: NDArray[np.float64]


def grid_of(generator: np.random.Generator, size: int, turn: float = 0.1) -> Grid:
    """A grid that is turned by up to ``turn`` radians, moved and scaled a little."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = np.meshgrid(axis, axis)
    angle = generator.uniform(-turn, turn)
    x, y = x + generator.uniform(-0.12, 0.12), y + generator.uniform(-0.12, 0.12)
    across, down = generator.uniform(0.85, 1.15, 2)
    turned = np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y
    return Grid(turned[0] * across, turned[1] * down)


def band(values: Map, low: Edge, high: Edge, edge: float) -> Map:
    """1 between two borders, 0 beyond, with soft edges of a width."""
    return np.asarray(_step((values - low) / edge) * _step((high - values) / edge))


def disc(
    grid: Grid, center: tuple[float, float], radii: tuple[float, float], edge: float = 0.15
) -> Map:
    """An ellipse, 1 inside; ``edge`` is the share of its radius over which it ends."""
    distance = np.hypot((grid.u - center[0]) / radii[0], (grid.v - center[1]) / radii[1])
    return _step((1 - distance) / edge)


def clouds(
    generator: np.random.Generator, size: int, cells: tuple[int, ...] = (4, 8, 16, 32)
) -> Map:
    """Smooth noise of mean 0 and deviation 1."""
    return texture(generator, size, cells)


def _step(x: Map) -> Map:
    smooth = np.clip(x + 0.5, 0, 1)
    return np.asarray(smooth * smooth * (3 - 2 * smooth))


# Chests that are not frontal radiographs


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


# Other parts of the body, and other ways to look into it


def limb(generator: np.random.Generator, size: int) -> Map:
    """One or two long bones in soft tissue."""
    g, r = grid_of(generator, size, turn=3.2), generator
    width = r.uniform(0.25, 0.7)
    bow = r.uniform(-0.15, 0.15) * g.v**2
    flare = r.uniform(-0.1, 0.2) * g.v**2
    picture = band(g.u - bow, -width - flare, width + flare, 0.05) * r.uniform(0.2, 0.5)
    for place in (0.0,) if r.random() < 0.5 else (-0.45 * width, 0.45 * width):
        thick = r.uniform(0.06, 0.2) * (1 + 0.4 * g.v**2)
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


# What no ray has made: pages, screens, noise, and scenes as a camera sees them

_LETTERS = list(string.ascii_letters + string.digits)


def _array(canvas: Image.Image) -> Map:
    return np.asarray(canvas, dtype=np.float32) / 255


def _words(generator: np.random.Generator, count: int) -> str:
    letters = generator.choice(_LETTERS, (count, 12))
    return " ".join("".join(word[: generator.integers(2, 12)]) for word in letters)


def text(generator: np.random.Generator, size: int) -> Map:
    """A page of text, black on white or white on black."""
    canvas, r = Image.new("L", (size, size), 255), generator
    draw = ImageDraw.Draw(canvas)
    margin, step = int(r.uniform(0.02, 0.2) * size), int(max(9, r.uniform(0.07, 0.16) * size))
    for top in range(margin, size - step, step):
        if r.random() < 0.85:
            draw.text((margin, top), _words(r, int(r.integers(1, 9))), fill=int(r.integers(0, 120)))
    page = _array(canvas)
    return 1 - page if r.random() < 0.4 else page


def screen(generator: np.random.Generator, size: int) -> Map:
    """Windows, tables, bars and plots."""
    r = generator
    canvas = Image.new("L", (size, size), int(r.integers(0, 256)))
    draw = ImageDraw.Draw(canvas)
    for _ in range(r.integers(3, 16)):
        x, y = (int(one) for one in r.integers(0, size, 2))
        w, h = (int(one) for one in r.integers(size // 16, size, 2))
        fill, line = (int(one) for one in r.integers(0, 256, 2))
        draw.rectangle([x, y, x + w, y + h], fill=fill if r.random() < 0.7 else None, outline=line)
        if r.random() < 0.5:
            draw.text((x + 2, y + 2), _words(r, 3), fill=line)
    if r.random() < 0.4:
        heights = np.cumsum(r.normal(0, 0.06, size)) * size + size / 2
        draw.line(
            [(i, float(y)) for i, y in enumerate(heights)], fill=int(r.integers(256)), width=2
        )
    return _array(canvas)


def noise(generator: np.random.Generator, size: int) -> Map:
    """White, blurred or striped noise."""
    r = generator
    choice = r.integers(4)
    if choice == 0:
        return r.random((size, size))
    if choice == 1:
        first = int(2 ** r.uniform(1, 5))
        return 0.5 + r.uniform(0.1, 0.4) * clouds(r, size, (first, 2 * first))
    if choice == 2:
        rows = np.repeat(r.random((size, 1)), size, axis=1)
        return rows if r.random() < 0.5 else rows.T
    return (r.random((size, size)) < r.uniform(0.02, 0.5)).astype(np.float32)


def gradient(generator: np.random.Generator, size: int) -> Map:
    """A ramp, a spot, steps or one gray, with a little noise or none."""
    g, r = grid_of(generator, size, turn=3.2), generator
    choice = r.integers(5)
    if choice == 0:
        values = g.u
    elif choice == 1:
        values = np.hypot(g.u, g.v) * r.choice([-1, 1])
    elif choice == 2:
        values = np.floor(g.u * r.integers(2, 8))
    elif choice == 3:
        values = np.sign(np.sin(g.u * r.uniform(3, 20)) * np.sin(g.v * r.uniform(3, 20)))
    else:
        values = np.zeros_like(g.u)
    spread = np.ptp(values) or 1.0
    scaled = (values - values.min()) / spread * r.uniform(0.2, 1) + r.uniform(0, 0.3)
    grain = float(r.choice([0.0, 0.0, 0.02, 0.1]))
    return np.asarray(scaled + grain * r.normal(size=scaled.shape))


def scene(generator: np.random.Generator, size: int) -> Map:
    """Shaded things before a ground, as photographs have them; mirror images are as likely."""
    g, r = grid_of(generator, size, turn=0.5), generator
    picture = r.uniform(0.2, 0.8) + r.uniform(-0.3, 0.3) * g.v + r.uniform(0, 0.2) * clouds(r, size)
    if r.random() < 0.5:
        horizon = r.uniform(-0.5, 0.6) + 0.1 * clouds(r, size, (2, 4))
        picture = np.where(g.v > horizon, picture * r.uniform(0.3, 1.5), picture)
    for _ in range(r.integers(1, 8)):
        place, radii = tuple(r.uniform(-0.9, 0.9, 2)), tuple(r.uniform(0.1, 0.8, 2))
        thing = disc(g, place, radii, edge=r.uniform(0.03, 0.3))
        shade = r.uniform(0, 1) + r.uniform(-0.4, 0.4) * g.u + r.uniform(0, 0.2) * clouds(r, size)
        if r.random() < 0.4:
            bar = np.abs(g.u - place[0]) < radii[0]
            thing = (bar & (np.abs(g.v - place[1]) < radii[1])).astype(float)
        picture = picture * (1 - thing) + thing * shade
    return picture


def digit(generator: np.random.Generator, size: int) -> Map:
    """A letter or a few, large, white on black or black on white."""
    r = generator
    small = Image.new("L", (16, 16), 0)
    ImageDraw.Draw(small).text((5, 2), str(r.choice(_LETTERS)), fill=255)
    box = small.getbbox() or (0, 0, 16, 16)
    pad = int(r.integers(0, 8))
    cut = small.crop((box[0] - pad, box[1] - pad, box[2] + pad, box[3] + pad))
    page = _array(cut.rotate(r.uniform(-20, 20)).resize((size, size), Image.Resampling.BICUBIC))
    return 1 - page if r.random() < 0.3 else page


Drawing = Callable[[np.random.Generator, int], Map]
"""Draws a picture, [size, size] in [0, 1], bright where rays are stopped."""

LATERALS: Mapping[str, Drawing] = {"lateral": lateral}
FOREIGN: Mapping[str, Drawing] = {
    "axial slice": axial,
    "coronal slice": coronal,
    "limb": limb,
    "hand": hand,
    "joint": joint,
    "skull": skull,
    "abdomen": abdomen,
    "spine": spine,
    "breast": breast,
    "ultrasound": ultrasound,
    "brain": brain,
    "text": text,
    "screen": screen,
    "noise": noise,
    "gradient": gradient,
    "scene": scene,
    "digit": digit,
}
"""What each picture shows, and how it is drawn."""


def draw_foreign(kind: str, generator: np.random.Generator, size: int) -> Map:
    """Draw a picture of a kind of ``LATERALS`` or ``FOREIGN``, [size, size] in [0, 1]."""
    drawing = LATERALS.get(kind) or FOREIGN[kind]
    return np.clip(drawing(generator, size), 0.0, 1.0).astype(np.float32)
