"""Attenuation of everything soft: chest wall, lungs, heart, airways, abdomen, breasts, hila."""

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.anatomy import Anatomy, Body, Lung
from cxrtext.phantom.shapes import Map, Stroke, blob, blur, bump, ramp, strokes, texture, window

CARINA = 0.335  # v of the lower end of the trachea


def soft_tissue(anatomy: Anatomy, generator: np.random.Generator, shift: float = 0.0) -> Map:
    """Attenuation of everything but bones and lung vessels, [size, size]."""
    body, u, v = anatomy.body, anatomy.u, anatomy.v
    a = np.abs(u)
    rim = np.sqrt(np.clip((body.chest + body.fat + 0.03 - a) * np.float32(1 / 0.14), 0.0, 1.0))
    thick = 0.88 + 1.1 * body.fat + np.float32(0.14) * v
    total = thick * (0.58 + 0.40 * np.maximum(rim, ramp(0.25 - v, 0.2)))
    # A turned chest shows one lung through more of the muscles than the other.
    total += np.float32(body.turn * 2.2) * u * np.float32(1.0 / body.chest)
    belly, gas = _belly(anatomy, generator)
    grain = texture(generator, anatomy.size, (11, 23, 47), 0.8)
    radius = anatomy.left.radius
    depth = np.sqrt(np.clip(1.0 - radius * radius, 0.0, 1.0))
    lucency = (0.17 + 0.34 * depth + 0.05 * ramp(0.45 - anatomy.left.height, 0.9)) * anatomy.open
    total -= (anatomy.right.chest + anatomy.left.chest) * (lucency - np.float32(0.017) * grain)
    total += belly - gas
    covered = np.clip(belly * 8.0, 0.0, 1.0)
    total += (0.13 + 0.05 * ramp(0.4 - v, 0.3)) * anatomy.middle * (1.0 - 0.75 * covered)
    heart = 0.15 * anatomy.heart + 0.32 * anatomy.heart_depth
    total += heart * (1.0 - 0.9 * anatomy.middle) * (1.0 - covered)
    # Behind the breastbone the heart's upper border does not show.
    low = ramp(v - np.float32(body.rest[1] - 0.24), 0.26)
    total += 0.10 * low * anatomy.middle * (1.0 - covered)
    _great_vessels(anatomy, total, shift)
    _airways(anatomy, total, shift)
    _breasts(body, anatomy, total)
    return np.asarray(total * anatomy.trunk, np.float32)


def _belly(anatomy: Anatomy, generator: np.random.Generator) -> tuple[Map, Map]:
    """What lies below the domes, and the gas in it.

    Lung lies behind and in front of the upper part of a dome, so it thickens gradually.
    """
    belly, gas = np.zeros_like(anatomy.v), np.zeros_like(anatomy.v)
    bowel = texture(generator, anatomy.size, (6, 13, 26), 0.7)
    bubble = [float(x) for x in generator.uniform((0.4, 0.85, 0.02), (1.1, 1.2, 0.07))]
    part = window(anatomy.u, anatomy.v, (-1.0, 1.0), (min(anatomy.body.domes) - 0.05, 2.0))
    a, v = np.abs(anatomy.u[part]), anatomy.v[part]
    side = ramp(anatomy.body.chest + 0.05 - a, 0.16)
    for lung in anatomy.lungs:
        below = v - lung.floor[part]
        edge = ramp(below, max(0.012, 1.4 * anatomy.pixel)) * ramp(lung.lateral[part], 0.07)
        deep = np.clip(below * np.float32(1 / 0.17), 0.0, 1.0)
        thick = 0.13 + (0.21 if lung.side == "right" else 0.17) * deep * (2.0 - deep)
        belly[part] += edge * side * thick
        if lung.side == "left":
            colon = np.clip(bowel[part] - 0.75, 0.0, 1.2) * ramp(below - 0.05, 0.06)
            gas[part] += edge * side * (_stomach(anatomy, part, bubble) + 0.09 * colon)
        else:
            colon = np.clip(bowel[part] - 0.9, 0.0, 1.0) * ramp(below - 0.16, 0.08)
            gas[part] += edge * side * 0.07 * colon
    return belly, gas


def _stomach(anatomy: Anatomy, part: tuple[slice, slice], bubble: list[float]) -> Map:
    """The gas bubble below the left dome: rounded above, cut off by the fluid below."""
    strength, wide, drop = bubble
    center = 0.145, anatomy.body.domes[1] + 0.05
    du = (anatomy.u[part] - np.float32(center[0])) * np.float32(1.0 / (0.062 * wide))
    dv = (anatomy.v[part] - np.float32(center[1])) * np.float32(1.0 / 0.034)
    inside = ramp(1.0 - np.sqrt(du * du + dv * dv), 0.55)
    level = ramp(drop * 0.4 + 0.012 - dv * 0.034, 0.02)
    return np.asarray(np.float32(0.17 * strength) * inside * level)


