"""From a study's state to the picture: attenuation, scatter, noise, exposure."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, Body, lay_out, sample_body
from cxrtext.phantom.bones import bones
from cxrtext.phantom.findings import DRAWN, HIDING, soften
from cxrtext.phantom.findings.cardiopulmonary import mediastinal_shift, pneumothorax, pruned
from cxrtext.phantom.findings.effect import Effect
from cxrtext.phantom.scanners import SCANNERS, expose, finish, marker, site
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.state import State
from cxrtext.phantom.tissue import hila, soft_tissue, vessels

STREAMS = (
    *("body", "vessels", "pneumothorax", "edema", "effusion", "pneumonia", "marker", "exposure"),
    *("dicom", "faintness", "atelectasis", "nodule", "granuloma", "hernia", "fracture"),
    *("emphysema", "fibrosis", "diaphragm", "tube", "line", "pacemaker", "drain", "wires"),
    *("collimator", "soft tissue"),
)
"""Random streams by number, so that pictures stay as they are; a new name needs none."""


@dataclass(frozen=True, slots=True)
class PlacedBox:
    finding: str  # its CheX5 name
    part: str  # where: a lobe, "right", "left", or "heart"
    bbox: tuple[float, float, float, float]  # x, y, w, h in pixels


@dataclass(frozen=True, slots=True)
class Patient:
    """Who stands before the detector, and where the randomness of the picture comes from."""

    state: State  # what is to be seen
    sex: str  # "F" or "M"
    view: str  # "AP" or "PA"
    patient_key: tuple[int, ...]  # seed of what all the patient's studies share
    study_key: tuple[int, ...]  # seed of everything else
    # How faint the findings are and how much their severity spreads; at 0 they stand out as
    # in a textbook.
    difficulty: float = 1.0

    def stream(self, name: str) -> np.random.Generator:
        """The source of randomness of one part of the picture, whatever the others draw."""
        number = STREAMS.index(name) if name in STREAMS else 1000 + crc32(name.encode())
        return np.random.default_rng([*self.study_key, number])

    def body(self) -> Body:
        return sample_body(
            np.random.default_rng(self.patient_key),
            self.stream("body"),
            self.state,
            sex=self.sex,
            anteroposterior=self.view == "AP",
            difficulty=self.difficulty,
        )


@dataclass(frozen=True, slots=True)
class Layers:
    # Attenuation, [size, size], in arbitrary units (air 0, lung about 0.4, abdomen about
    # 1.3).
    total: Map
    clean: Map  # the same without the findings that lie over the anatomy
    effects: list[Effect]  # one a finding and place


def _effects(patient: Patient, anatomy: Anatomy, marks: Map) -> tuple[list[Effect], Map]:
    """Every finding, and what is left of the vessels among them.

    Every finding has its own stream, so that it is the same whatever else is there.
    """
    effects = []
    if anatomy.body.state.cardiomegaly:
        effects.append(Effect("Cardiomegaly", "heart", np.zeros_like(anatomy.u), anatomy.heart))
    for effect, kept in pneumothorax(anatomy, patient.stream("pneumothorax")):
        effects.append(effect)
        marks = marks * kept
    for axis, drawn in DRAWN.items():
        if anatomy.body.state.present(axis):
            effects += drawn(anatomy, patient.stream(axis))
    effects = soften(effects, patient.stream("faintness"), patient.difficulty)
    for effect in effects:
        if effect.finding in HIDING:
            marks = marks * (1.0 - np.clip(np.float32(1.5) * effect.delta, 0.0, 0.85))
    return effects, marks


def attenuation(patient: Patient, size: int) -> Layers:
    """The picture before its exposure: what each pixel absorbs, and the findings in it."""
    state, body = patient.state, patient.body()
    shift = mediastinal_shift(state.effusion, state.pneumothorax)
    anatomy = lay_out(body, size, shift)
    fullness = (0.0, 0.55, 0.8, 1.0)[state.edema[0]]
    marks = vessels(anatomy, patient.stream("vessels"), fullness) + hila(anatomy) * (
        1 + 0.3 * fullness
    )
    marks = pruned(anatomy, marks * (1.0 - 0.6 * anatomy.heart_depth) * anatomy.open)
    tissue = soft_tissue(anatomy, patient.stream("soft tissue"), shift) + bones(anatomy)
    effects, kept = _effects(patient, anatomy, marks)
    letter = marker(SCANNERS[site(patient.patient_key)], patient.stream("marker"), size)
    total = tissue + kept
    # Beside the heart an opacity takes its border away; behind it little is seen.
    seen = anatomy.open * (1.0 - 0.55 * anatomy.heart)
    for effect in effects:
        total += effect.delta if effect.over_all else effect.delta * seen
    return Layers(np.maximum(total, 0.0) + letter, tissue + marks, effects)


def paint(patient: Patient, size: int) -> tuple[Map, list[Effect]]:
    """Draw one radiograph, [size, size] in [0, 1], and its findings with what they changed."""
    layers = attenuation(patient, size)
    scanner = SCANNERS[site(patient.patient_key)]
    noise = 0.6 + 0.4 * patient.difficulty
    if patient.view == "AP":
        noise *= 1.25  # portable machines give a lower dose
    picture = expose(layers.total, layers.clean, scanner, patient.stream("exposure"), noise)
    return finish(picture, scanner, patient.stream("collimator"), patient.view), layers.effects


def draw(patient: Patient, size: int) -> tuple[Map, list[PlacedBox]]:
    """Draw one radiograph, [size, size] in [0, 1], and its findings' boxes."""
    picture, effects = paint(patient, size)
    return picture, placed_boxes(effects)


def placed_boxes(effects: list[Effect]) -> list[PlacedBox]:
    return [PlacedBox(effect.finding, effect.part, effect.box()) for effect in effects]
