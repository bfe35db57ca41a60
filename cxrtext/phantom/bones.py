"""Attenuation of ribs, clavicles, shoulder blades and spine."""

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.anatomy import Anatomy, Body, knob_place
from cxrtext.phantom.shapes import Map, Polygon, bump, polygons, ramp, window

Floats = NDArray[np.float64]
RIBS = 11
REACH = (0.56, 0.80, 0.92, 0.975, 1.0, 1.0, 1.0, 1.0, 1.0, 0.99, 0.97)
"""How far out each rib reaches, as a share of the chest's half width."""


def rib_path(body: Body, number: int, sign: float, turns: Floats) -> tuple[Floats, Floats]:
    """The middle line of a rib, a tilted ellipse seen from the front: u and v, [K] each.

    Ribs count from 0; ``sign`` is -1 for the patient's right, 1 for the left; ``turns`` [K] are
    angles round the chest, 0 at the spine, π at the breastbone.
    """
    wobble = body.wobble[number + (RIBS if sign > 0 else 0)]
    half = (body.chest + 0.010) * REACH[number]
    level = body.apex + 0.036 + body.rib_pitch * number + 0.0035 * wobble
    drop = 2.0 * body.rib_drop * (0.66 + 0.10 * min(number, 7)) * (1.0 + 0.03 * wobble)
    u = half * np.sin(turns) ** 0.9
    # From its joint a rib rises a little before it falls.
    v = level + drop * (1.0 - np.cos(turns)) / 2.0 - 0.010 * np.sin(2.0 * np.minimum(turns, 1.57))
    return sign * u + body.turn * np.clip(turns - np.pi / 2, 0.0, 1.6), v


def _bands(
    anatomy: Anatomy, u: Floats, v: Floats, levels: list[tuple[float, float, float]]
) -> list[Polygon]:
    """Bands between parallels of a line: how far up and down each reaches, and its strength."""
    corners = _parallels(anatomy, u[None], v[None], np.asarray([level[:2] for level in levels]))
    return list(zip(corners[0], [level[2] for level in levels], strict=True))


def _parallels(anatomy: Anatomy, u: Floats, v: Floats, offsets: Floats) -> Floats:
    """Corners of bands along lines u and v, [R, K] each: columns and rows, [R, L, 2 K, 2].

    ``offsets`` [L, 2], or [R, L, 2], say how far up and down each band reaches.
    """
    du, dv = np.empty_like(u), np.empty_like(v)
    for line, step in ((u, du), (v, dv)):
        step[:, 1:-1] = line[:, 2:] - line[:, :-2]
        step[:, 0], step[:, -1] = line[:, 1] - line[:, 0], line[:, -1] - line[:, -2]
    # The normal that points up, whichever way the line runs.
    up = np.where(du < 0, -1.0, 1.0) / (np.sqrt(du * du + dv * dv) + 1e-9)
    nu, nv = (up * dv)[:, None, None], (-up * du)[:, None, None]
    away = (np.broadcast_to(offsets, (len(u), *offsets.shape[-2:])) * (1.0, -1.0))[..., None]
    columns, rows = anatomy.to_pixels(u[:, None, None] + away * nu, v[:, None, None] + away * nv)
    points = np.stack([columns, rows], axis=-1)
    return np.concatenate([points[:, :, 0], points[:, :, 1, ::-1]], axis=2)


STRENGTHS = (0.55, 1.0, 0.84, 0.74)
"""Of a rib from its edge inwards: the cortex is denser than the marrow."""


def rib_polygons(
    anatomy: Anatomy, ribs: list[tuple[int, float]], turns: Floats, offset: Floats | float = 0.0
) -> list[Polygon]:
    """A part of some ribs, (number, sign) each, lowered by an offset."""
    paths = [rib_path(anatomy.body, number, sign, turns) for number, sign in ribs]
    u, v = np.stack([path[0] for path in paths]), np.stack([path[1] for path in paths])
    half = np.asarray([0.0102 + 0.0004 * min(number, 6) for number, _ in ribs])
    if turns[0] > np.pi / 2:
        half += 0.002
    # The cortex is sharper above than below.
    shares = np.asarray([(1.0, 1.0), (0.90, 0.84), (0.70, 0.55), (0.45, 0.2)])
    return [
        (outline, strength)
        for rib in _parallels(anatomy, u, v + offset, half[:, None, None] * shares)
        for outline, strength in zip(rib, STRENGTHS, strict=True)
    ]