def _great_vessels(anatomy: Anatomy, total: Map, shift: float) -> None:
    """The descending aorta's edge beside the spine, and the paraspinal lines."""
    body = anatomy.body
    part = window(anatomy.u, anatomy.v, (-0.12, 0.16), (0.2, 0.95))
    u, v = anatomy.u[part] - np.float32(shift * 0.4), anatomy.v[part]
    wind = 0.020 if body.state.aorta == "tortuous" else 0.0
    bow = np.float32(0.010 + wind) * np.sin(np.float32(np.pi) * (v - 0.25) * np.float32(1 / 0.6))
    edge = np.float32(0.052 + 0.2 * body.knob) - np.float32(0.025) * (v - 0.3) + bow
    aorta = ramp(edge - u, 0.010) * ramp(u + 0.01, 0.03)
    total[part] += 0.075 * aorta * ramp(v - 0.27, 0.04) * ramp(0.90 - v, 0.2)
    spine = u - anatomy.spine_bend(v)
    stripe = ramp(0.050 + 0.008 * v - np.abs(spine), 0.008) * ramp(v - 0.35, 0.2)
    total[part] += 0.03 * stripe


def _airways(anatomy: Anatomy, total: Map, shift: float) -> None:
    """Lucency of the trachea, the carina and the main bronchi."""
    part = window(anatomy.u, anatomy.v, (-0.17, 0.19), (-0.1, 0.5))
    u = anatomy.u[part] - np.float32(shift + anatomy.body.turn * 0.5)
    v = anatomy.v[part]
    drift = np.float32(0.012) * ramp(v - 0.2, 0.22)
    edge = max(0.007, 1.2 * anatomy.pixel)
    tube = ramp(0.0175 - np.abs(u + drift), edge) * ramp(CARINA - v, 0.012)
    for sign, slope, length in ((-1.0, 1.15, 0.075), (1.0, 0.72, 0.10)):
        along = (u + np.float32(0.012)) * np.float32(sign)
        across = (v - np.float32(0.338)) - np.float32(slope) * along
        half = 0.0145 - 0.03 * np.clip(along, 0.0, 0.1)
        wall = ramp(half - np.abs(across) * np.float32(1.0 / np.hypot(1.0, slope)), edge)
        reach = ramp(along + 0.012, 0.01) * ramp(length - along, 0.05)
        tube = np.maximum(tube, 0.85 * wall * reach)
    total[part] -= (0.17 - 0.07 * ramp(v - 0.30, 0.1)) * tube


def _breasts(body: Body, anatomy: Anatomy, total: Map) -> None:
    if not body.breast:
        return
    part = window(anatomy.u, anatomy.v, (-1.0, 1.0), (0.45, 0.95))
    u, v = anatomy.u[part], anatomy.v[part]
    for sign in (-1.0, 1.0):
        du = (u * np.float32(sign) - np.float32(0.62 * body.chest)) * np.float32(1 / 0.175)
        dv = (v - np.float32(0.665 + 0.035 * body.breast + 0.008 * sign)) * np.float32(1 / 0.15)
        r = np.sqrt(du * du + np.where(dv > 0, 1.8, 1.0).astype(np.float32) * dv * dv)
        fall = np.clip(1.0 - r * r * r, 0.0, 1.0) * ramp((1.0 - r) * 0.15, 0.02)
        total[part] += np.float32(0.15 * body.breast) * fall


def hila(anatomy: Anatomy) -> Map:
    """Attenuation of the hila, [size, size]; the left one stands a little higher."""
    total = np.zeros_like(anatomy.u)
    part = window(anatomy.u, anatomy.v, (-0.2, 0.2), (0.25, 0.65))
    u, v = anatomy.u[part], anatomy.v[part]
    both = blob(u, v, (-0.085, 0.435), (0.026, 0.050)) + blob(u, v, (0.088, 0.415), (0.026, 0.045))
    total[part] = 0.075 * both + 0.05 * bump(np.abs(u) - 0.075, 0.03) * bump(v - 0.45, 0.1)
    return total


HILA = {"right": (0.085, 0.43), "left": (0.088, 0.41)}
"""Where the vessels of each lung start: distance from the midline, and v."""

DIRECTIONS = (-1.35, -0.95, -0.5, -0.1, 0.3, 0.65, 1.0, 1.3)
"""Angles at which they leave it, from lateral, downwards positive."""

TRUNKS = {
    "right": ((0.066, 0.408), (0.080, 0.425), (0.095, 0.455), (0.104, 0.50), (0.112, 0.55)),
    "left": ((0.056, 0.384), (0.070, 0.374), (0.090, 0.380), (0.104, 0.42), (0.112, 0.47)),
}
"""The middle lines of the pulmonary arteries, which the lower vessels leave."""

