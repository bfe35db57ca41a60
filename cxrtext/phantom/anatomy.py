"""A body in front of the detector, as soft masks on a grid: lungs, heart, mediastinum, trunk.

The unit of length is the side of the image.  In body coordinates u runs from the midline to the
image's right, which is the patient's left, and v from the top down.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.shapes import Map, bump, ramp
from cxrtext.phantom.state import SIDES, State

Floats = NDArray[np.float64]
FAT = 0.064  # thickness of the chest wall


@dataclass(frozen=True, slots=True)
class Body:
    state: State  # what it shows
    chest: float  # half the inner width of the chest
    apex: float  # v of the lungs' apices
    domes: tuple[float, float]  # v of the right and left diaphragm's dome
    heart: float  # cardiothoracic ratio
    turn: float  # shift of the front of the chest against the spine, from rotation
    tilt: float  # rotation in the image plane, in radians
    zoom: float  # magnification
    shift: tuple[float, float]  # shift (u, v) in the image
    anteroposterior: bool  # whether the rays came from the front (AP)


HEARTS = ((0.400, 0.547), (0.490, 0.595), (0.600, 0.660), (0.660, 0.730))
"""The lowest and highest cardiothoracic ratios by grade: a large normal heart looks enlarged."""


def sample_body(
    patient: np.random.Generator, study: np.random.Generator, state: State, view: str
) -> Body:
    """Draw a body from what all studies of a patient share, and what only this study has.

    Cardiomegaly is the only finding that changes it.
    """
    anteroposterior = view == "AP"
    breath = float(study.uniform(-0.015, 0.015)) - (0.012 if anteroposterior else 0.0)
    dome = 0.735 + breath + float(patient.uniform(-0.01, 0.01))
    narrowest, widest = HEARTS[state.cardiomegaly]
    place = float(study.uniform(0.0, 0.75)) + (0.25 if anteroposterior else 0.0)
    return Body(
        state=state,
        chest=float(patient.uniform(0.330, 0.380)),
        apex=float(study.uniform(0.085, 0.115)),
        domes=(dome, dome + float(study.uniform(0.012, 0.032))),
        heart=narrowest + (widest - narrowest) * place,
        turn=float(study.normal(0.0, 0.009)),
        tilt=float(np.clip(study.normal(0.0, 0.018), -0.05, 0.05)),
        zoom=float(study.uniform(1.03, 1.14)),
        shift=(float(study.normal(0.0, 0.011)), float(study.uniform(-0.015, 0.02))),
        anteroposterior=anteroposterior,
    )


@dataclass(frozen=True, slots=True)
class Lung:
    """One lung on the grid; every array is [size, size]."""

    sign: float  # -1 for the patient's right (the image's left), 1 for the left
    side: str  # "right" or "left"
    dome: float  # v of the diaphragm's dome
    lateral: Map  # distance from the midline towards this side
    height: Map  # 0 at the apex, 1 at the level of the dome
    radius: Map  # 0 at the center, 1 at the chest wall; the same array for both lungs
    floor: Map  # v of the diaphragm
    chest: Map  # mask of the half of the chest above the diaphragm, 0 to 1


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A body laid out on a pixel grid; every array is [size, size]."""

    body: Body
    size: int  # pixels along each side
    pixel: float  # side of a pixel in body coordinates
    u: Map  # body coordinate across
    v: Map  # body coordinate down
    lungs: dict[str, Lung]  # by side
    heart: Map  # mask of the heart, 0 to 1
    heart_depth: Map  # thickness of the heart, 0 to 1
    middle: Map  # mask of the mediastinum, 0 to 1
    trunk: Map  # mask of the trunk, 0 to 1

    @property
    def open(self) -> Map:
        """How much of the lungs' content shows: little of it behind the mediastinum."""
        return np.asarray(1.0 - 0.75 * self.middle, np.float32)

    def to_pixels(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Columns and rows of points in body coordinates, [...] each."""
        body = self.body
        cos, sin = np.cos(body.tilt), np.sin(body.tilt)
        du, dv = u * body.zoom, (v - 0.5) * body.zoom
        columns = 0.5 + body.shift[0] + du * cos - dv * sin
        rows = 0.5 + body.shift[1] + du * sin + dv * cos
        return columns * self.size, rows * self.size


def lung_radius(
    body: Body, lateral: Map, v: Map, *, inset: float = 0.0, lowered: float = 0.0
) -> Map:
    """How far out a point is in a lung: 0 at its center, 1 at its pleura, above 1 outside.

    ``inset`` moves the lateral border in, ``lowered`` the apex down.
    """
    apex, base = body.apex + lowered, 0.74
    rise = np.clip((np.float32(base) - v) * np.float32(1.0 / (base - apex)), 0.0, 2.0)
    center = np.float32(0.20) - np.float32(0.065) * np.minimum(rise, 1.0)
    out = lateral - center
    inner = np.float32(1.0) / (np.float32(0.02) - center)
    outer = np.float32(1.0) / (np.float32(body.chest - inset) - center)
    across = np.minimum(np.where(out > 0, out * outer, out * inner), 3.0)
    # x ** 2.5 as x * x * sqrt(x), because it is much faster.
    total = across * across * np.sqrt(across) + rise * rise * np.sqrt(rise)
    return np.asarray(total ** np.float32(0.4))


def _lung(body: Body, side: str, u: Map, v: Map, radius: Map, pixel: float) -> Lung:
    sign, dome = (-1.0, body.domes[0]) if side == "right" else (1.0, body.domes[1])
    lateral = u * np.float32(sign)
    # The diaphragm is highest medial to the middle of the lung, and falls to both sides.
    away = np.minimum((lateral - np.float32(0.17)) * np.float32(1.0 / (body.chest - 0.17)), 1.7)
    out, inner = np.maximum(away, 0.0), np.minimum(away, 0.0)
    floor = dome + np.float32(0.117) * out * out * np.sqrt(out) + 0.04 * inner * inner
    edge = max(0.008, 1.3 * pixel)
    inside = ramp((1.0 - radius) * np.float32(0.3), edge) * ramp(floor - v, edge)
    chest = inside * ramp(lateral - np.float32(0.015), edge)
    height = (v - np.float32(body.apex)) / np.float32(dome - body.apex)
    return Lung(sign, side, dome, lateral, height, radius, floor, chest)


def _heart(body: Body, u: Map, v: Map, pixel: float) -> tuple[Map, Map]:
    """The heart's mask and thickness: an outline given by its radius over the angle."""
    width = 2.0 * body.chest * body.heart
    half = width / 2.0
    tall = 0.158 + 0.30 * max(0.0, body.heart - 0.47)
    center = (0.16 * width + 0.7 * body.turn, body.domes[1] + 0.03 - tall * 0.80)
    du, dv = u - np.float32(center[0]), v - np.float32(center[1])
    # The long axis points down and to the patient's left: shear moves the apex down.
    dv = (dv - np.float32(0.22) * du) * np.float32(1.0 / tall)
    du = du * np.float32(1.0 / half)
    turns = np.deg2rad([-180.0, -150, -125, -90, -60, -40, -15, 0, 25, 50, 75, 90, 135, 180])
    radii = [1.0, 1.0, 0.985, 0.94, 0.87, 0.86, 0.93, 1.0, 1.01, 0.95, 0.88, 0.86, 0.93, 1.0]
    reach = np.interp(np.arctan2(dv, du), turns, radii).astype(np.float32)
    r2 = (du * du + dv * dv) / (reach * reach)
    rim = ramp((1.0 - np.sqrt(r2)) * np.float32(0.5 * (half + tall)), max(0.011, 1.4 * pixel))
    return rim, rim * np.sqrt(np.maximum(1.0 - r2, 0.0))


def _middle(body: Body, u: Map, v: Map, pixel: float) -> Map:
    """The mediastinum: a band with the aortic knob and the pulmonary trunk at its left."""
    # The tilt is small, so one contour by rows is enough for all columns.
    level = v[:, v.shape[1] // 2]
    wide = np.float32(1.1 if body.anteroposterior else 1.0)
    to_right = wide * np.interp(level, [0.0, 0.2, 0.5, 1.0], [0.050, 0.056, 0.068, 0.066])
    to_left = wide * np.interp(level, [0.0, 0.2, 0.3, 0.5, 1.0], [0.050, 0.056, 0.050, 0.07, 0.064])
    to_left = to_left + 0.035 * bump(level - 0.275, 0.035)
    to_left = to_left + 0.022 * bump(level - 0.39, 0.035)
    front = u - np.float32(body.turn)
    reach = np.minimum(
        to_right.astype(np.float32)[:, None] + front, to_left.astype(np.float32)[:, None] - front
    )
    return ramp(reach, max(0.014, 1.4 * pixel))


def _trunk(body: Body, u: Map, v: Map, pixel: float) -> Map:
    """The trunk with neck and shoulders, surrounded by air."""
    # The shoulder line by columns and the flanks by rows: the tilt is small.
    b = np.abs(u[u.shape[0] // 2])
    shoulder = 0.15 * np.clip((b - 0.12) / 0.38, 0.0, 2.0) ** 1.15
    # The neck rises from the shoulders in a curve.
    shoulder = shoulder - 0.30 * np.clip((0.17 - b) / 0.09, 0.0, 1.0) ** 2.2
    level = v[:, v.shape[1] // 2]
    flare = 0.19 * bump(level - 0.10, 0.19) + 0.03 * np.clip(level - 0.6, 0, 1)
    edge = max(0.012, 1.4 * pixel)
    above = ramp(v - shoulder.astype(np.float32)[None, :], edge)
    side = (np.float32(body.chest + FAT + 0.012) + flare).astype(np.float32)
    return above * ramp(side[:, None] - np.abs(u), edge)


def lay_out(body: Body, size: int) -> Anatomy:
    pixel = 1.0 / (size * body.zoom)
    line = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y = line[None, :] - np.float32(body.shift[0]), line[:, None] - np.float32(body.shift[1])
    cos, sin = np.cos([body.tilt, body.tilt - np.pi / 2]).astype(np.float32) / body.zoom
    u, v = x * cos + y * sin, y * cos - x * sin + np.float32(0.5)
    # The lungs mirror each other except for their floors.
    radius = lung_radius(body, np.abs(u), v)
    lungs = {side: _lung(body, side, u, v, radius, pixel) for side in SIDES}
    heart, middle = _heart(body, u, v, pixel), _middle(body, u, v, pixel)
    return Anatomy(body, size, pixel, u, v, lungs, *heart, middle, _trunk(body, u, v, pixel))
