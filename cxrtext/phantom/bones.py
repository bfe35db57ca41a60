"""Attenuation of ribs, collar bones and spine."""

from collections.abc import Iterator

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, Floats
from cxrtext.phantom.shapes import Map, Stroke, bump, ramp, strokes

RIBS = 11
REACH = (0.56, 0.80, 0.92, 0.975, 1.0, 1.0, 1.0, 1.0, 1.0, 0.99, 0.97)
"""How far out each rib reaches, as a share of the chest's half width."""


def _rib_paths(anatomy: Anatomy, turns: Floats, count: int) -> Iterator[tuple[Floats, Floats]]:
    """The middle lines of the upper ribs, tilted ellipses seen from the front: u and v, [K] each.

    ``turns`` [K] are angles round the chest, 0 at the spine, π at the breastbone.
    """
    body = anatomy.body
    for number in reversed(range(count)):
        level = body.apex + 0.036 + 0.075 * number
        drop = 0.235 * (0.66 + 0.10 * min(number, 7))
        u = (body.chest + 0.010) * REACH[number] * np.sin(turns) ** 0.9
        # From its joint a rib rises a little before it falls.
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
    behind, ahead = np.linspace(0.05, 1.66, 15), np.linspace(1.66, 2.46, 9)
    back, front = (
        [stroke for path in paths for stroke in _bone(anatomy, *path, width)]
        for paths, width in (
            (_rib_paths(anatomy, behind, RIBS), 0.023),
            (_rib_paths(anatomy, ahead, 7), 0.027),
        )
    )
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
    """Two S-shaped collar bones; rotation moves their inner ends."""
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
