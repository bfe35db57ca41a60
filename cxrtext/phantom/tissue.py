"""Attenuation of a body: chest wall, lungs, heart, trachea, abdomen, vessels, and bones."""

from collections.abc import Iterator

import numpy as np

from cxrtext.phantom.anatomy import FAT, Anatomy, Floats
from cxrtext.phantom.shapes import Map, Stroke, blob, bump, ramp, strokes, texture

CARINA = 0.335  # v of the lower end of the trachea


def soft_tissue(anatomy: Anatomy, generator: np.random.Generator) -> Map:
    """Attenuation of everything but bones and lung vessels, [size, size]."""
    body, u, v = anatomy.body, anatomy.u, anatomy.v
    a = np.abs(u)
    rim = np.sqrt(np.clip((body.chest + FAT + 0.03 - a) * np.float32(1 / 0.14), 0.0, 1.0))
    thick = 0.88 + 1.1 * FAT + np.float32(0.14) * v
    total = thick * (0.58 + 0.40 * np.maximum(rim, ramp(0.25 - v, 0.2)))
    # In a turned chest, one lung lies behind more muscle than the other.
    total += np.float32(body.turn * 2.2) * u * np.float32(1.0 / body.chest)
    belly = _belly(anatomy)
    grain = texture(generator, anatomy.size, (11, 23, 47), 0.8)
    radius = anatomy.lungs["left"].radius
    depth = np.sqrt(np.clip(1.0 - radius * radius, 0.0, 1.0))
    lucency = (
        0.17 + 0.34 * depth + 0.05 * ramp(0.45 - anatomy.lungs["left"].height, 0.9)
    ) * anatomy.open
    total -= (anatomy.lungs["right"].chest + anatomy.lungs["left"].chest) * (
        lucency - np.float32(0.017) * grain
    )
    total += belly - _stomach(anatomy, generator)
    covered = np.clip(belly * 8.0, 0.0, 1.0)
    total += (0.13 + 0.05 * ramp(0.4 - v, 0.3)) * anatomy.middle * (1.0 - 0.75 * covered)
    heart = 0.15 * anatomy.heart + 0.32 * anatomy.heart_depth
    total += heart * (1.0 - 0.9 * anatomy.middle) * (1.0 - covered)
    # Behind the breastbone the heart's upper border does not show.
    low = ramp(v - np.float32(body.domes[1] - 0.24), 0.26)
    total += 0.10 * low * anatomy.middle * (1.0 - covered)
    across = np.abs(u - np.float32(0.5 * body.turn) + 0.012 * ramp(v - 0.2, 0.22))
    trachea = ramp(0.0175 - across, max(0.007, 1.2 * anatomy.pixel)) * ramp(CARINA - v, 0.05)
    total -= (0.17 - 0.07 * ramp(v - 0.30, 0.1)) * trachea
    return np.asarray(total * anatomy.trunk, np.float32)


def _belly(anatomy: Anatomy) -> Map:
    """Everything below the domes.

    There is lung behind and in front of the upper part of a dome, so it thickens gradually.
    """
    belly = np.zeros_like(anatomy.v)
    side = ramp(anatomy.body.chest + 0.05 - np.abs(anatomy.u), 0.16)
    for lung in anatomy.lungs.values():
        below = anatomy.v - lung.floor
        edge = ramp(below, max(0.012, 1.4 * anatomy.pixel)) * ramp(lung.lateral, 0.07)
        deep = np.clip(below * np.float32(1 / 0.17), 0.0, 1.0)
        thick = 0.13 + (0.21 if lung.side == "right" else 0.17) * deep * (2.0 - deep)
        belly += edge * side * thick
    return belly


def _stomach(anatomy: Anatomy, generator: np.random.Generator) -> Map:
    """The gas bubble below the left dome: rounded above, cut off by the fluid below."""
    strength, wide, drop = generator.uniform((0.4, 0.85, 0.02), (1.1, 1.2, 0.07)).tolist()
    du = (anatomy.u - np.float32(0.145)) * np.float32(1.0 / (0.062 * wide))
    dv = (anatomy.v - np.float32(anatomy.body.domes[1] + 0.05)) * np.float32(1.0 / 0.034)
    inside = ramp(1.0 - np.sqrt(du * du + dv * dv), 0.55)
    level = ramp(drop * 0.4 + 0.012 - dv * 0.034, 0.02)
    edge = ramp(anatomy.v - anatomy.lungs["left"].floor, max(0.012, 1.4 * anatomy.pixel))
    return np.asarray(np.float32(0.17 * strength) * inside * level * edge)


