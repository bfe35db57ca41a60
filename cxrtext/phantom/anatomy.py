"""Lungs, heart, great vessels, diaphragm and chest wall of a body, as soft masks on a grid."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.body import Body
from cxrtext.phantom.shapes import Map, blob, bump, ramp

Floats = NDArray[np.float64]

SIDES = {"right": -1.0, "left": 1.0}
"""Sign of u on each side of the patient."""


@dataclass(frozen=True, slots=True)
class Lung:
    """One lung on the grid; every array is [size, size].

    Args:
        sign: -1 for the patient's right (the image's left), 1 for the left.
        side: "right" or "left".
        lateral: Distance from the midline towards this side.
        height: 0 at the apex, 1 at the level of the dome.
        radius: 0 at the centre, 1 at the chest wall.
        floor: v of the diaphragm.
        chest: Mask of the half of the chest above the diaphragm, 0 to 1.
    """

    sign: float
    side: str
    lateral: Map
    height: Map
    radius: Map
    floor: Map
    chest: Map


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A body laid out on a pixel grid; every array is [size, size].

    Args:
        body: The body.
        size: Pixels along each side.
        u: Body coordinate across.
        v: Body coordinate down.
        right: The patient's right lung, at the image's left.
        left: The patient's left lung.
        heart: Mask of the heart, 0 to 1.
        heart_depth: Thickness of the heart, 0 to 1.
        middle: Mask of the mediastinum, 0 to 1.
        trunk: Mask of the trunk, 0 to 1.
    """

    body: Body
    size: int
    u: Map
    v: Map
    right: Lung
    left: Lung
    heart: Map
    heart_depth: Map
    middle: Map
    trunk: Map

    @property
    def pixel(self) -> float:
        """Side of a pixel in body coordinates."""
        return 1.0 / (self.size * self.body.zoom)

    @property
    def open(self) -> Map:
        """How much of what lies in the lungs is seen: little of it behind the mediastinum."""
        return np.asarray(1.0 - 0.75 * self.middle, np.float32)

    def to_pixels(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Columns and rows of points in body coordinates, [K] each."""
        body = self.body
        cos, sin = np.cos(body.tilt), np.sin(body.tilt)
        du, dv = u * body.zoom, (v - 0.5) * body.zoom
        columns = 0.5 + body.shift[0] + du * cos - dv * sin
        rows = 0.5 + body.shift[1] + du * sin + dv * cos
        return columns * self.size, rows * self.size


def coordinates(body: Body, size: int) -> tuple[Map, Map]:
    """Body coordinates of the pixels' centres.

    Returns:
        u and v, [size, size] each.
    """
    line = (np.arange(size, dtype=np.float32) + np.float32(0.5)) / np.float32(size)
    x = line[None, :] - np.float32(0.5 + body.shift[0])
    y = line[:, None] - np.float32(0.5 + body.shift[1])
    cos, sin = np.float32(np.cos(body.tilt)), np.float32(np.sin(body.tilt))
    zoom = np.float32(1.0 / body.zoom)
    return (x * cos + y * sin) * zoom, (y * cos - x * sin) * zoom + np.float32(0.5)


def lung_radius(
    body: Body, lateral: Map, v: Map, *, inset: float = 0.0, lowered: float = 0.0
) -> Map:
    """How far out a point lies in a lung: 0 at its centre, 1 at its pleura, above 1 outside.

    Args:
        body: The body.
        lateral: Distance from the midline, [size, size].
        v: Body coordinate down, [size, size].
        inset: How far the lateral border is moved in.
        lowered: How far the apex is moved down.

    Returns:
        [size, size].
    """
    apex, base = body.apex + lowered, 0.74
    rise = np.clip((np.float32(base) - v) / np.float32(base - apex), 0.0, 2.0)
    centre = np.float32(0.20) - np.float32(0.065) * np.minimum(rise, 1.0)
    out = lateral - centre
    border = np.float32(body.chest - inset) - centre
    across = np.where(out > 0, out / border, -out / (centre - np.float32(0.02)))
    across = np.minimum(across, 3.0)
    return np.asarray((across**2.5 + rise**2.5) ** np.float32(0.4))


def _lung(body: Body, side: str, u: Map, v: Map, pixel: float) -> Lung:
    sign = SIDES[side]
    lateral = u * np.float32(sign)
    dome = body.domes[0 if side == "right" else 1]
    radius = lung_radius(body, lateral, v)
    # The dome's top lies inside the middle of the lung; it falls faster towards the side.
    away = np.minimum((lateral - 0.17) / np.float32(body.chest - 0.17), 1.7)
    floor = dome + np.where(away > 0, body.angle * np.abs(away) ** 2.3, 0.035 * away**2)
    edge = max(0.006, 1.3 * pixel)
    inside = ramp((1.0 - radius) * np.float32(0.3), edge) * ramp(floor - v, edge)
    inside *= ramp(lateral - np.float32(0.015), edge)
    height = (v - np.float32(body.apex)) / np.float32(dome - body.apex)
    return Lung(sign, side, lateral, height, radius, floor.astype(np.float32), inside)


def _heart(body: Body, u: Map, v: Map, pixel: float) -> tuple[Map, Map]:
    """The heart's mask and thickness: an outline given by its radius over the angle."""
    width = 2.0 * body.chest * body.heart
    right, left = width * body.heart_right, width * (1.0 - body.heart_right)
    floor = body.domes[1] + 0.03
    big = max(0.0, body.heart - 0.47)
    half = (left + right) / 2.0
    tall = 0.150 + 0.30 * big
    centre = ((left - right) / 2.0 + 0.7 * body.turn, floor - tall * 0.80)
    du, dv = u - np.float32(centre[0]), v - np.float32(centre[1])
    # The long axis points down and to the patient's left: shear moves the apex down.
    dv = dv - np.float32(0.22) * du
    angle = np.arctan2(dv / np.float32(tall), du / np.float32(half))
    turns = np.deg2rad([-180.0, -135, -90, -45, -15, 0, 35, 75, 90, 135, 180])
    radii = [1.0, 0.98, 0.94, 0.84, 0.93, 1.0, 0.97, 0.86, 0.84, 0.93, 1.0]
    reach = np.interp(angle, turns, radii).astype(np.float32)
    r = np.sqrt((du / np.float32(half)) ** 2 + (dv / np.float32(tall)) ** 2) / reach
    mask = ramp((1.0 - r) * np.float32(0.5 * (half + tall)), max(0.009, 1.4 * pixel))
    depth = np.clip(1.0 - r * r, 0.0, 1.0) ** np.float32(0.45)
    return mask, depth * mask


def _middle(body: Body, u: Map, v: Map, pixel: float) -> Map:
    """The mediastinum: a band with the aortic knob, the pulmonary trunk and the vena cava."""
    tortuous = body.state.aorta == "tortuous"
    levels = [0.0, 0.08, 0.16, 0.20, 0.26, 0.33, 0.38, 0.43, 0.50, 0.60, 1.0]
    right = [0.05, 0.052, 0.062, 0.068, 0.066, 0.066, 0.068, 0.072, 0.075, 0.07, 0.07]
    left = [0.05, 0.052, 0.055, 0.058, 0.055, 0.052, 0.058, 0.066, 0.075, 0.07, 0.07]
    if tortuous:
        right[3:7] = [0.078, 0.082, 0.082, 0.078]
        left[5:] = [0.066, 0.074, 0.084, 0.088, 0.080, 0.07]
    wide = 1.1 if body.anteroposterior else 1.0
    front = u - np.float32(body.turn)
    toward_right = (np.interp(v, levels, right) * wide).astype(np.float32) + front
    toward_left = (np.interp(v, levels, left) * wide).astype(np.float32) - front
    edge = max(0.016, 1.4 * pixel)
    band = ramp(np.minimum(toward_right, toward_left), edge)
    centre, knob = knob_place(body), body.knob
    distance = np.sqrt((u - centre[0]) ** 2 + ((v - centre[1]) * 0.85) ** 2)
    band = np.maximum(band, ramp(np.float32(knob) - distance, edge))
    trunk = np.sqrt((u - 0.045 - body.turn) ** 2 + ((v - 0.385) * 0.8) ** 2)
    return np.maximum(band, ramp(np.float32(0.042) - trunk, edge * 1.5))


def knob_place(body: Body) -> tuple[float, float]:
    """Where the aortic knob's centre lies, in body coordinates."""
    lift = 0.02 if body.state.aorta == "tortuous" else 0.0
    return 0.04 + 0.3 * body.knob + body.turn, 0.275 - lift


def _trunk(body: Body, u: Map, v: Map, pixel: float) -> Map:
    """The trunk with neck and shoulders against the air around it."""
    a = np.abs(u)
    shoulder = 0.02 + 0.17 * np.clip((a - 0.12) / 0.38, 0.0, 2.0) ** 1.15
    # The neck rises from the shoulders in a curve.
    shoulder = shoulder - 0.30 * np.clip((0.17 - a) / 0.09, 0.0, 1.0) ** 2.2
    above = (v - shoulder).astype(np.float32)
    flare = 0.17 * np.exp(-(((v - 0.10) / 0.17) ** 2)) + 0.03 * np.clip(v - 0.6, 0, 1)
    beside = (np.float32(body.chest + body.fat + 0.012) + flare - a).astype(np.float32)
    edge = max(0.012, 1.4 * pixel)
    return ramp(above, edge) * ramp(beside, edge)


def lay_out(body: Body, size: int, shift: float = 0.0) -> Anatomy:
    """Lay a body out on a grid.

    Args:
        body: The body.
        size: Pixels along each side.
        shift: How far heart and mediastinum are pushed to the patient's left.

    Returns:
        Its coordinates and masks.
    """
    u, v = coordinates(body, size)
    pixel = 1.0 / (size * body.zoom)
    pushed = u - np.float32(shift)
    heart, depth = _heart(body, pushed, v, pixel)
    return Anatomy(
        body=body,
        size=size,
        u=u,
        v=v,
        right=_lung(body, "right", u, v, pixel),
        left=_lung(body, "left", u, v, pixel),
        heart=heart,
        heart_depth=depth,
        middle=_middle(body, pushed, v, pixel),
        trunk=_trunk(body, u, v, pixel),
    )


def soft_tissue(anatomy: Anatomy, shift: float = 0.0) -> Map:
    """Attenuation of everything but bones and lung vessels, [size, size]."""
    body, u, v = anatomy.body, anatomy.u, anatomy.v
    a = np.abs(u)
    rim = np.clip((body.chest + body.fat + 0.03 - a) / 0.14, 0.0, 1.0) ** np.float32(0.5)
    thick = 0.90 + 1.3 * body.fat + 0.14 * v
    total = thick * (0.60 + 0.40 * np.maximum(rim, ramp(0.25 - v, 0.2)))
    belly = np.zeros_like(v)
    for lung in (anatomy.right, anatomy.left):
        depth = np.clip(1.0 - lung.radius**2.2, 0.0, 1.0) ** np.float32(0.6)
        total -= lung.chest * (0.19 + 0.40 * depth) * anatomy.open
        below = (1.0 - ramp(lung.floor - v, max(0.008, 1.3 * anatomy.pixel))) * (lung.lateral >= 0)
        belly += below * ramp(body.chest + 0.04 - a, 0.19)
    total += 0.26 * belly
    covered = anatomy.middle * (1.0 - belly)
    total += 0.13 * covered
    total += 0.40 * anatomy.heart_depth * (1.0 - 0.75 * anatomy.middle) * (1.0 - 0.75 * belly)
    total -= _airways(u - np.float32(shift + body.turn * 0.5), v)
    total += _breasts(body, u, v) - _stomach_bubble(anatomy)
    return np.asarray(total * anatomy.trunk, np.float32)


def _airways(u: Map, v: Map) -> Map:
    """Lucency of the trachea and the main bronchi."""
    drift = 0.006 * np.clip(v / 0.3, 0, 1)
    tube = ramp(0.0155 - np.abs(u + drift), 0.010) * ramp(0.335 - v, 0.02)
    total = 0.17 * tube
    for sign, slope in ((-1.0, 0.95), (1.0, 0.62)):
        along = u * np.float32(sign) + 0.006 * sign
        line = (v - 0.33) - np.float32(slope) * along
        reach = ramp(along, 0.012) * ramp(0.072 - along, 0.03)
        total = total + 0.10 * ramp(0.012 - np.abs(line) * 0.75, 0.009) * reach
    return total


def _breasts(body: Body, u: Map, v: Map) -> Map:
    if not body.breast:
        return np.zeros((), np.float32)
    total = np.zeros_like(u)
    for sign in (-1.0, 1.0):
        du = (u * np.float32(sign) - np.float32(0.6 * body.chest)) / np.float32(0.165)
        dv = (v - np.float32(0.665 + 0.03 * body.breast)) / np.float32(0.15)
        r = np.sqrt(du * du + np.where(dv > 0, dv * dv * 1.9, dv * dv))
        total += np.clip(1.0 - r**3, 0.0, 1.0) * ramp((1.0 - r) * 0.15, 0.02)
    return np.float32(0.16 * body.breast) * total


def _stomach_bubble(anatomy: Anatomy) -> Map:
    body = anatomy.body
    place = (0.15, body.domes[1] + 0.055)
    return np.float32(0.17) * blob(anatomy.u, anatomy.v, place, (0.055, 0.028))


def hila(anatomy: Anatomy) -> Map:
    """Attenuation of the hila, [size, size]; the left one stands a little higher."""
    u, v = anatomy.u, anatomy.v
    total = blob(u, v, (-0.088, 0.435), (0.028, 0.050)) + blob(u, v, (0.092, 0.415), (0.028, 0.045))
    return np.asarray(0.15 * total + 0.06 * bump(np.abs(u) - 0.075, 0.03) * bump(v - 0.45, 0.1))