Floats = NDArray[np.float64]

Cuts = tuple[tuple[int, int, float], ...]
CUTS: tuple[Cuts, ...] = (
    ((0, 3, 1.0), (2, 5, 0.76), (4, 9, 0.52)),
    ((0, 3, 1.0), (2, 5, 0.76), (4, 9, 0.52)),
    ((0, 6, 0.75),),
)
"""First and last point of each piece of a vessel and its width, by order: vessels taper."""

STEPS = (0.026, 0.021, 0.016)
"""Length of a step of a vessel, of what branches off it, and of what branches off that."""


def _grow(start: Floats, angle: Floats, bends: Floats) -> list[tuple[Floats, Floats]]:
    """Grow vessels, each with 3 branches that have 3 branches each.

    Args:
        start: Where they start: distance from the midline and v, [N, 2].
        angle: Their directions, [N].
        bends: Random changes of direction, [N, 13, 8]: 1 + 3 + 9 vessels of 8 steps.

    Returns:
        For each order of branches the paths [N, M, 9, 2], and widths relative to the first [M].
    """
    start, angle, width = start[:, None], angle[:, None], np.ones(1)
    orders = []
    for order, rows in enumerate((slice(0, 1), slice(1, 4), slice(4, 13))):
        bend = bends[:, rows]
        heading = angle[..., None] + np.cumsum(bend, axis=-1)
        ways = STEPS[order] * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
        path = start[:, :, None] + np.concatenate(
            [np.zeros_like(ways[:, :, :1]), np.cumsum(ways, axis=2)], axis=2
        )
        orders.append((path, width))
        # Branches leave after steps 1, 3 and 5, to both sides by turns.
        sides = np.array([1.0, -1.0, 1.0]) * (-1.0) ** order
        turned = heading[:, :, 1:6:2] + (0.55 + bend[:, :, 1:6:2]) * sides
        start, angle = path[:, :, 2:7:2].reshape(len(path), -1, 2), turned.reshape(len(path), -1)
        width = (width[:, None] * np.array([0.61, 0.51, 0.41])).ravel()
    return orders


def _pieces(anatomy: Anatomy, sign: float, path: Floats, width: float, cuts: Cuts) -> list[Stroke]:
    """Cut paths [N, M, 9, 2] into pieces of falling width."""
    pixels = anatomy.size * anatomy.body.zoom
    columns, rows = anatomy.to_pixels(sign * path[..., 0], path[..., 1])
    return [
        (line[first:last], thick * width * pixels, min(0.85, 0.16 + thick * width * 52.0))
        for line in np.stack([columns, rows], axis=-1).reshape(-1, path.shape[2], 2).tolist()
        for first, last, thick in cuts
    ]


def vessels(anatomy: Anatomy, generator: np.random.Generator, fullness: float) -> Map:
    """Attenuation of the lung vessels, [size, size]; what is drawn is the same at every size.

    ``fullness`` widens and blurs them, 0 for normal ones; the upper ones widen most.
    """
    drawn: list[Stroke] = []
    wide = (1.0 + 0.8 * fullness) * 0.0072, (1.0 + 0.4 * fullness) * 0.0105
    for lung in anatomy.lungs:
        trunk = np.asarray(TRUNKS[lung.side])
        for i in range(4):
            thick = 0.0215 * (1.0 + 0.3 * fullness) * (1.0 - 0.13 * i)
            piece = trunk[None, None, i : i + 2]
            drawn += _pieces(anatomy, lung.sign, piece, thick, ((0, 2, 1.0),))
        bends = generator.normal(0.0, 0.13, size=(len(DIRECTIONS), 13, 8))
        angle = np.asarray(DIRECTIONS) + generator.normal(0.0, 0.08, size=len(DIRECTIONS))
        start = np.stack([HILA[lung.side]] * 4 + [trunk[i] for i in (1, 2, 3, 4)])
        for order, (paths, widths) in enumerate(_grow(start, angle, bends)):
            for column, share in enumerate(widths.tolist()):
                for part, width in ((slice(0, 3), wide[0]), (slice(3, None), wide[1])):
                    some = paths[part, column : column + 1]
                    drawn += _pieces(anatomy, lung.sign, some, width * share, CUTS[order])
    drawn.sort(key=lambda stroke: stroke[2])
    image = blur(strokes(anatomy.size, drawn), 0.005 * fullness * anatomy.size)
    return np.float32(0.21) * image * (_reach(anatomy.right) + _reach(anatomy.left))


def _reach(lung: Lung) -> Map:
    """Vessels fade towards the pleura."""
    cube = lung.radius * lung.radius * lung.radius
    return np.asarray(lung.chest * np.clip(1.3 * (1.0 - cube), 0.0, 1.0))