HILA = {"right": (0.085, 0.43), "left": (0.088, 0.41)}
"""Where the vessels of each lung start: distance from the midline, and v."""

DIRECTIONS = (-1.35, -0.95, -0.5, -0.1, 0.3, 0.65, 1.0, 1.3)
"""Angles at which vessels leave, from lateral, downwards positive."""


def _grown(start: Floats, angle: Floats, bends: Floats, step: float) -> tuple[Floats, Floats]:
    """Grow vessels from their starts [N, 2]: paths [N, 9, 2] and headings [N, 8]."""
    heading = angle[:, None] + np.cumsum(bends, axis=1)
    ways = step * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    path = np.concatenate([start[:, None], start[:, None] + np.cumsum(ways, axis=1)], axis=1)
    return path, heading


def _strokes(anatomy: Anatomy, sign: float, paths: Floats, widths: Floats) -> list[Stroke]:
    """Draw paths [N, K, 2] with widths [N] as tapering pieces."""
    pixels = anatomy.size * anatomy.body.zoom
    points = np.stack(anatomy.to_pixels(sign * paths[..., 0], paths[..., 1]), axis=-1)
    return [
        (line[first:last], thick * width * pixels, min(0.85, 0.16 + thick * width * 52.0))
        for line, width in zip(points.tolist(), widths.tolist(), strict=True)
        for first, last, thick in ((0, 3, 1.0), (2, 5, 0.76), (4, 9, 0.52))
    ]


def vessels(anatomy: Anatomy, generator: np.random.Generator, fullness: float) -> Map:
    """Attenuation of the hila and the lung vessels, [size, size].

    ``fullness`` widens them, the upper ones most; 0 is normal.
    """
    drawn: list[Stroke] = []
    reach: Map = np.zeros_like(anatomy.u)
    hila: Map = np.zeros_like(anatomy.u)
    count = len(DIRECTIONS)
    widths = np.full(count, (1.0 + 0.4 * fullness) * 0.0115)
    widths[:3] = (1.0 + 0.8 * fullness) * 0.0072
    for side, lung in anatomy.lungs.items():
        angle = np.asarray(DIRECTIONS) + generator.normal(0.0, 0.08, size=count)
        bends = generator.normal(0.0, 0.13, size=(count, 4, 8))
        paths, heading = _grown(np.tile(HILA[side], (count, 1)), angle, bends[:, 0], 0.026)
        drawn += _strokes(anatomy, lung.sign, paths, widths)
        # Branches leave after steps 1, 3 and 5, to alternating sides.
        for number, (way, share) in enumerate(((1.0, 0.61), (-1.0, 0.51), (1.0, 0.41)), 1):
            turned = heading[:, 2 * number - 1] + way * 0.55
            branches, _ = _grown(paths[:, 2 * number], turned, bends[:, number], 0.021)
            drawn += _strokes(anatomy, lung.sign, branches, share * widths)
        # They fade towards the pleura.
        reach += lung.chest * np.clip(1.3 * (1.0 - lung.radius**3), 0.0, 1.0)
        hila += blob(lung.lateral, anatomy.v, HILA[side], (0.026, 0.048))
    drawn.sort(key=lambda stroke: stroke[2])
    marks = 0.21 * strokes(anatomy.size, drawn) * reach + 0.10 * (1.0 + 0.3 * fullness) * hila
    return np.asarray(marks * (1.0 - 0.6 * anatomy.heart_depth) * anatomy.open, np.float32)


RIBS = 11
REACH = (0.56, 0.80, 0.92, 0.975, 1.0, 1.0, 1.0, 1.0, 1.0, 0.99, 0.97)
"""How far each rib reaches, as a share of the chest's half width."""


