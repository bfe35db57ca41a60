"""The findings, as what each adds to the attenuation of a body.

All are added before the exposure curve.  Grades change size and density together, each with some
spread, so that neighboring grades differ by look and not by name alone.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.anatomy import Anatomy, Lung, lung_radius, rest_chest
from cxrtext.phantom.findings.effect import Effect, drawn, in_lung, pick
from cxrtext.phantom.shapes import Map, blob, bump, ramp, texture
from cxrtext.phantom.tissue import HILA

Floats = NDArray[np.float64]

LOBE_PLACES = {
    "right upper lobe": (0.56, 0.28, 0.125, 0.105),
    "right middle lobe": (0.44, 0.80, 0.115, 0.085),
    "right lower lobe": (0.66, 0.88, 0.125, 0.110),
    "left upper lobe": (0.56, 0.30, 0.125, 0.115),
    "lingula": (0.58, 0.72, 0.100, 0.080),
    "left lower lobe": (0.68, 0.93, 0.115, 0.105),
}
"""Center across (share of the chest's half width) and down (lung height), and radii."""


def edema(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Haze around both hila, spreading with the grade, with septal lines from the second on."""
    grade, lean = anatomy.body.state.edema
    strength, reach = pick(
        generator,
        ((0, 0), (0.10, 0.15), (0.21, 0.28), (0.34, 0.44))[grade],
        ((1, 1), (0.125, 0.15), (0.155, 0.18), (0.19, 0.23))[grade],
    )
    if not grade:
        return
    noise = texture(generator, anatomy.size, (7, 14, 28, 56), 0.75)
    for lung in anatomy.lungs:
        levels = generator.uniform(0.60, 0.76, size=9)
        lines = _septal_lines(anatomy, lung, levels) if grade > 1 else np.float32(0.0)
        share = 1.0 if not lean else (1.2 if lean == lung.side else 0.62)
        across, down = HILA[lung.side]
        radii = (1.3 * reach, 1.6 * reach)
        haze = blob(lung.lateral, anatomy.v, (across + 0.055, down + 0.06), radii)
        # Cut off where it would be too faint to be seen, so that it ends inside its box.
        haze = np.clip(1.3 * haze - 0.3, 0.0, 1.0)
        away = lung.radius * lung.radius
        haze *= np.clip(1.4 - away * away, 0.0, 1.0)
        smooth = np.maximum(lung.chest * haze, lung.chest * lines * 4.0)
        haze *= np.clip(1.0 + 0.28 * noise, 0.2, 2.0)
        delta = lung.chest * (strength * share * haze + lines)
        severity = (grade - 1) / 2
        yield Effect("Edema", lung.side, np.asarray(delta, np.float32), smooth, severity=severity)


def _septal_lines(anatomy: Anatomy, lung: Lung, levels: Floats) -> Map:
    """Short lines across the lung's edge near its base (Kerley B)."""
    outer = anatomy.body.chest - 0.008
    paths = [in_lung(lung, [(outer, v), (outer - 0.035, v + 0.006)]) for v in levels]
    return np.float32(0.12) * drawn(anatomy, [(path, 0.0028) for path in paths])


def effusion(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Fluid below a meniscus that rises towards the chest wall."""
    body = anatomy.body
    for lung, grade in zip(anatomy.lungs, body.state.effusion, strict=True):
        level, rise, density = pick(
            generator,
            ((0, 0), (0.02, 0.045), (-0.12, -0.055), (-0.36, -0.22))[grade],
            (0.065, 0.095),
            (0.46, 0.54),
        )
        if not grade:
            continue
        wall = np.clip(body.chest - lung.lateral, 0.0, 1.0)
        middle = np.clip(lung.lateral - 0.04, 0.0, 1.0)
        inner = 0.35 * np.exp(-middle / 0.05) if grade > 1 else 0.0
        surface = lung.dome + level - rise * (np.exp(-wall / 0.05) + inner)
        depth = np.clip((anatomy.v - surface) / 0.07, 0.0, 1.0) ** np.float32(0.6)
        delta = np.float32(density) * np.asarray(lung.chest * depth, np.float32) * _depth(lung)
        extent = np.asarray(delta * anatomy.open * (1.0 - 0.55 * anatomy.heart), np.float32)
        yield Effect("Pleural Effusion", lung.side, delta, extent, severity=(grade - 1) / 2)


def _depth(lung: Lung) -> Map:
    """How much air there is to replace: less near the chest wall, 0 to 1."""
    thick = np.sqrt(np.clip(1.0 - lung.radius * lung.radius, 0.0, 1.0))
    return np.minimum(0.40 + 0.75 * thick, 1.0)


def pneumonia(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Patchy to dense consolidation in each lobe concerned, cut off at the fissures."""
    grade, lobes = anatomy.body.state.pneumonia
    for lobe in lobes:
        lung = anatomy.lung_of(lobe)
        noise = texture(generator, anatomy.size, (7, 14, 28, 56), 0.55)
        patch = _patch(anatomy, lung, lobe, noise, generator)
        density = pick(generator, ((0.21, 0.27), (0.30, 0.38), (0.40, 0.50))[grade - 1])[0]
        delta = density * patch * _depth(lung) * np.clip(1.0 + 0.16 * noise, 0.4, 1.6)
        if grade == 3:
            delta = delta * (1.0 - 0.22 * _air_bronchograms(anatomy, lung, lobe, generator))
        severity = (grade - 1) / 2
        yield Effect("Pneumonia", lobe, np.asarray(delta, np.float32), patch, severity=severity)


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
    span = lung.dome - anatomy.body.apex
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
    start = HILA[lung.side]
    across, down, _, _ = LOBE_PLACES[lobe]
    end = (across * anatomy.body.chest, anatomy.body.apex + down * (lung.dome - anatomy.body.apex))
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    lines = [
        (in_lung(lung, [start, middle, (end[0] + across, end[1] + down)]), 0.006)
        for across, down in generator.normal(0.0, 0.045, size=(4, 2))
    ]
    return drawn(anatomy, lines)


def pneumothorax(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[tuple[Effect, Map]]:
    """Air between the chest wall and a retracted lung with its thin pleural line.

    Each with the mask of what is left of that lung, [size, size]: no vessel is seen outside it.
    """
    grade, side, place = anatomy.body.state.pneumothorax
    if not grade:
        return
    for lung in anatomy.lungs:
        inward = _retraction(anatomy, lung, place, grade, generator)
        lucency, line_strength = pick(generator, (0.12, 0.16), (0.15, 0.21))
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
        effect = Effect(
            "Pneumothorax", lung.side, np.asarray(delta, np.float32), gap, severity=(grade - 1) / 3
        )
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
            du, dv = lung.lateral - body.chest, anatomy.v - (lung.dome + body.angle * 0.75)
            return np.asarray(np.sqrt(du**2 + (dv * 0.62) ** 2) - (0.085 + 0.03 * size), np.float32)
        case _:
            return _collapse(anatomy, lung, 0.70 - 0.08 * size if grade < 4 else 0.46 - 0.08 * size)
    radius = lung_radius(body, lung.lateral, anatomy.v, inset=inset, lowered=lowered)
    inward = (1.0 - radius) * np.float32(0.26)
    if place == "apical":
        # The lung lies against the wall again further down.
        inward = inward + 0.35 * np.clip(anatomy.v - np.float32(0.36 + 0.05 * size), 0.0, 1.0)
    return inward


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


def emphysema(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Lucent lungs, most so above; the body is hyperinflated as well, so all of it changes."""
    grade = anatomy.body.state.emphysema
    strength = pick(generator, ((0, 0), (0.05, 0.075), (0.085, 0.12))[grade])[0]
    if not grade:
        return
    patches = texture(generator, anatomy.size, (5, 11), 0.6)
    for lung in anatomy.lungs:
        above = 0.35 + 0.65 * ramp(0.55 - lung.height, 0.8)
        delta = -np.float32(strength) * lung.chest * above * np.clip(1.0 + 0.4 * patches, 0.2, 1.9)
        yield Effect("Emphysema", lung.side, np.asarray(delta, np.float32), lung.chest)


def pruned(anatomy: Anatomy, marks: Map) -> Map:
    """Vessels with the fewer and thinner ones that emphysema leaves, [size, size]."""
    if not (grade := anatomy.body.state.emphysema):
        return marks
    loss = np.zeros_like(anatomy.u)
    for lung in anatomy.lungs:
        above = 0.35 + 0.65 * ramp(0.6 - lung.height, 0.8)
        loss += lung.chest * above * ramp(lung.lateral - 0.12, 0.1)
    return marks * (1.0 - np.float32(0.36 * grade) * loss)


def fibrosis(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A net of fine lines in the bases and along the pleura."""
    grade = anatomy.body.state.fibrosis
    strength = pick(generator, ((0, 0), (0.085, 0.115), (0.15, 0.20))[grade])[0]
    reach = pick(generator, ((0, 0), (0.72, 0.78), (0.52, 0.64))[grade])[0]
    if not grade:
        return
    # Lines run where two smooth random fields are 0.
    net = np.maximum(
        bump(texture(generator, anatomy.size, (46, 80), 0.5), 0.34),
        bump(texture(generator, anatomy.size, (34, 62), 0.5), 0.28),
    )
    for lung in anatomy.lungs:
        low = ramp(
            lung.height - np.float32(reach) + 0.45 * np.clip(lung.radius - 0.75, 0, 0.3), 0.3
        )
        where = lung.chest * low * (0.35 + 0.65 * ramp(lung.radius - 0.5, 0.5))
        delta = np.float32(strength) * where * (net + 0.12)
        yield Effect("Fibrosis", lung.side, np.asarray(delta, np.float32), where)


def diaphragm(anatomy: Anatomy, _: np.random.Generator) -> Iterator[Effect]:
    """What lies between a raised diaphragm and where it was; the body itself is raised."""
    if not (side := anatomy.body.state.diaphragm):
        return
    lung = anatomy.lung_of(side)
    lost = np.clip(rest_chest(anatomy, lung) - lung.chest, 0.0, 1.0)
    yield Effect("Elevated Hemidiaphragm", side, np.zeros_like(anatomy.u), lost)