def ribs(anatomy: Anatomy) -> Map:
    """Posterior arcs falling to the sides, and broader, fainter anterior ones."""
    behind, ahead = np.linspace(0.05, 1.66, 15), np.linspace(1.66, 2.46, 9)
    numbers = [(number, sign) for number in range(RIBS - 1, -1, -1) for sign in (-1.0, 1.0)]
    back = rib_polygons(anatomy, numbers, behind)
    front = rib_polygons(anatomy, [rib for rib in numbers if rib[0] < 7], ahead)
    away = np.abs(anatomy.u)
    deep = np.maximum(anatomy.right.chest, anatomy.left.chest)
    fade = (0.62 + 0.38 * deep) * (1.0 - 0.35 * anatomy.middle)
    total = np.float32(0.125) * polygons(anatomy.size, back) * fade
    front_bones = polygons(anatomy.size, front) * (0.35 + 0.65 * deep)
    # The anterior ribs fade where bone gives way to cartilage; the short upper ones do not.
    bone = np.maximum(ramp(away - 0.255, 0.13), ramp(0.34 - anatomy.v, 0.18))
    faded = np.float32(0.078) * front_bones * (0.45 + 0.55 * bone)
    return np.asarray(total * ramp(away - 0.034, 0.04) + faded)


def calcified_cartilage(anatomy: Anatomy) -> Map:
    """Flecks of calcium in the costal cartilages of the older, [size, size]."""
    body = anatomy.body
    if body.cartilage < 0.25:
        return np.zeros((), np.float32)
    shapes: list[Polygon] = []
    for sign in (-1.0, 1.0):
        for number in range(1, 7):
            u, v = rib_path(body, number, sign, np.linspace(2.42, 2.62, 5))
            v = v + np.linspace(0.0, -0.012, 5)
            shapes += _bands(anatomy, u, v, [(0.009, 0.009, 1.0), (0.005, 0.006, 0.35)])
    return np.float32(0.07 * body.cartilage) * polygons(anatomy.size, shapes)


def girdle(anatomy: Anatomy) -> Map:
    """Clavicles, shoulder blades and humeral heads, [size, size]."""
    shapes: list[Polygon] = []
    for sign in (-1.0, 1.0):
        shapes += _scapula(anatomy, sign)
        shapes += _clavicle(anatomy, sign)
    return np.float32(0.165) * polygons(anatomy.size, shapes)


def _scapula(anatomy: Anatomy, sign: float) -> list[Polygon]:
    """One shoulder blade with its brighter inner border and its spine, and the upper arm."""
    body = anatomy.body
    inner = body.chest + 0.005 - 0.075 * body.scapula
    edge = [(inner + 0.040, 0.10), (inner + 0.010, 0.15), (inner, 0.24), (inner + 0.012, 0.34)]
    edge += [(inner + 0.035, 0.435), (inner + 0.055, 0.46), (inner + 0.075, 0.43)]
    edge += [(inner + 0.095, 0.31), (0.455, 0.20), (0.44, 0.13)]
    shapes: list[Polygon] = [(_outline(anatomy, sign, edge), 0.36)]
    line = np.asarray([*edge[1:8]])
    border = [(0.003, 0.003, 0.50), (0.0016, 0.0016, 0.66)]
    shapes += _bands(anatomy, sign * line[:, 0], line[:, 1], border)
    line = np.asarray([(inner + 0.02, 0.205), (inner + 0.07, 0.165), (0.46, 0.11), (0.50, 0.085)])
    ridge = [(0.009, 0.009, 0.50), (0.005, 0.005, 0.62)]
    shapes += _bands(anatomy, sign * line[:, 0], line[:, 1], ridge)
    around = np.linspace(0.6, 2.0 * np.pi + 0.9, 24)
    for grow, strength in ((1.0, 0.9), (0.93, 0.72)):
        head = [
            (0.495 + 0.050 * grow * np.cos(t), 0.160 + 0.052 * grow * np.sin(t)) for t in around
        ]
        head += [(0.515 - 0.02 * grow, 0.5), (0.515 + 0.025 * grow, 0.5)]
        shapes.append((_outline(anatomy, sign, head), strength))
    return shapes


