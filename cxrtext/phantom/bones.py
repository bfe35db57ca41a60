"""Attenuation of ribs, clavicles, shoulder blades and spine."""

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, knob_place
from cxrtext.phantom.shapes import Map, bump, ramp


def _tube(distance: Map, half: float, pixel: float) -> Map:
    """A bone's cross-section: a faint core and brighter cortical edges, 0 to about 1."""
    away = np.abs(distance)
    core = ramp(np.float32(half) - away, max(0.004, 1.2 * pixel))
    x = np.minimum(away * np.float32(1.0 / half), 1.0)
    return core * (0.6 + 0.4 * x * x * x)


def _rows(v: Map, top: float, bottom: float) -> slice:
    """The rows of the grid that hold any v between two levels."""
    low, high = v[:, [0, -1]].min(axis=1), v[:, [0, -1]].max(axis=1)
    touched = np.flatnonzero((high >= top) & (low <= bottom))
    return slice(int(touched[0]), int(touched[-1]) + 1) if touched.size else slice(0, 0)


def ribs(anatomy: Anatomy) -> Map:
    """Posterior arcs falling to the sides and fainter anterior ones rising to them."""
    body = anatomy.body
    total = np.zeros_like(anatomy.v)
    s = np.minimum(np.abs(anatomy.u) / np.float32(body.chest + 0.012), 1.0)
    round_off = 1.0 - np.sqrt(np.clip(1.0 - (s * 0.985) ** 2, 0.0, 1.0))
    posterior = body.rib_drop * 1.45 * round_off - 0.05 * np.sin(np.pi * np.minimum(s * 1.15, 1.0))
    anterior = 0.20 * (1.0 - s) ** 0.9 + 0.02 * (1 - s) ** 2 - 0.6 * body.rib_drop * round_off
    inside = ramp(np.float32(body.chest + 0.012) - np.abs(anatomy.u), 0.008)
    from_spine = inside * ramp(np.abs(anatomy.u) - 0.035, 0.02)
    costal = inside * ramp(s - 0.36, 0.12)
    for number in range(10):
        level = body.apex + 0.045 + body.rib_pitch * number
        half = 0.0088 + 0.0006 * min(number, 6)
        rows = _rows(anatomy.v, level - 0.07, level + 2.0 * body.rib_drop)
        # The first ribs curl round the apex, so they reach less far out.
        cut = from_spine[rows] * ramp(np.float32(min(1.0, 0.62 + 0.16 * number)) - s[rows], 0.05)
        slope = 0.75 if number > 1 else 0.9
        line = anatomy.v[rows] - level - posterior[rows] * (0.8 + 0.03 * number)
        total[rows] += 0.14 * _tube(line * slope, half, anatomy.pixel) * cut
        if 1 <= number < 7:
            rows = _rows(anatomy.v, level + 0.02, level + 0.40)
            line = anatomy.v[rows] - level - 0.125 - anterior[rows]
            total[rows] += 0.058 * _tube(line * 0.8, half * 1.15, anatomy.pixel) * costal[rows]
    return total


def clavicles(anatomy: Anatomy) -> Map:
    """Two S-shaped bones crossing the apices; rotation moves their inner ends."""
    body = anatomy.body
    total = np.zeros_like(anatomy.v)
    for sign in (-1.0, 1.0):
        a = (anatomy.u - np.float32(body.turn)) * np.float32(sign)
        s = np.clip((a - 0.035) / 0.34, 0.0, 1.0)
        rise = 0.065 if body.anteroposterior else 0.045
        line = anatomy.v - (0.185 - rise * s - 0.022 * np.sin(2 * np.pi * np.minimum(s, 0.9)))
        half = 0.0125 + 0.004 * np.abs(s - 0.5)
        core = ramp(half - np.abs(line), max(0.005, 1.2 * anatomy.pixel))
        ends = ramp(a - 0.035, 0.015) * ramp(0.375 - a, 0.02)
        edge = np.minimum(np.abs(line) / half, 1.0) ** 3
        total += core * ends * (0.16 + 0.08 * edge)
    return total


def scapulae(anatomy: Anatomy) -> Map:
    """Shoulder blades and humeral heads at the sides."""
    body = anatomy.body
    a = np.abs(anatomy.u)
    v = anatomy.v
    total = np.zeros_like(v)
    inner = body.chest - 0.03 - 0.075 * body.scapula + 0.10 * (v - 0.3)
    blade = ramp(a - inner, 0.012) * ramp(v - 0.13, 0.03) * ramp(0.47 - v, 0.05)
    blade = blade * ramp(inner + 0.13 - 0.22 * (v - 0.15) - a, 0.04)
    border = bump((a - inner - 0.008).astype(np.float32), 0.007)
    total += blade * (0.08 + 0.05 * border)
    head = np.sqrt((a - 0.465) ** 2 + (v - 0.165) ** 2)
    return np.asarray(total + 0.22 * ramp(np.float32(0.055) - head, 0.012), np.float32)


def spine(anatomy: Anatomy) -> Map:
    """Vertebrae with discs, pedicles and spinous processes; it bends in scoliosis."""
    body, v = anatomy.body, anatomy.v
    u = anatomy.u - np.float32(body.bend) * np.sin(np.float32(np.pi * 1.25) * v - 0.35)
    worn = body.state.spine == "degenerative"
    phase = (v - 0.02) / np.float32(0.0625 + 0.012 * 0.5)
    cycle = phase - np.floor(phase)
    disc = bump((cycle - 0.5).astype(np.float32), 0.13)
    half = 0.036 + 0.010 * v + (0.012 * bump((np.abs(cycle - 0.5) - 0.16), 0.10) if worn else 0.0)
    column = ramp((half - np.abs(u)).astype(np.float32), max(0.008, 1.2 * anatomy.pixel))
    plates = bump((np.abs(cycle - 0.5) - 0.17).astype(np.float32), 0.055)
    total = column * (0.085 - 0.035 * disc + (0.10 if worn else 0.025) * plates)
    pedicle = bump(np.abs(u) - 0.025, 0.008) * bump((cycle - 0.02) % 1.0 - 0.9, 0.12)
    process = bump(u, 0.006) * bump(cycle - 0.15, 0.16)
    return np.asarray((total + 0.035 * pedicle + 0.04 * process) * (1.15 - 0.5 * v), np.float32)


def calcified_arch(anatomy: Anatomy) -> Map:
    """A bright rim of calcium round the aortic knob, where the state has one."""
    body = anatomy.body
    if body.state.aorta != "calcified":
        return np.zeros((), np.float32)
    centre = knob_place(body)
    du, dv = anatomy.u - centre[0], (anatomy.v - centre[1]) * 0.85
    ring = bump(np.sqrt(du * du + dv * dv) - np.float32(body.knob * 0.86), 0.0065)
    return np.float32(0.30) * ring * ramp((du - 0.4 * dv).astype(np.float32), 0.02)


def bones(anatomy: Anatomy) -> Map:
    """Attenuation of all bones, [size, size]."""
    total = ribs(anatomy) + clavicles(anatomy) + scapulae(anatomy) + spine(anatomy)
    return np.asarray((total + calcified_arch(anatomy)) * anatomy.trunk, np.float32)