def _rib_paths(anatomy: Anatomy, turns: Floats, count: int) -> Iterator[tuple[Floats, Floats]]:
    """The middle lines of the upper ribs, tilted ellipses from the front: u and v, [K] each.

    ``turns`` [K] are angles around the chest, 0 at the spine, π at the breastbone.
    """
    body = anatomy.body
    for number in reversed(range(count)):
        level = body.apex + 0.036 + 0.075 * number
        drop = 0.235 * (0.66 + 0.10 * min(number, 7))
        u = (body.chest + 0.010) * REACH[number] * np.sin(turns) ** 0.9
        # A rib rises a little from its joint before it falls.
        rise = 0.010 * np.sin(2.0 * np.minimum(turns, 1.57))
        v = level + drop * (1.0 - np.cos(turns)) / 2.0 - rise
        for sign in (-1.0, 1.0):
            yield sign * u + body.turn * np.clip(turns - np.pi / 2, 0.0, 1.6), v


def _bone(anatomy: Anatomy, u: Floats, v: Floats, width: float) -> Iterator[Stroke]:
    """A long bone along a line: the cortex is denser than the marrow."""
    points = np.stack(anatomy.to_pixels(u, v), axis=1).tolist()
    pixels = width * anatomy.size * anatomy.body.zoom
    for share, strength in ((1.0, 0.55), (0.87, 1.0), (0.55, 0.8)):
        yield points, share * pixels, strength


def _ribs(anatomy: Anatomy) -> Map:
    """Posterior arcs falling to the sides, and broader, fainter anterior ones."""
    behind = _rib_paths(anatomy, np.linspace(0.05, 1.66, 15), RIBS)
    ahead = _rib_paths(anatomy, np.linspace(1.66, 2.46, 9), 7)
    back = [stroke for path in behind for stroke in _bone(anatomy, *path, 0.023)]
    front = [stroke for path in ahead for stroke in _bone(anatomy, *path, 0.027)]
    away = np.abs(anatomy.u)
    deep = np.maximum(anatomy.lungs["right"].chest, anatomy.lungs["left"].chest)
    fade = (0.62 + 0.38 * deep) * (1.0 - 0.35 * anatomy.middle)
    total = np.float32(0.125) * strokes(anatomy.size, back) * fade
    front_bones = strokes(anatomy.size, front) * (0.35 + 0.65 * deep)
    # The anterior ribs fade where bone gives way to cartilage; the short upper ones do not.
    bone = np.maximum(ramp(away - 0.255, 0.13), ramp(0.34 - anatomy.v, 0.18))
    faded = np.float32(0.078) * front_bones * (0.45 + 0.55 * bone)
    return np.asarray(total * ramp(away - 0.034, 0.04) + faded)


def _clavicles(anatomy: Anatomy) -> Map:
    """Two S-shaped collarbones; rotation moves their inner ends."""
    rise = 0.055 if anatomy.body.anteroposterior else 0.038
    s = np.linspace(0.0, 1.0, 18)
    v = 0.186 - rise * s - 0.019 * np.sin(2.1 * np.pi * s)
    drawn: list[Stroke] = []
    for sign in (-1.0, 1.0):
        u = sign * (0.028 + 0.41 * s) + anatomy.body.turn * (1.8 - s)
        drawn += _bone(anatomy, u, v, 0.027)
    return np.float32(0.165) * strokes(anatomy.size, drawn)


def _spine(anatomy: Anatomy) -> Map:
    """Vertebrae with discs and pedicles."""
    u, v = anatomy.u, anatomy.v
    # Vertebrae grow downwards: their number at v follows a square root.
    phase = np.float32(21.0) * (np.sqrt(np.maximum(v + np.float32(0.35), 0.0)) - np.float32(0.5))
    cycle = phase - np.floor(phase)
    from_disc = np.abs(cycle - np.float32(0.5))
    waist = np.float32(0.034) + np.float32(0.010) * v - 0.004 * ramp(from_disc - 0.25, 0.3)
    column = ramp(waist - np.abs(u), max(0.007, 1.2 * anatomy.pixel))
    bone = column * (0.07 - 0.028 * bump(from_disc, 0.105) + 0.030 * bump(from_disc - 0.15, 0.045))
    bone += 0.030 * bump(np.abs(u) - 0.024, 0.006) * bump(np.abs(cycle - 0.93), 0.10)
    return np.asarray(bone * (1.15 - 0.5 * v - 0.30 * anatomy.heart_depth))


def bones(anatomy: Anatomy) -> Map:
    total = _ribs(anatomy) + _clavicles(anatomy) + _spine(anatomy)
    return np.asarray(total * anatomy.trunk, np.float32)
