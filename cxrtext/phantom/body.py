"""A body and how it stands before the detector: the numbers that the anatomy is drawn from.

Lengths are in the side of the image.  In body coordinates u runs from the midline to the image's
right, which is the patient's left, and v from the top down.
"""

from dataclasses import dataclass

import numpy as np

from cxrtext.phantom.state import State


@dataclass(frozen=True, slots=True)
class Body:
    """One patient in one exposure."""

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


def _bend(generator: np.random.Generator, spine: str) -> float:
    size = float(generator.uniform(0.022, 0.04))
    # A scoliosis is named by the side of its convexity; the patient's right is u < 0.
    return {"scoliosis right": -size, "scoliosis left": size}.get(spine, 0.1 * (size - 0.03))


def _heart(
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
    bend = _bend(patient, state.spine)
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
        heart=_heart(study, state, anteroposterior, difficulty),
        heart_right=heart_right,
        knob=knob + (0.012 if state.aorta == "tortuous" else 0.0),
        turn=float(study.normal(0.0, 0.009)),
        tilt=float(np.clip(study.normal(0.0, 0.018), -0.05, 0.05)),
        zoom=float(study.uniform(1.03, 1.14)),
        shift=(float(study.normal(0.0, 0.011)), float(study.uniform(-0.015, 0.02))),
        rib_pitch=pitch * (0.94 if state.volume == "low" else 1.0),
        rib_drop=float(patient.uniform(0.105, 0.13)) * (0.82 if wide else 1.0),
        scapula=float(study.uniform(0.0, 0.3)) + (0.5 if anteroposterior else 0.0),
        bend=bend,
        rest=rest,
        wobble=tuple(patient.standard_normal(22).tolist()),
        cartilage=float(patient.uniform(0.0, 1.0)) ** 2,
        state=state,
        anteroposterior=anteroposterior,
    )
