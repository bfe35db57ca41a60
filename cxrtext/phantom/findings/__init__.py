"""The findings drawn over a body: one entry each says what draws it and how faint it becomes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxrtext.phantom.anatomy import Anatomy
from cxrtext.phantom.findings import cardiopulmonary, devices, lesions
from cxrtext.phantom.findings.effect import Effect


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding."""

    name: str  # as in the boxes and labels
    axis: str  # of the state; it names the finding's random stream too
    # Yields what it adds to the attenuation; None where the picture draws it otherwise.
    draw: Callable[[Anatomy, np.random.Generator], Iterator[Effect]] | None
    # How much more or less than others it is made fainter, where it fades at all: devices are
    # as dense as ever.
    faintness: float = 1.0
    hides_vessels: bool = False  # whether vessels are lost in it


FINDINGS = (
    Finding("Pneumothorax", "pneumothorax", None, 0.7),
    Finding("Edema", "edema", cardiopulmonary.edema, 1.3, hides_vessels=True),
    Finding("Pleural Effusion", "effusion", cardiopulmonary.effusion, 1.1, hides_vessels=True),
    Finding("Pneumonia", "pneumonia", cardiopulmonary.pneumonia, 0.8, hides_vessels=True),
    Finding("Atelectasis", "atelectasis", lesions.atelectasis, hides_vessels=True),
    Finding("Lung Lesion", "nodule", lesions.nodule, hides_vessels=True),
    Finding("Granuloma", "granuloma", lesions.granuloma),
    Finding("Hiatal Hernia", "hernia", lesions.hernia, 0.45),
    Finding("Fracture", "fracture", lesions.fracture, 0.45),
    Finding("Emphysema", "emphysema", cardiopulmonary.emphysema),
    Finding("Fibrosis", "fibrosis", cardiopulmonary.fibrosis),
    Finding("Elevated Hemidiaphragm", "diaphragm", cardiopulmonary.raised_dome),
    Finding("Endotracheal Tube", "tube", devices.tube),
    Finding("Central Line", "line", devices.line),
    Finding("Pacemaker", "pacemaker", devices.pacemaker),
    Finding("Chest Tube", "drain", devices.drain),
    Finding("Sternotomy Wires", "wires", devices.wires),
)
"""A pneumothorax moves the lung's border, so that ``render`` draws it with the vessels."""

FADING = (
    "Pneumothorax",
    "Edema",
    "Pleural Effusion",
    "Pneumonia",
    "Atelectasis",
    "Lung Lesion",
    "Granuloma",
    "Emphysema",
    "Fibrosis",
    "Hiatal Hernia",
    "Fracture",
)
"""What the difficulty makes fainter, in the order of the draws; a new one comes last."""

MEAN, SPREAD, SPARED = -1.0, 0.45, 0.75
"""Logarithm of the strength that a difficulty of 1 leaves of a mild finding, its spread, and the
share of both that the severest are spared."""


def soften(
    effects: Sequence[Effect], generator: np.random.Generator, difficulty: float
) -> list[Effect]:
    """Make findings fainter, and spread how faint they are; a difficulty of 0 changes nothing."""
    luck = np.clip(generator.standard_normal(len(FADING)), -1.6, 1.6)
    faintness = {finding.name: finding.faintness for finding in FINDINGS}
    softened = []
    for effect in effects:
        if difficulty and effect.finding in FADING:
            own = float(luck[FADING.index(effect.finding)])
            scale = difficulty * faintness[effect.finding] * (1.0 - SPARED * effect.severity)
            gain = float(np.exp(scale * (MEAN + SPREAD * own)))
            effect = replace(effect, delta=effect.delta * np.float32(gain))
        softened.append(effect)
    return softened
