"""A body and how it stands before the detector, laid out as soft masks on a grid.

Lungs, heart, great vessels, diaphragm and chest wall are drawn from a body's numbers.  Lengths are
in the side of the image.  In body coordinates u runs from the midline to the image's right, which
is the patient's left, and v from the top down.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.shapes import Map, ramp, window
from cxrtext.phantom.state import SIDES, State


@dataclass(frozen=True, slots=True)
class Body:
    chest: float  # half the inner width of the chest
    apex: float  # v of the lungs' apices
    domes: tuple[float, float]  # v of the right and left diaphragm's dome
    angle: float  # how far below the dome the costophrenic angles lie
    fat: float  # thickness of the chest wall
    breast: float  # strength of the breast shadows; 0 for none
    heart: float  # cardiothoracic ratio
    heart_right: float  # share of the heart to the right of the midline
    knob: float  # radius of the aortic knob
    turn: float  # shift of the front of the chest against the spine, by rotation
    tilt: float  # rotation in the image plane, in radians
    zoom: float  # magnification
    shift: tuple[float, float]  # shift (u, v) in the image
    rib_pitch: float  # distance of neighboring ribs
    rib_drop: float  # how far a posterior rib falls towards its side
    scapula: float  # how far the shoulder blades overlap the lungs
    bend: float  # sideways bend of the spine; positive to the patient's left
    rest: tuple[float, float]  # v of the domes if neither were raised; the heart stands on them
    wobble: tuple[float, ...]  # small irregularities of the ribs, about standard normal, [22]
    cartilage: float  # how far the costal cartilages are calcified, 0 to 1
    state: State  # what is to be seen
    anteroposterior: bool  # whether the rays came from the front (AP)


HEARTS = ((0.400, 0.482), (0.555, 0.595), (0.600, 0.660), (0.660, 0.730))
"""Cardiothoracic ratios by grade of cardiomegaly, lowest and highest, at difficulty 0."""

GAP = 0.13  # how much of the gap between normal and enlarged hearts a difficulty of 1 closes


def _heart_ratio(
    generator: np.random.Generator, state: State, anteroposterior: bool, difficulty: float
) -> float:
    low, high = HEARTS[state.cardiomegaly]
    half = 0.5 * GAP * min(difficulty, 1.25)
    if state.cardiomegaly == 0:
        high += half
    elif state.cardiomegaly == 1:
        low -= half
    place = float(generator.uniform(0.0, 0.75))
    if anteroposterior:
        place += 0.25
    if state.volume == "high" or state.emphysema:
        place *= 0.4
    return low + (high - low) * place


Pair = tuple[float, float]


def _domes(study: np.random.Generator, state: State, dome: float) -> tuple[Pair, Pair]:
    """V of both domes as they are, and as they were before one was raised."""
    rest = dome, dome + float(study.uniform(0.012, 0.032))
    lift = float(study.uniform(0.075, 0.105))
    raised = (lift * (state.diaphragm == "right"), lift * (state.diaphragm == "left"))
    return (rest[0] - raised[0], rest[1] - raised[1]), rest


def sample_body(
    patient: np.random.Generator,
    study: np.random.Generator,
    state: State,
    *,
    sex: str,
    anteroposterior: bool,
    difficulty: float = 1.0,
) -> Body:
    """Draw a body from what all studies of a patient share, and from what is this study's.

    Of the findings only cardiomegaly, emphysema and a raised dome change it; the difficulty says
    how near the hearts of neighboring grades are to each other.
    """
    wide = state.volume == "high" or state.emphysema > 0
    chest = float(patient.uniform(0.335, 0.385)) - (0.012 if sex == "F" else 0.0)
    fat = float(patient.gamma(4.0, 0.011)) + 0.02
    breast = float(patient.uniform(0.25, 1.0)) if sex == "F" else 0.0
    pitch = float(patient.uniform(0.071, 0.079))
    heart_right = float(patient.uniform(0.30, 0.38))
    knob = float(patient.uniform(0.034, 0.044))
    curve = float(patient.uniform(0.022, 0.04))
    # A scoliosis is named by the side of its convexity; the patient's right is u < 0.
    bends = {"scoliosis right": -curve, "scoliosis left": curve}
    breath = {"normal": 0.0, "low": -0.075, "high": 0.05}[state.volume]
    breath = max(breath, (-1.0, 0.035, 0.055)[state.emphysema])
    breath += float(study.uniform(-0.015, 0.015)) - (0.012 if anteroposterior else 0.0)
    dome = 0.735 + breath + float(patient.uniform(-0.01, 0.01))
    apex = float(study.uniform(0.085, 0.115))
    domes, rest = _domes(study, state, dome)
    return Body(
        chest=chest + (0.006 if wide else 0.0),
        apex=apex,
        domes=domes,
        angle=float(patient.uniform(0.105, 0.13)) - (0.045 if wide else 0.0),
        fat=fat,
        breast=breast,
        heart=_heart_ratio(study, state, anteroposterior, difficulty),
        heart_right=heart_right,
        knob=knob + (0.012 if state.aorta == "tortuous" else 0.0),
        turn=float(study.normal(0.0, 0.009)),
        tilt=float(np.clip(study.normal(0.0, 0.018), -0.05, 0.05)),
        zoom=float(study.uniform(1.03, 1.14)),
        shift=(float(study.normal(0.0, 0.011)), float(study.uniform(-0.015, 0.02))),
        rib_pitch=pitch * (0.94 if state.volume == "low" else 1.0),
        rib_drop=float(patient.uniform(0.105, 0.13)) * (0.82 if wide else 1.0),
        scapula=float(study.uniform(0.0, 0.3)) + (0.5 if anteroposterior else 0.0),
        bend=bends.get(state.spine, 0.1 * (curve - 0.03)),
        rest=rest,
        wobble=tuple(patient.standard_normal(22).tolist()),
        cartilage=float(patient.uniform(0.0, 1.0)) ** 2,
        state=state,
        anteroposterior=anteroposterior,
    )


Floats = NDArray[np.float64]

SIGN = {"right": -1.0, "left": 1.0}  # of u on each side of the patient


@dataclass(frozen=True, slots=True)
class Lung:
    """One lung on the grid; every array is [size, size]."""

    sign: float  # -1 for the patient's right (the image's left), 1 for the left
    side: str  # "right" or "left"
    dome: float  # v of the diaphragm's dome
    rest: float  # the same if it were not raised
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
    u: Map  # body coordinate across
    v: Map  # body coordinate down
    right: Lung  # the patient's right lung, at the image's left
    left: Lung  # the patient's left lung
    heart: Map  # mask of the heart, 0 to 1
    heart_depth: Map  # thickness of the heart, 0 to 1
    middle: Map  # mask of the mediastinum, 0 to 1
    trunk: Map  # mask of the trunk, 0 to 1

    @property
    def pixel(self) -> float:
        return 1.0 / (self.size * self.body.zoom)

    @property
    def open(self) -> Map:
        """How much of what lies in the lungs is seen: little of it behind the mediastinum."""
        return np.asarray(1.0 - 0.75 * self.middle, np.float32)

    @property
    def lungs(self) -> tuple[Lung, Lung]:
        return self.right, self.left

    def lung_of(self, place: str) -> Lung:
        """The lung that a lobe or side belongs to."""
        return self.left if place.startswith(("left", "lingula")) else self.right

    def spine_bend(self, v: Map) -> Map:
        """How far the spine stands to the patient's left at each level."""
        wave = np.sin(np.float32(np.pi * 1.25) * v - np.float32(0.35))
        return np.asarray(np.float32(self.body.bend) * wave)

    def to_pixels(self, u: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Columns and rows of points in body coordinates, [K] each."""
        body = self.body
        cos, sin = np.cos(body.tilt), np.sin(body.tilt)
        du, dv = u * body.zoom, (v - 0.5) * body.zoom
        columns = 0.5 + body.shift[0] + du * cos - dv * sin
        rows = 0.5 + body.shift[1] + du * sin + dv * cos
        return columns * self.size, rows * self.size


def coordinates(body: Body, size: int) -> tuple[Map, Map]:
    """Body coordinates u and v of the pixels' centers, [size, size] each."""
    line = (np.arange(size, dtype=np.float32) + np.float32(0.5)) / np.float32(size)
    x = line[None, :] - np.float32(0.5 + body.shift[0])
    y = line[:, None] - np.float32(0.5 + body.shift[1])
    cos, sin = np.float32(np.cos(body.tilt)), np.float32(np.sin(body.tilt))
    zoom = np.float32(1.0 / body.zoom)
    return (x * cos + y * sin) * zoom, (y * cos - x * sin) * zoom + np.float32(0.5)


def lung_radius(
    body: Body, lateral: Map, v: Map, *, inset: float = 0.0, lowered: float = 0.0
) -> Map:
    """How far out a point lies in a lung: 0 at its center, 1 at its pleura, above 1 outside.

    ``inset`` moves the lateral border in, ``lowered`` the apex down.
    """
    apex, base = body.apex + lowered, 0.74
    rise = np.clip((np.float32(base) - v) * np.float32(1.0 / (base - apex)), 0.0, 2.0)
    center = np.float32(0.20) - np.float32(0.065) * np.minimum(rise, 1.0)
    out = lateral - center
    inner = np.float32(1.0) / (np.float32(0.02) - center)
    outer = np.float32(1.0) / (np.float32(body.chest - inset) - center)
    across = np.minimum(np.where(out > 0, out * outer, out * inner), 3.0)
    # x ** 2.5 as x * x * sqrt(x), which is much faster.
    total = across * across * np.sqrt(across) + rise * rise * np.sqrt(rise)
    return np.asarray(total ** np.float32(0.4))


def _floor(body: Body, lateral: Map, dome: float, rest: float) -> Map:
    """V of a diaphragm whose top lies inside the middle of the lung and falls to both sides."""
    away = np.minimum((lateral - np.float32(0.17)) * np.float32(1.0 / (body.chest - 0.17)), 1.7)
    out = np.maximum(away, 0.0)
    inner = np.minimum(away, 0.0)
    # The lateral edge of a raised dome stays where it was.
    fall = body.angle + (rest - dome) * 0.8
    return np.asarray(dome + fall * out * out * np.sqrt(out) + 0.04 * inner * inner, np.float32)


def _lung(body: Body, side: str, u: Map, v: Map, radius: Map) -> Lung:
    sign, number = SIGN[side], SIDES.index(side)
    lateral = u * np.float32(sign)
    dome, rest = body.domes[number], body.rest[number]
    floor = _floor(body, lateral, dome, rest)
    chest = _above(floor, radius, lateral, v, float(abs(v[1, 0] - v[0, 0])))
    height = (v - np.float32(body.apex)) / np.float32(dome - body.apex)
    return Lung(sign, side, dome, rest, lateral, height, radius, floor, chest)


def _above(floor: Map, radius: Map, lateral: Map, v: Map, pixel: float) -> Map:
    """The mask of the half of the chest above a diaphragm."""
    edge = max(0.008, 1.3 * pixel)
    inside = ramp((1.0 - radius) * np.float32(0.3), edge) * ramp(floor - v, edge)
    return inside * ramp(lateral - np.float32(0.015), edge)


def rest_chest(anatomy: "Anatomy", lung: Lung) -> Map:
    """The mask that a lung would have under a diaphragm that is not raised, [size, size]."""
    floor = _floor(anatomy.body, lung.lateral, lung.rest, lung.rest)
    return _above(floor, lung.radius, lung.lateral, anatomy.v, anatomy.pixel)


def _heart(body: Body, u: Map, v: Map, pixel: float) -> tuple[Map, Map]:
    """The heart's mask and thickness: an outline given by its radius over the angle."""
    width = 2.0 * body.chest * body.heart
    right, left = width * body.heart_right, width * (1.0 - body.heart_right)
    floor = body.rest[1] + 0.03
    half = (left + right) / 2.0
    tall = 0.158 + 0.30 * max(0.0, body.heart - 0.47)
    center = ((left - right) / 2.0 + 0.7 * body.turn, floor - tall * 0.80)
    mask, depth = np.zeros_like(u), np.zeros_like(u)
    reach_v = 1.5 * tall + 0.1
    part = window(
        u, v, (center[0] - half - 0.05, center[0] + half + 0.05), (floor - reach_v, floor + reach_v)
    )
    du, dv = u[part] - np.float32(center[0]), v[part] - np.float32(center[1])
    # The long axis points down and to the patient's left: shear moves the apex down.
    dv = (dv - np.float32(0.22) * du) * np.float32(1.0 / tall)
    du = du * np.float32(1.0 / half)
    turns = np.deg2rad([-180.0, -150, -125, -90, -60, -40, -15, 0, 25, 50, 75, 90, 135, 180])
    radii = [1.0, 1.0, 0.985, 0.94, 0.87, 0.86, 0.93, 1.0, 1.01, 0.95, 0.88, 0.86, 0.93, 1.0]
    reach = np.interp(np.arctan2(dv, du), turns, radii).astype(np.float32)
    r2 = (du * du + dv * dv) / (reach * reach)
    rim = ramp((1.0 - np.sqrt(r2)) * np.float32(0.5 * (half + tall)), max(0.011, 1.4 * pixel))
    mask[part] = rim
    depth[part] = rim * np.sqrt(np.maximum(1.0 - r2, 0.0))
    return mask, depth


def _contours(body: Body, v: Floats) -> tuple[Floats, Floats]:
    """How far the mediastinum reaches to the right and to the left at each level."""
    levels = [0.0, 0.08, 0.16, 0.20, 0.26, 0.33, 0.38, 0.43, 0.50, 0.60, 1.0]
    right = [0.05, 0.050, 0.054, 0.056, 0.058, 0.060, 0.062, 0.066, 0.068, 0.066, 0.066]
    left = [0.05, 0.052, 0.055, 0.056, 0.052, 0.048, 0.054, 0.062, 0.070, 0.066, 0.064]
    if body.state.aorta == "tortuous":
        right[3:7] = [0.072, 0.078, 0.078, 0.074]
        left[5:] = [0.064, 0.072, 0.082, 0.086, 0.078, 0.068]
    wide = 1.1 if body.anteroposterior else 1.0
    to_right, to_left = np.interp(v, levels, right) * wide, np.interp(v, levels, left) * wide
    across, down = knob_place(body)
    knob = body.knob**2 - ((v - down) * 0.85) ** 2
    bulge = across - body.turn + np.sqrt(np.maximum(knob, 0.0))
    to_left = np.where(knob > 0.0, np.maximum(to_left, bulge), to_left)
    trunk = 0.040**2 - ((v - 0.39) * 0.8) ** 2
    bulge = 0.040 + np.sqrt(np.maximum(trunk, 0.0))
    to_left = np.where(trunk > 0.0, np.maximum(to_left, bulge), to_left)
    # The azygos vein arches over the right main bronchus.
    to_right = to_right + 0.007 * np.exp(-(((v - 0.325) / 0.018) ** 2))
    return to_right, to_left


def _smooth_line(line: Floats, step: float) -> Floats:
    """Round off the corners of a contour sampled at equal steps."""
    reach = max(1, round(0.024 / abs(step)))
    weight = np.exp(-((np.arange(-reach, reach + 1) * step / 0.011) ** 2))
    padded = np.pad(line, reach, mode="edge")
    return np.asarray(np.convolve(padded, weight / weight.sum(), mode="valid"))


def _middle(body: Body, u: Map, v: Map, pixel: float) -> Map:
    """The mediastinum: a band with the aortic knob, the pulmonary trunk and the vena cava."""
    # The tilt is small, so that one contour by rows serves all columns.
    level = v[:, v.shape[1] // 2].astype(np.float64)
    to_right, to_left = (_smooth_line(line, pixel) for line in _contours(body, level))
    front = u - np.float32(body.turn)
    reach = np.minimum(
        to_right.astype(np.float32)[:, None] + front, to_left.astype(np.float32)[:, None] - front
    )
    return ramp(reach, max(0.014, 1.4 * pixel))


def knob_place(body: Body) -> tuple[float, float]:
    """Where the aortic knob's center lies, in body coordinates."""
    lift = 0.02 if body.state.aorta == "tortuous" else 0.0
    return 0.04 + 0.3 * body.knob + body.turn, 0.275 - lift


def _trunk(body: Body, u: Map, v: Map, pixel: float) -> Map:
    """The trunk with neck and shoulders against the air around it."""
    # The shoulder line by columns and the flanks by rows: the tilt is small.
    b = np.abs(u[u.shape[0] // 2])
    shoulder = 0.0 + 0.15 * np.clip((b - 0.12) / 0.38, 0.0, 2.0) ** 1.15
    # The neck rises from the shoulders in a curve.
    shoulder = shoulder - 0.30 * np.clip((0.17 - b) / 0.09, 0.0, 1.0) ** 2.2
    level = v[:, v.shape[1] // 2]
    flare = 0.19 * np.exp(-(((level - 0.10) / 0.19) ** 2)) + 0.03 * np.clip(level - 0.6, 0, 1)
    edge = max(0.012, 1.4 * pixel)
    above = ramp(v - shoulder.astype(np.float32)[None, :], edge)
    side = (np.float32(body.chest + body.fat + 0.012) + flare).astype(np.float32)
    return above * ramp(side[:, None] - np.abs(u), edge)


def lay_out(body: Body, size: int, shift: float = 0.0) -> Anatomy:
    """Lay a body out on a grid, heart and mediastinum pushed to its left by ``shift``."""
    u, v = coordinates(body, size)
    pixel = 1.0 / (size * body.zoom)
    pushed = u - np.float32(shift)
    # Both lungs are mirror images but for their floors.
    radius = lung_radius(body, np.abs(u), v)
    heart, depth = _heart(body, pushed, v, pixel)
    return Anatomy(
        body=body,
        size=size,
        u=u,
        v=v,
        right=_lung(body, "right", u, v, radius),
        left=_lung(body, "left", u, v, radius),
        heart=heart,
        heart_depth=depth,
        middle=_middle(body, pushed, v, pixel),
        trunk=_trunk(body, u, v, pixel),
    )
