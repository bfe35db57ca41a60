"""From a study's state to the picture: attenuation, scatter, noise, exposure."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, hila, lay_out, soft_tissue
from cxrtext.phantom.body import Body, sample_body
from cxrtext.phantom.bones import bones
from cxrtext.phantom.findings import (
    Effect,
    edema,
    effusion,
    mediastinal_shift,
    pneumonia,
    pneumothorax,
)
from cxrtext.phantom.population import State
from cxrtext.phantom.shapes import Map, blur, glow, strokes
from cxrtext.phantom.vessels import vessels

LETTERS: dict[str, list[list[tuple[float, float]]]] = {
    "L": [[(0, 0), (0, 1), (0.6, 1)]],
    "R": [
        [(0, 1), (0, 0), (0.55, 0), (0.62, 0.25), (0.5, 0.5), (0, 0.5)],
        [(0.25, 0.5), (0.65, 1)],
    ],
}
"""The strokes of the side markers, in letter heights."""


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
    """

    state: State
    sex: str
    view: str
    patient_key: tuple[int, ...]
    study_key: tuple[int, ...]

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
        )


def attenuation(sitter: Sitter, size: int) -> tuple[Map, list[Effect]]:
    """The attenuation seen by each pixel, and the findings in it.

    Args:
        sitter: Who is drawn.
        size: Pixels along each side.

    Returns:
        [size, size] in arbitrary units (air 0, lung about 0.4, abdomen about 1.4), and one effect
        a finding and place.
    """
    state, body = sitter.state, sitter.body()
    shift = mediastinal_shift(state.effusion, state.pneumothorax)
    anatomy = lay_out(body, size, shift)
    effects = [Effect("Cardiomegaly", "heart", np.zeros_like(anatomy.u), anatomy.heart)]
    if not state.cardiomegaly:
        effects.clear()
    fullness = (0.0, 0.55, 0.8, 1.0)[state.edema[0]]
    lung_marks = vessels(anatomy, sitter.stream(1), fullness) + hila(anatomy) * (1 + 0.3 * fullness)
    lung_marks = lung_marks * (1.0 - 0.6 * anatomy.heart_depth)
    for effect, kept in pneumothorax(anatomy, sitter.stream(2)):
        effects.append(effect)
        lung_marks = lung_marks * kept
    effects += edema(anatomy, sitter.stream(3))
    for opacity in chain(effusion(anatomy, sitter.stream(4)), pneumonia(anatomy, sitter.stream(5))):
        effects.append(opacity)
        # Vessels drown in what surrounds them.
        lung_marks = lung_marks * (1.0 - np.clip(1.5 * opacity.delta, 0.0, 0.85))
    total = soft_tissue(anatomy, shift) + bones(anatomy) + lung_marks
    for effect in effects:
        total += effect.delta * anatomy.open
    return np.maximum(total, 0.0) + _marker(anatomy, sitter.stream(6)), effects


def _marker(anatomy: Anatomy, generator: np.random.Generator) -> Map:
    """The lead letter that marks a side of the patient."""
    letter = "R" if generator.random() < 0.5 else "L"
    column = 0.07 if letter == "R" else 0.90
    x, y = column + float(generator.uniform(-0.02, 0.02)), float(generator.uniform(0.05, 0.10))
    size = anatomy.size
    tall = 0.042 * size
    lines = [
        ([(x * size + px * tall, y * size + py * tall) for px, py in path], 0.008 * size, 1.0)
        for path in LETTERS[letter]
    ]
    return np.float32(1.3) * strokes(size, lines)


def expose(total: Map, generator: np.random.Generator, size: int) -> Map:
    """Turn attenuation into grey values: scatter, quantum noise, the exposure curve.

    Args:
        total: Attenuation, [size, size].
        generator: The source of randomness.
        size: Pixels along each side.

    Returns:
        [size, size] in [0, 1], bright where much is absorbed.
    """
    scatter, dose, centre, width = (
        float(generator.uniform(low, high))
        for low, high in ((0.03, 0.10), (0.004, 0.011), (0.86, 0.98), (0.21, 0.27))
    )
    light = np.exp(np.float32(-2.2) * total)
    light = light + np.float32(scatter) * glow(np.minimum(light, 0.4), 0.035)
    # Quanta are counted on the detector, so a coarser picture holds more of them a pixel.
    grain = generator.standard_normal((size, size), dtype=np.float32)
    sharpness = np.float32(dose * size / 512)
    if size >= 384:
        # The scintillator spreads light over neighbouring pixels.
        grain = blur(grain, 1.0) * np.float32(3.0)
    seen = light + grain * sharpness * np.sqrt(light)
    density = np.log(np.maximum(seen, 1e-4)) / np.float32(-2.2)
    value = 1.0 / (1.0 + np.exp((np.float32(centre) - density) / np.float32(width)))
    dark = 1.0 / (1.0 + np.exp((centre + 0.05) / width))
    return np.asarray(np.clip((value - dark) / (1.0 - dark), 0.0, 1.0), np.float32)


def draw(sitter: Sitter, size: int) -> tuple[Map, list[PlacedBox]]:
    """Draw one radiograph.

    Args:
        sitter: Who is drawn.
        size: Pixels along each side.

    Returns:
        [size, size] in [0, 1], and the findings' boxes.
    """
    total, effects = attenuation(sitter, size)
    boxes = [PlacedBox(effect.finding, effect.part, effect.box()) for effect in effects]
    return expose(total, sitter.stream(7), size), boxes
