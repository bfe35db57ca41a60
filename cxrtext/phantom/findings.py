"""The findings, as what each adds to the attenuation of a body.

All are added before the exposure curve.  Grades change size and density together, each with some
spread, so that neighbouring grades differ by look and not by name alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cxrtext.phantom.anatomy import Anatomy, Lung, lung_radius
from cxrtext.phantom.shapes import Map, blob, bump, ramp, strokes, texture
from cxrtext.phantom.vessels import HILA


@dataclass(frozen=True, slots=True)
class Effect:
    """One finding at one place.

    Args:
        finding: Its CheX5 name.
        part: Where: a lobe, "right", "left", or "heart".
        delta: What it adds to the attenuation, [size, size].
        extent: What its box surrounds, [size, size], compared with a part of its maximum.
    """

    finding: str
    part: str
    delta: Map
    extent: Map

    def box(self) -> tuple[float, float, float, float]:
        """x, y, w, h in pixels around where the extent passes 0.3 of its maximum."""
        inside = self.extent > 0.3 * float(self.extent.max())
        columns, rows = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
        x, y = int(columns[0]), int(rows[0])
        return float(x), float(y), float(columns[-1] + 1 - x), float(rows[-1] + 1 - y)


LOBE_PLACES = {
    "right upper lobe": (0.56, 0.28, 0.125, 0.105),
    "right middle lobe": (0.44, 0.80, 0.115, 0.085),
    "right lower lobe": (0.66, 0.88, 0.125, 0.110),
    "left upper lobe": (0.56, 0.30, 0.125, 0.115),
    "lingula": (0.58, 0.72, 0.100, 0.080),
    "left lower lobe": (0.68, 0.93, 0.115, 0.105),
}
"""Centre across (share of the chest's half width) and down (lung height), and radii."""


def _pick(generator: np.random.Generator, *ranges: tuple[float, float]) -> list[float]:
    """One number of each range."""
    return [float(generator.uniform(low, high)) for low, high in ranges]


def edema(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Haze around both hila, spreading with the grade, with septal lines from the second on."""
    grade, lean = anatomy.body.state.edema
    noise = texture(generator, anatomy.size, (7, 14, 28, 56), 0.75)
    strength, reach = _pick(
        generator,
        ((0, 0), (0.10, 0.15), (0.21, 0.28), (0.34, 0.44))[grade],
        ((1, 1), (0.125, 0.15), (0.155, 0.18), (0.19, 0.23))[grade],
    )
    for lung in (anatomy.right, anatomy.left):
        lines = _septal_lines(anatomy, lung, generator) if grade > 1 else 0.0
        if not grade:
            continue
        share = 1.0 if not lean else (1.2 if lean == lung.side else 0.62)
        across, down = HILA[lung.side]
        haze = blob(lung.lateral, anatomy.v, (across + 0.055, down + 0.06), (reach, reach * 1.25))
        haze *= np.clip(1.0 + 0.28 * noise, 0.2, 2.0) * np.clip(1.4 - lung.radius**4, 0.0, 1.0)
        delta = lung.chest * (strength * share * haze + lines)
        smooth = lung.chest * haze
        yield Effect("Edema", lung.side, np.asarray(delta, np.float32), smooth)


def _septal_lines(anatomy: Anatomy, lung: Lung, generator: np.random.Generator) -> Map:
    """Short lines across the lung's edge near its base (Kerley B)."""
    pixels = anatomy.size * anatomy.body.zoom
    lines = []
    for level in generator.uniform(0.60, 0.76, size=9):
        outer = anatomy.body.chest - 0.008
        ends = [(outer, level), (outer - 0.035, level + 0.006)]
        lines.append((_pixel_path(anatomy, lung, ends), 0.0028 * pixels, 1.0))
    return np.float32(0.12) * strokes(anatomy.size, lines)


def _pixel_path(
    anatomy: Anatomy, lung: Lung, path: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """A path in distance from the midline and v, as columns and rows."""
    points = np.asarray(path, np.float64)
    columns, rows = anatomy.to_pixels(lung.sign * points[:, 0], points[:, 1])
    return list(zip(columns.tolist(), rows.tolist(), strict=True))


def effusion(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Fluid below a meniscus that rises towards the chest wall."""
    body = anatomy.body
    for lung, grade in zip((anatomy.right, anatomy.left), body.state.effusion, strict=True):
        level, rise, density = _pick(
            generator,
            ((0, 0), (0.02, 0.045), (-0.12, -0.055), (-0.36, -0.22))[grade],
            (0.065, 0.095),
            (0.46, 0.54),
        )
        if not grade:
            continue
        dome = body.domes[0 if lung.side == "right" else 1]
        wall = np.clip(body.chest - lung.lateral, 0.0, 1.0)
        middle = np.clip(lung.lateral - 0.04, 0.0, 1.0)
        surface = dome + level - rise * (np.exp(-wall / 0.05) + 0.35 * np.exp(-middle / 0.05))
        depth = np.clip((anatomy.v - surface) / 0.07, 0.0, 1.0) ** np.float32(0.6)
        fluid = np.asarray(lung.chest * depth, np.float32)
        yield Effect("Pleural Effusion", lung.side, np.float32(density) * fluid, fluid)


def pneumonia(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Patchy to dense consolidation in each lobe concerned, cut off at the fissures."""
    grade, lobes = anatomy.body.state.pneumonia
    for lobe in lobes:
        lung = anatomy.left if lobe.startswith(("left", "lingula")) else anatomy.right
        noise = texture(generator, anatomy.size, (7, 14, 28, 56), 0.55)
        patch = _patch(anatomy, lung, lobe, noise, generator)
        density = _pick(generator, ((0.21, 0.27), (0.30, 0.38), (0.40, 0.50))[grade - 1])[0]
        delta = density * patch * np.clip(1.0 + 0.16 * noise, 0.4, 1.6)
        if grade == 3:
            delta = delta * (1.0 - 0.32 * _air_bronchograms(anatomy, lung, lobe, generator))
        yield Effect("Pneumonia", lobe, np.asarray(delta, np.float32), patch)


def _patch(
    anatomy: Anatomy, lung: Lung, lobe: str, noise: Map, generator: np.random.Generator
) -> Map:
    """Where a lobe is consolidated, 0 to 1, with ragged edges and sharp fissures."""
    grade = anatomy.body.state.pneumonia[0]
    across, down, wide, tall = LOBE_PLACES[lobe]
    across += float(generator.normal(0.0, 0.05))
    down += float(generator.normal(0.0, 0.035))
    grow = (0.80, 1.0, 1.22)[grade - 1] * float(generator.uniform(0.9, 1.1))
    du = (lung.lateral - np.float32(across * anatomy.body.chest)) / np.float32(wide * grow)
    span = anatomy.body.domes[0 if lung.side == "right" else 1] - anatomy.body.apex
    dv = (lung.height - np.float32(down)) * np.float32(span / (tall * grow))
    spread = ramp(1.0 - np.sqrt(du * du + dv * dv) + 0.18 * noise, 0.9 if grade == 1 else 0.65)
    fissure = 0.55 + 0.05 * (du if lung.side == "right" else 0.0)
    if lobe == "right upper lobe":
        spread = spread * ramp(fissure - lung.height, 0.03)
    elif lobe == "right middle lobe":
        spread = spread * ramp(lung.height - fissure, 0.03)
    return np.asarray(lung.chest * spread, np.float32)


def _air_bronchograms(
    anatomy: Anatomy, lung: Lung, lobe: str, generator: np.random.Generator
) -> Map:
    """Lucent branching lines from the hilum into a consolidated lobe, 0 to 1."""
    pixels = anatomy.size * anatomy.body.zoom
    start = HILA[lung.side]
    across, down, _, _ = LOBE_PLACES[lobe]
    dome = anatomy.body.domes[0 if lung.side == "right" else 1]
    end = (across * anatomy.body.chest, anatomy.body.apex + down * (dome - anatomy.body.apex))
    lines = []
    for spread in generator.normal(0.0, 0.045, size=(4, 2)):
        path = [start, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)]
        path.append((end[0] + spread[0], end[1] + spread[1]))
        lines.append((_pixel_path(anatomy, lung, path), 0.006 * pixels, 1.0))
    return strokes(anatomy.size, lines)


def pneumothorax(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[tuple[Effect, Map]]:
    """Air between the chest wall and a retracted lung with its thin pleural line.

    Yields:
        The effect, and the mask of what is left of that lung, [size, size]: no vessel is seen
        outside it.
    """
    grade, side, place = anatomy.body.state.pneumothorax
    for lung in (anatomy.right, anatomy.left):
        inward = _retraction(anatomy, lung, place, grade, generator)
        lucency, line_strength = _pick(generator, (0.12, 0.16), (0.15, 0.21))
        if side not in (lung.side, "both"):
            continue
        pixel = anatomy.pixel
        kept = ramp(inward, max(0.004, 1.2 * pixel))
        gap = lung.chest * (1.0 - kept)
        line = lung.chest * bump(inward, max(0.0042, 0.75 * pixel))
        inset = ramp((1.0 - lung.radius) * np.float32(0.3) - 0.006, 0.008)
        delta = line_strength * line * inset - lucency * gap
        if grade >= 3:
            delta = delta + (0.10, 0.22)[grade - 3] * lung.chest * kept
        effect = Effect("Pneumothorax", lung.side, np.asarray(delta, np.float32), gap)
        yield effect, np.asarray(1.0 - lung.chest * (1.0 - kept), np.float32)


def _retraction(
    anatomy: Anatomy, lung: Lung, place: str, grade: int, generator: np.random.Generator
) -> Map:
    """Distance into the retracted lung, positive inside, [size, size]."""
    body = anatomy.body
    size = float(generator.uniform(0.0, 1.0)) + (grade == 2) * 1.6
    match place:
        case "apical":
            lowered, inset = 0.065 + 0.033 * size, 0.014 + 0.012 * size
        case "lateral":
            lowered, inset = 0.012 + 0.01 * size, 0.038 + 0.02 * size
        case "basilar":
            corner = body.domes[0 if lung.side == "right" else 1] + body.angle * 0.75
            du, dv = lung.lateral - body.chest, anatomy.v - corner
            return np.asarray(np.sqrt(du**2 + (dv * 0.62) ** 2) - (0.085 + 0.03 * size), np.float32)
        case _:
            return _collapse(anatomy, lung, 0.70 - 0.08 * size if grade < 4 else 0.46 - 0.08 * size)
    radius = lung_radius(body, lung.lateral, anatomy.v, inset=inset, lowered=lowered)
    return (1.0 - radius) * np.float32(0.26)


def _collapse(anatomy: Anatomy, lung: Lung, scale: float) -> Map:
    """Distance into a lung shrunk towards its hilum, rounder the smaller it is."""
    across, down = 0.03, 0.49
    du = (lung.lateral - np.float32(across)) / np.float32((anatomy.body.chest - across) * scale)
    dv = (anatomy.v - np.float32(down)) / np.float32(0.37 * scale)
    radius = (np.abs(du) ** 2.3 + np.abs(dv) ** 2.3) ** np.float32(1 / 2.3)
    return np.asarray((1.0 - radius) * (0.30 * scale), np.float32)


def mediastinal_shift(anatomy_state: tuple[int, int], pneumothorax: tuple[int, str, str]) -> float:
    """How far large effusions and a tension pneumothorax push the middle to the patient's left."""
    right, left = anatomy_state
    shift = 0.018 * ((right == 3) - (left == 3))
    if pneumothorax[0] == 4:
        shift += 0.045 if pneumothorax[1] == "right" else -0.045
    return shift
