"""From a study's state to the picture: attenuation, scatter, noise, exposure."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from cxrtext.phantom.anatomy import lay_out, sample_body
from cxrtext.phantom.findings import DRAWN, Effect
from cxrtext.phantom.shapes import Map, coarse
from cxrtext.phantom.state import State
from cxrtext.phantom.tissue import bones, soft_tissue, vessels


@dataclass(frozen=True, slots=True)
class Patient:
    """Who is in front of the detector, and the seeds of the picture."""

    state: State  # what the picture shows
    view: str  # "AP" or "PA"
    patient_key: tuple[int, ...]  # seed for what all the patient's studies share
    study_key: tuple[int, ...]  # seed for everything else

    def stream(self, name: str) -> np.random.Generator:
        """The random generator for one part of the picture, independent of other parts."""
        return np.random.default_rng([*self.study_key, crc32(name.encode())])


def draw(patient: Patient, size: int) -> tuple[Map, list[Effect]]:
    """Draw one radiograph, [size, size] in [0, 1], and its findings with their effects."""
    own = np.random.default_rng(patient.patient_key)
    body = sample_body(own, patient.stream("body"), patient.state, patient.view)
    anatomy = lay_out(body, size)
    fullness = (0.0, 0.55, 0.8, 1.0)[patient.state.edema]
    marks = vessels(anatomy, patient.stream("vessels"), fullness)
    tissue = soft_tissue(anatomy, patient.stream("soft tissue")) + bones(anatomy)
    clean = tissue + marks
    effects = [
        effect
        for axis, drawn in DRAWN.items()
        if patient.state.present(axis)
        for effect in drawn(anatomy, patient.stream(axis))
    ]
    # Vessels are lost in an opacity, and there are none outside a collapsed lung.
    for effect in effects:
        if effect.finding == "Pneumothorax":
            marks = marks * (1.0 - effect.extent)
        elif not effect.over_all:
            marks = marks * (1.0 - np.clip(1.5 * effect.delta, 0.0, 0.85))
    total = tissue + marks
    # An opacity beside the heart hides its border; behind the heart little of it shows.
    seen = anatomy.open * (1.0 - 0.55 * anatomy.heart)
    for effect in effects:
        total = total + effect.delta * (1.0 if effect.over_all else seen)
    noise = 1.25 if patient.view == "AP" else 1.0  # portable machines give a lower dose
    return _expose(np.maximum(total, 0.0), clean, patient.stream("exposure"), noise), effects


def _expose(total: Map, clean: Map, generator: np.random.Generator, noise: float) -> Map:
    """Turn attenuation into gray values: scatter, quantum noise, processing, contrast curve.

    Args:
        clean: The same without findings; it sets brightness and leveling, so that a finding changes
            nothing far away.
    """
    size = total.shape[0]
    center, width, dose = generator.uniform((0.49, 0.216, 0.8), (0.55, 0.264, 1.3)).tolist()
    light = np.exp(np.float32(-2.2) * total)
    light = light + np.float32(0.05) * coarse(np.minimum(light, np.float32(0.4)), 12)
    # The detector counts quanta, so a coarser picture has more of them in each pixel.
    grain = generator.standard_normal((size, size), dtype=np.float32)
    seen = light + grain * np.float32(0.008 * dose * noise * size / 512) * np.sqrt(light)
    density = np.log(np.maximum(seen, np.float32(2e-3))) * np.float32(1 / -2.2)
    # The picture's contrast is set for the densities of lungs and abdomen.
    step = max(1, size // 64)
    body = clean[::step, ::step]
    low, high = np.quantile(body[body > 0.25], (0.04, 0.97)) + np.array([-0.13, 0.05])
    small = coarse(np.clip(clean, np.float32(low), np.float32(1.7)), 12)
    density -= np.float32(0.28) * (small - np.float32(0.5 * (low + high)))
    density += np.float32(0.35) * (density - coarse(density, 110))
    shown = (density - np.float32(low)) * np.float32(1.0 / (high - low))
    # A sigmoid, scaled to be 0 at and below 0, and 1 at and above 1.
    ends = [1.0 / (1.0 + np.exp((center - x) / width)) for x in (-0.22, 1.06)]
    value = 1.0 / (1.0 + np.exp((np.float32(center) - shown) * np.float32(1.0 / width)))
    value = (value - np.float32(ends[0])) * np.float32(1.0 / (ends[1] - ends[0]))
    return np.asarray(np.clip(value, 0.0, 1.0), np.float32)
