"""Findings and devices, and what each adds to the attenuation of a body.

A finding changes nothing outside its box, apart from scattered light and the edge filter; an
enlarged heart changes the body itself.  Grades change size and density together, each with some
spread, so that neighboring grades look different and are not just named differently.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, Lung, lung_radius
from cxrtext.phantom.shapes import Map, blob, bump, ramp, strokes, texture
from cxrtext.phantom.state import side_of
from cxrtext.phantom.tissue import CARINA, HILA

Path = Sequence[tuple[float, float]]
EDGE = 0.15  # a box surrounds the pixels where the extent passes this share of its maximum

LOBE_PLACES = {
    "right upper lobe": (0.56, 0.28, 0.125, 0.105),
    "right middle lobe": (0.44, 0.80, 0.115, 0.085),
    "right lower lobe": (0.66, 0.88, 0.125, 0.110),
    "left upper lobe": (0.56, 0.30, 0.125, 0.115),
    "lingula": (0.58, 0.72, 0.100, 0.080),
    "left lower lobe": (0.68, 0.93, 0.115, 0.105),
}
"""Center across (share of the chest's half width) and down (lung height), and radii."""


@dataclass(frozen=True, slots=True)
class Effect:
    finding: str  # its name, as in the boxes and labels
    part: str  # where: a lobe, "right", "left", "heart" or "trachea"
    delta: Map  # what it adds to the attenuation, [size, size]
    extent: Map  # what its box surrounds, [size, size]; see ``EDGE``
    over_all: bool = False  # whether it shows even over heart and mediastinum

    def box(self) -> tuple[float, float, float, float]:
        """x, y, w, h in pixels around the mask."""
        inside = self.extent > EDGE * float(self.extent.max())
        columns, rows = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
        x, y = int(columns[0]), int(rows[0])
        return float(x), float(y), float(columns[-1] + 1 - x), float(rows[-1] + 1 - y)


def pick(generator: np.random.Generator, *ranges: tuple[float, float]) -> list[float]:
    """Draw one number from each range."""
    return [float(generator.uniform(low, high)) for low, high in ranges]


def _wire(anatomy: Anatomy, path: Path, width: float) -> Map:
    """One line, with its width in body coordinates, [size, size] in [0, 1]."""
    points = np.stack(anatomy.to_pixels(*np.asarray(path, np.float64).T), axis=1).tolist()
    return strokes(anatomy.size, [(points, width * anatomy.size * anatomy.body.zoom, 1.0)])


def _gain(generator: np.random.Generator, faintness: float, grade: int) -> float:
    """How much of a finding's density is left: severe ones always show, mild ones often do not."""
    luck = float(np.clip(generator.standard_normal(), -1.6, 1.6))
    return float(np.exp(faintness * (1.375 - 0.375 * grade) * (0.45 * luck - 1.0)))


def cardiomegaly(anatomy: Anatomy, _: np.random.Generator) -> Iterator[Effect]:
    yield Effect("Cardiomegaly", "heart", np.zeros_like(anatomy.u), anatomy.heart)


def edema(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Haze around both hila, spreading with the grade."""
    grade = anatomy.body.state.edema
    gain = _gain(generator, 1.3, grade)
    strength, reach = pick(
        generator,
        ((0.10, 0.15), (0.21, 0.28), (0.34, 0.44))[grade - 1],
        ((0.125, 0.15), (0.155, 0.18), (0.19, 0.23))[grade - 1],
    )
    noise = texture(generator, anatomy.size, (7, 14, 28, 56), 0.75)
    for lung in anatomy.lungs.values():
        across, down = HILA[lung.side]
        radii = (1.3 * reach, 1.6 * reach)
        haze = blob(lung.lateral, anatomy.v, (across + 0.055, down + 0.06), radii)
        # Cut off where it would be too faint to see, so that it ends inside its box.
        haze = np.clip(1.3 * haze - 0.3, 0.0, 1.0)
        away = lung.radius * lung.radius
        haze *= np.clip(1.4 - away * away, 0.0, 1.0)
        smooth = lung.chest * haze
        haze *= np.clip(1.0 + 0.28 * noise, 0.2, 2.0)
        delta = gain * strength * lung.chest * haze
        yield Effect("Edema", lung.side, np.asarray(delta, np.float32), smooth)


def effusion(anatomy: Anatomy, generator: np.random.Generator, *, side: str) -> Iterator[Effect]:
    """Fluid below a meniscus that rises towards the chest wall."""
    lung = anatomy.lungs[side]
    grade = getattr(anatomy.body.state, f"effusion_{side}")
    level, rise, density = pick(
        generator,
        ((0.02, 0.045), (-0.12, -0.055), (-0.36, -0.22))[grade - 1],
        (0.065, 0.095),
        (0.46, 0.54),
    )
    wall = np.clip(anatomy.body.chest - lung.lateral, 0.0, 1.0)
    middle = np.clip(lung.lateral - 0.04, 0.0, 1.0)
    inner = 0.35 * np.exp(-middle / 0.05) if grade > 1 else 0.0
    surface = lung.dome + level - rise * (np.exp(-wall / 0.05) + inner)
    depth = np.clip((anatomy.v - surface) / 0.07, 0.0, 1.0) ** np.float32(0.6)
    density *= _gain(generator, 1.1, grade)
    delta = np.asarray(density * lung.chest * depth * _depth(lung), np.float32)
    extent = np.asarray(delta * anatomy.open * (1.0 - 0.55 * anatomy.heart), np.float32)
    yield Effect("Pleural Effusion", side, delta, extent)


def _depth(lung: Lung) -> Map:
    """How much air there is to replace: less near the chest wall, 0 to 1."""
    thick = np.sqrt(np.clip(1.0 - lung.radius * lung.radius, 0.0, 1.0))
    return np.minimum(0.40 + 0.75 * thick, 1.0)


def pneumonia(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Patchy to dense consolidation in a lobe, with ragged edges, cut off at the fissures."""
    grade, lobe = anatomy.body.state.pneumonia
    lung = anatomy.lungs[side_of(lobe)]
    noise = texture(generator, anatomy.size, (7, 14, 28, 56), 0.55)
    across, down, wide, tall = LOBE_PLACES[lobe]
    across += float(generator.normal(0.0, 0.05))
    down += float(generator.normal(0.0, 0.035))
    grow = (0.80, 1.0, 1.22)[grade - 1] * float(generator.uniform(0.9, 1.1))
    du = (lung.lateral - np.float32(across * anatomy.body.chest)) / np.float32(wide * grow)
    span = lung.dome - anatomy.body.apex
    dv = (lung.height - np.float32(down)) * np.float32(span / (tall * grow))
    spread = ramp(1.0 - np.sqrt(du * du + dv * dv) + 0.18 * noise, 0.9 if grade == 1 else 0.65)
    below = lung.height - 0.55 - 0.05 * du
    if lobe in ("right upper lobe", "right middle lobe"):
        spread = spread * ramp(-below if lobe == "right upper lobe" else below, 0.03)
    patch = np.asarray(lung.chest * spread, np.float32)
    density = pick(generator, ((0.21, 0.27), (0.30, 0.38), (0.40, 0.50))[grade - 1])[0]
    density *= _gain(generator, 0.8, grade)
    delta = density * patch * _depth(lung) * np.clip(1.0 + 0.16 * noise, 0.4, 1.6)
    yield Effect("Pneumonia", lobe, np.asarray(delta, np.float32), patch)


def pneumothorax(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Air above a lung that has collapsed from the apex, with its thin pleural line."""
    grade, side = anatomy.body.state.pneumothorax
    lung = anatomy.lungs[side]
    size = float(generator.uniform(0.0, 1.0)) + 1.6 * (grade - 1)
    lucency, line_strength = pick(generator, (0.12, 0.16), (0.15, 0.21))
    lowered, inset = 0.065 + 0.033 * size, 0.014 + 0.012 * size
    radius = lung_radius(anatomy.body, lung.lateral, anatomy.v, inset=inset, lowered=lowered)
    # Distance into the lung, which touches the wall again further down.
    inward = (1.0 - radius) * np.float32(0.26)
    inward += 0.35 * np.clip(anatomy.v - np.float32(0.36 + 0.05 * size), 0.0, 1.0)
    line = lung.chest * bump(inward, max(0.0042, 0.75 * anatomy.pixel))
    inside = ramp((1.0 - lung.radius) * np.float32(0.3) - 0.006, 0.008)
    gap = lung.chest * (1.0 - ramp(inward, max(0.004, 1.2 * anatomy.pixel)))
    gain = _gain(generator, 0.7, grade)
    delta = gain * (line_strength * line * inside - lucency * gap)
    yield Effect("Pneumothorax", side, np.asarray(delta, np.float32), gap)


LINES: dict[str, Path] = {
    "right ij": [(-0.085, -0.06), (-0.068, 0.06), (-0.052, 0.18), (-0.050, 0.30)],
    "left ij": [(0.085, -0.06), (0.066, 0.06), (0.045, 0.17), (-0.02, 0.235), (-0.049, 0.29)],
    "right picc": [(-0.56, 0.38), (-0.47, 0.20), (-0.36, 0.135), (-0.20, 0.145), (-0.05, 0.26)],
    "left picc": [(0.56, 0.38), (0.47, 0.20), (0.36, 0.135), (0.20, 0.145), (-0.04, 0.28)],
}
"""Paths of central lines to the superior vena cava, in body coordinates."""


def _device(finding: str, part: str, delta: Map) -> Effect:
    """A device; its mask is widened by a pixel so that a thin line stays in one piece."""
    wide = np.pad(delta, 1)
    grown = np.max([wide[1:-1, :-2], wide[1:-1, 2:], wide[:-2, 1:-1], wide[2:, 1:-1]], axis=0)
    return Effect(finding, part, np.asarray(delta, np.float32), grown, over_all=True)


def tube(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """An endotracheal tube: its tip some 4 cm above the carina, or in the right bronchus."""
    side, depth = pick(generator, (-0.004, 0.004), (-0.012, 0.012))
    turn = 0.5 * anatomy.body.turn
    path = [(0.0, -0.15), (turn + side, 0.05)]
    if anatomy.body.state.tube == "low":
        path += [(turn - 0.010, 0.30), (turn - 0.028, 0.355), (turn - 0.050, 0.385 + depth)]
    else:
        path += [(turn + side - 0.004, CARINA - 0.105 + depth)]
    # A faint wall all over, and a dense stripe along one side.
    stripe = [(u + 0.0064, v) for u, v in path]
    delta = 0.07 * _wire(anatomy, path, 0.017) + 0.15 * _wire(anatomy, stripe, 0.0036)
    yield _device("Endotracheal Tube", "trachea", delta)


def line(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    entry = anatomy.body.state.line
    jitter = generator.normal(0.0, 0.006, size=(6, 2)).tolist()
    tip = (-0.052 + 0.5 * anatomy.body.turn, 0.40 + float(generator.uniform(-0.03, 0.05)))
    path = [
        (u + du, v + dv) for (u, v), (du, dv) in zip([*LINES[entry], tip], jitter, strict=False)
    ]
    yield _device("Central Line", side_of(entry), 0.19 * _wire(anatomy, path, 0.0055))


DRAWN: dict[str, Callable[[Anatomy, np.random.Generator], Iterator[Effect]]] = {
    "cardiomegaly": cardiomegaly,
    "pneumothorax": pneumothorax,
    "edema": edema,
    "effusion_right": partial(effusion, side="right"),
    "effusion_left": partial(effusion, side="left"),
    "pneumonia": pneumonia,
    "tube": tube,
    "line": line,
}
"""By axis, the function that yields what an abnormal value adds."""
