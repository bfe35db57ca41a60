"""From a study's state to the picture: attenuation, scatter, noise, exposure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, lay_out
from cxrtext.phantom.body import Body, sample_body
from cxrtext.phantom.bones import bones
from cxrtext.phantom.chronic import CHRONIC, pruned
from cxrtext.phantom.devices import DEVICES
from cxrtext.phantom.effects import DROWNING, Effect, soften
from cxrtext.phantom.findings import edema, effusion, mediastinal_shift, pneumonia, pneumothorax
from cxrtext.phantom.lesions import LESIONS
from cxrtext.phantom.population import State
from cxrtext.phantom.scanners import SCANNERS, expose, finish, marker, site
from cxrtext.phantom.shapes import Map
from cxrtext.phantom.tissue import hila, soft_tissue
from cxrtext.phantom.vessels import vessels

FINDINGS: dict[int, tuple[str, Callable[[Anatomy, np.random.Generator], Iterator[Effect]]]] = {
    3: ("edema", edema),
    4: ("effusion", effusion),
    5: ("pneumonia", pneumonia),
    **dict(enumerate((LESIONS | CHRONIC | DEVICES).items(), start=10)),
}
"""The number of each finding's stream, the axis of the state, and what draws it."""

NORMAL = State()


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """Where a finding is seen.

    Args:
        finding: Its CheX5 name.
        part: Where: a lobe, "right", "left", or "heart".
        bbox: x, y, w, h in pixels.
    """

    finding: str
    part: str
    bbox: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Sitter:
    """Who stands before the detector, and where the randomness of the picture comes from.

    Args:
        state: What is to be seen.
        sex: "F" or "M".
        view: "AP" or "PA".
        patient_key: Seed of what all the patient's studies share.
        study_key: Seed of everything else.
        difficulty: How faint the findings are and how much their severity spreads; at 0 they
            stand out as in a textbook.
    """

    state: State
    sex: str
    view: str
    patient_key: tuple[int, ...]
    study_key: tuple[int, ...]
    difficulty: float = 1.0

    def stream(self, number: int) -> np.random.Generator:
        """An own source of randomness for each part of the picture."""
        return np.random.default_rng([*self.study_key, number])

    def body(self) -> Body:
        """The body."""
        return sample_body(
            np.random.default_rng(self.patient_key),
            self.stream(0),
            self.state,
            sex=self.sex,
            anteroposterior=self.view == "AP",
            difficulty=self.difficulty,
        )


@dataclass(frozen=True, slots=True)
class Layers:
    """What a picture is made of.

    Args:
        total: Attenuation, [size, size], in arbitrary units (air 0, lung about 0.4, abdomen about
            1.3).
        clean: The same without the findings that lie over the anatomy.
        effects: One a finding and place.
    """

    total: Map
    clean: Map
    effects: list[Effect]


def _effects(sitter: Sitter, anatomy: Anatomy, marks: Map) -> tuple[list[Effect], Map]:
    """Every finding, and what is left of the vessels among them.

    Every finding has its own stream, so that it is the same whatever else is there.
    """
    effects = [Effect("Cardiomegaly", "heart", np.zeros_like(anatomy.u), anatomy.heart)]
    if not anatomy.body.state.cardiomegaly:
        effects.clear()
    for effect, kept in pneumothorax(anatomy, sitter.stream(2)):
        effects.append(effect)
        marks = marks * kept
    # Each axis has its stream, whether the others are normal or not.
    for number, (axis, finding) in FINDINGS.items():
        if getattr(anatomy.body.state, axis) != getattr(NORMAL, axis):
            effects += finding(anatomy, sitter.stream(number))
    effects = soften(effects, sitter.stream(9), sitter.difficulty)
    for effect in effects:
        if effect.finding in DROWNING:
            # Vessels drown in what surrounds them.
            marks = marks * (1.0 - np.clip(np.float32(1.5) * effect.delta, 0.0, 0.85))
    return effects, marks


def attenuation(sitter: Sitter, size: int) -> Layers:
    """The attenuation seen by each pixel, and the findings in it.

    Args:
        sitter: Who is drawn.
        size: Pixels along each side.

    Returns:
        The picture before its exposure.
    """
    state, body = sitter.state, sitter.body()
    shift = mediastinal_shift(state.effusion, state.pneumothorax)
    anatomy = lay_out(body, size, shift)
    fullness = (0.0, 0.55, 0.8, 1.0)[state.edema[0]]
    marks = vessels(anatomy, sitter.stream(1), fullness) + hila(anatomy) * (1 + 0.3 * fullness)
    marks = pruned(anatomy, marks * (1.0 - 0.6 * anatomy.heart_depth) * anatomy.open)
    tissue = soft_tissue(anatomy, sitter.stream(24), shift) + bones(anatomy)
    effects, kept = _effects(sitter, anatomy, marks)
    letter = marker(SCANNERS[site(sitter.patient_key)], sitter.stream(6), size)
    clean = tissue + marks
    total = tissue + kept
    # Beside the heart an opacity takes its border away; behind it little is seen.
    seen = anatomy.open * (1.0 - 0.55 * anatomy.heart)
    for effect in effects:
        total += effect.delta if effect.over_all else effect.delta * seen
    return Layers(np.maximum(total, 0.0) + letter, clean, effects)


def paint(sitter: Sitter, size: int) -> tuple[Map, list[Effect]]:
    """Draw one radiograph.

    Args:
        sitter: Who is drawn.
        size: Pixels along each side.

    Returns:
        [size, size] in [0, 1], and the findings with the masks of what they changed.
    """
    layers = attenuation(sitter, size)
    scanner = SCANNERS[site(sitter.patient_key)]
    noise = 0.6 + 0.4 * sitter.difficulty
    if sitter.view == "AP":
        noise *= 1.25  # portable machines give a lower dose
    picture = expose(layers.total, layers.clean, scanner, sitter.stream(7), noise)
    return finish(picture, scanner, sitter.stream(23), sitter.view), layers.effects


def draw(sitter: Sitter, size: int) -> tuple[Map, list[PlacedBox]]:
    """Draw one radiograph.

    Args:
        sitter: Who is drawn.
        size: Pixels along each side.

    Returns:
        [size, size] in [0, 1], and the findings' boxes.
    """
    picture, effects = paint(sitter, size)
    return picture, placed_boxes(effects)


def placed_boxes(effects: list[Effect]) -> list[PlacedBox]:
    """The boxes round the findings."""
    return [PlacedBox(effect.finding, effect.part, effect.box()) for effect in effects]