def _clavicle(anatomy: Anatomy, sign: float) -> list[Polygon]:
    """One S-shaped collar bone; rotation moves its inner end."""
    body = anatomy.body
    rise = 0.055 if body.anteroposterior else 0.038
    s = np.linspace(0.0, 1.0, 18)
    u = sign * (0.028 + 0.41 * s) + body.turn * (1.8 - s)
    v = 0.186 - rise * s - 0.019 * np.sin(2.1 * np.pi * s)
    # Thick at its inner end, thin in the middle.
    half = (0.0125 + 0.020 * (s - 0.55) ** 2) * np.minimum(1.0, 0.55 + s * 14.0)
    shapes: list[Polygon] = []
    for share, strength in ((1.0, 0.75), (0.86, 1.0), (0.6, 0.88), (0.35, 0.8)):
        top, low = (anatomy.to_pixels(u, v + way * share * half) for way in (-1.0, 1.0))
        x, y = (np.concatenate([a, b[::-1]]) for a, b in zip(top, low, strict=True))
        shapes.append((np.stack([x, y], axis=1), strength))
    return shapes


def _outline(anatomy: Anatomy, sign: float, corners: list[tuple[float, float]]) -> Floats:
    points = np.asarray(corners)
    return np.stack(anatomy.to_pixels(sign * points[:, 0], points[:, 1]), axis=1)


def spine(anatomy: Anatomy, total: Map) -> None:
    """Add vertebrae with discs, pedicles and spinous processes; they bend in scoliosis."""
    part = window(anatomy.u, anatomy.v, (-0.13, 0.13), (-1.0, 2.0))
    v = anatomy.v[part]
    u = anatomy.u[part] - anatomy.spine_bend(v)
    worn = anatomy.body.state.spine == "degenerative"
    # Vertebrae grow downwards: their number at v follows a square root.
    phase = np.float32(21.0) * (np.sqrt(np.maximum(v + np.float32(0.35), 0.0)) - np.float32(0.5))
    cycle = phase - np.floor(phase)
    from_disc = np.abs(cycle - np.float32(0.5))
    half = np.float32(0.034) + np.float32(0.010) * v
    waist = half - np.float32(0.004) * ramp(from_disc - 0.25, 0.3)
    if worn:
        waist = waist + np.float32(0.011) * bump(from_disc - 0.14, 0.09)
    away = np.abs(u)
    column = ramp(waist - away, max(0.007, 1.2 * anatomy.pixel))
    disc = bump(from_disc, 0.105)
    plate = bump(from_disc - 0.15, 0.045)
    bone = column * (0.07 - 0.028 * disc + (0.09 if worn else 0.030) * plate)
    bone += 0.030 * bump(away - 0.024, 0.006) * bump(np.abs(cycle - 0.93), 0.10)
    bone += 0.028 * bump(u, 0.0055) * bump(cycle - 0.17, 0.12)
    # Transverse processes.
    bone += 0.022 * ramp(0.062 - away, 0.012) * bump(np.abs(cycle - 0.93), 0.07)
    total[part] += bone * (1.15 - 0.5 * v - 0.30 * anatomy.heart_depth[part])


def calcified_arch(anatomy: Anatomy, total: Map) -> None:
    """Add a bright rim of calcium round the aortic knob, where the state has one."""
    body = anatomy.body
    if body.state.aorta != "calcified":
        return
    center = knob_place(body)
    part = window(anatomy.u, anatomy.v, (-0.1, 0.2), (0.15, 0.4))
    du = anatomy.u[part] - np.float32(center[0])
    dv = (anatomy.v[part] - np.float32(center[1])) * np.float32(0.85)
    ring = bump(np.sqrt(du * du + dv * dv) - np.float32(body.knob * 0.86), 0.0055)
    total[part] += np.float32(0.26) * ring * ramp(du - np.float32(0.4) * dv, 0.02)


def bones(anatomy: Anatomy) -> Map:
    total = ribs(anatomy) + girdle(anatomy) + calcified_cartilage(anatomy)
    spine(anatomy, total)
    calcified_arch(anatomy, total)
    return np.asarray(total * anatomy.trunk, np.float32)
