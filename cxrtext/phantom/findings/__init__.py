"""The findings drawn over a body, and how faint they become."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cxrtext.phantom.anatomy import Anatomy
from cxrtext.phantom.findings import cardiopulmonary, devices, lesions
from cxrtext.phantom.findings.effect import Effect
from cxrtext.phantom.state import AXES

DRAWN: dict[str, Callable[[Anatomy, np.random.Generator], Iterator[Effect]]] = {
    "edema": cardiopulmonary.edema,
    "effusion": cardiopulmonary.effusion,
    "pneumonia": cardiopulmonary.pneumonia,
    "atelectasis": lesions.atelectasis,
    "nodule": lesions.nodule,
    "granuloma": lesions.granuloma,
    "hernia": lesions.hernia,
    "fracture": lesions.fracture,
    "emphysema": cardiopulmonary.emphysema,
    "fibrosis": cardiopulmonary.fibrosis,
    "diaphragm": cardiopulmonary.diaphragm,
    "tube": devices.tube,
    "line": devices.line,
    "pacemaker": devices.pacemaker,
    "drain": devices.drain,
    "wires": devices.wires,
}
"""What yields that which an axis adds to the attenuation, in the order of drawing.

An enlarged heart changes the body.  A pneumothorax moves the lung's border, so that ``render``
draws it with the vessels.
"""

HIDING = {"Edema", "Pleural Effusion", "Pneumonia", "Atelectasis", "Lung Lesion"}
"""Findings in which vessels are lost."""

FADING = {a.finding: a.faintness for a in AXES.values() if a.faintness is not None}
"""What the difficulty makes fainter, and by how much, in the order of the draws."""

MEAN, SPREAD, SPARED = -1.0, 0.45, 0.75
"""Logarithm of the strength that a difficulty of 1 leaves of a mild finding, its spread, and the
share of both that the severest are spared."""


def soften(
    effects: Sequence[Effect], generator: np.random.Generator, difficulty: float
) -> list[Effect]:
    """Make findings fainter, and spread how faint they are; a difficulty of 0 changes nothing."""
    luck = np.clip(generator.standard_normal(len(FADING)), -1.6, 1.6)
    own = dict(zip(FADING, luck.tolist(), strict=True))
    softened = []
    for effect in effects:
        if difficulty and effect.finding in FADING:
            scale = difficulty * FADING[effect.finding] * (1.0 - SPARED * effect.severity)
            gain = float(np.exp(scale * (MEAN + SPREAD * own[effect.finding])))
            effect = replace(effect, delta=effect.delta * np.float32(gain))
        softened.append(effect)
    return softened
