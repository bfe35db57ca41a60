"""A body and how it stands before the detector: the numbers that the anatomy is drawn from.

Lengths are in the side of the image.  In body coordinates u runs from the midline to the image's
right, which is the patient's left, and v from the top down.
"""

from dataclasses import dataclass

import numpy as np

from cxrtext.phantom.population import State


@dataclass(frozen=True, slots=True)
class Body:
    """One patient in one exposure.

    Args:
        chest: Half the inner width of the chest.
        apex: v of the lungs' apices.
        domes: v of the right and left diaphragm's dome.
        angle: How far below the dome the costophrenic angles lie.
        fat: Thickness of the chest wall.
        breast: Strength of the breast shadows; 0 for none.
        heart: Cardiothoracic ratio.
        heart_right: Share of the heart to the right of the midline.
        knob: Radius of the aortic knob.
        turn: Shift of the front of the chest against the spine, by rotation.
        tilt: Rotation in the image plane, in radians.
        zoom: Magnification.
        shift: Shift (u, v) in the image.
        rib_pitch: Distance of neighbouring ribs.
        rib_drop: How far a posterior rib falls towards its side.
        scapula: How far the shoulder blades overlap the lungs.
        bend: Sideways bend of the spine; positive to the patient's left.
        state: What is to be seen.
        anteroposterior: Whether the rays came from the front (AP).
    """

    chest: float
    apex: float
    domes: tuple[float, float]
    angle: float
    fat: float
    breast: float
    heart: float
    heart_right: float
    knob: float
    turn: float
    tilt: float
    zoom: float
    shift: tuple[float, float]
    rib_pitch: float
    rib_drop: float
    scapula: float
    bend: float
    state: State
    anteroposterior: bool


HEARTS = ((0.400, 0.482), (0.555, 0.595), (0.600, 0.660), (0.660, 0.730))
"""Cardiothoracic ratios by grade of cardiomegaly, lowest and highest."""


def _bend(generator: np.random.Generator, spine: str) -> float:
    size = float(generator.uniform(0.022, 0.04))
    # A scoliosis is named by the side of its convexity; the patient's right is u < 0.
    return {"scoliosis right": -size, "scoliosis left": size}.get(spine, 0.1 * (size - 0.03))


def _heart(generator: np.random.Generator, state: State, anteroposterior: bool) -> float:
    low, high = HEARTS[state.cardiomegaly]
    place = float(generator.uniform(0.0, 0.75))
    if anteroposterior:
        place += 0.25
    if state.volume == "high":
        place *= 0.4
    return low + (high - low) * place


def sample_body(
    patient: np.random.Generator,
    study: np.random.Generator,
    state: State,
    *,
    sex: str,
    anteroposterior: bool,
) -> Body:
    """Draw a body.

    Args:
        patient: Randomness that all studies of the patient share.
        study: Randomness of this study.
        state: What is to be seen.
        sex: "F" or "M".
        anteroposterior: Whether the view is AP rather than PA.

    Returns:
        The body; findings change nothing of it but the heart's width.
    """
    chest = float(patient.uniform(0.335, 0.385)) - (0.012 if sex == "F" else 0.0)
    fat = float(patient.gamma(4.0, 0.011)) + 0.02
    breast = float(patient.uniform(0.25, 1.0)) if sex == "F" else 0.0
    pitch = float(patient.uniform(0.071, 0.079))
    heart_right = float(patient.uniform(0.30, 0.38))
    knob = float(patient.uniform(0.036, 0.046))
    bend = _bend(patient, state.spine)
    breath = {"normal": 0.0, "low": -0.075, "high": 0.05}[state.volume]
    breath += float(study.uniform(-0.015, 0.015)) - (0.012 if anteroposterior else 0.0)
    dome = 0.735 + breath + float(patient.uniform(-0.01, 0.01))
    flat = 0.045 if state.volume == "high" else 0.0
    return Body(
        chest=chest + (0.006 if state.volume == "high" else 0.0),
        apex=float(study.uniform(0.085, 0.115)),
        domes=(dome, dome + float(study.uniform(0.012, 0.032))),
        angle=float(patient.uniform(0.105, 0.13)) - flat,
        fat=fat,
        breast=breast,
        heart=_heart(study, state, anteroposterior),
        heart_right=heart_right,
        knob=knob + (0.014 if state.aorta == "tortuous" else 0.0),
        turn=float(study.normal(0.0, 0.007)),
        tilt=float(np.clip(study.normal(0.0, 0.018), -0.05, 0.05)),
        zoom=float(study.uniform(0.97, 1.07)),
        shift=(float(study.normal(0.0, 0.011)), float(study.uniform(-0.015, 0.02))),
        rib_pitch=pitch * (0.94 if state.volume == "low" else 1.0),
        rib_drop=float(patient.uniform(0.09, 0.125)),
        scapula=float(study.uniform(0.0, 0.3)) + (0.5 if anteroposterior else 0.0),
        bend=bend,
        state=state,
        anteroposterior=anteroposterior,
    )
