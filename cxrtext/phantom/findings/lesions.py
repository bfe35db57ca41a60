"""Atelectasis, nodules and masses, granulomas, hiatal hernias and broken ribs."""

from collections.abc import Iterator

import numpy as np

from cxrtext.phantom.anatomy import SIGN, Anatomy, Lung
from cxrtext.phantom.bones import rib_path, rib_polygons
from cxrtext.phantom.findings.cardiopulmonary import LOBE_PLACES
from cxrtext.phantom.findings.effect import Effect, Path, drawn, grown, in_lung, pick
from cxrtext.phantom.shapes import Map, polygons, ramp, window


def atelectasis(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Lines across a lung's base, or from the second grade on a wedge above its dome."""
    grade, base = anatomy.body.state.atelectasis
    for lung in anatomy.lungs:
        count, wedge = int(generator.integers(1, 4)), pick(generator, (0.30, 0.38), (0.07, 0.10))
        places = generator.uniform((0.34, 0.80, 0.09, -0.02), (0.62, 0.92, 0.16, 0.045), (3, 4))
        if not grade or base not in ("both bases", f"{lung.side} base"):
            continue
        lines = drawn(anatomy, [_plate(anatomy, lung, row) for row in places.tolist()[:count]])
        delta = np.float32(0.24) * lines * lung.chest
        extent = grown(delta, anatomy.size)
        if grade == 2:
            opacity = _wedge(anatomy, lung, wedge[1])
            delta = delta + np.float32(wedge[0]) * opacity
            extent = np.maximum(extent * 4.0, opacity)
        yield Effect("Atelectasis", lung.side, np.asarray(delta, np.float32), extent)


def _plate(anatomy: Anatomy, lung: Lung, row: list[float]) -> tuple[Path, float]:
    """One band of airless lung, and its width."""
    across, down, long, slope = row
    body = anatomy.body
    start = across * body.chest
    v = body.apex + down * (lung.dome - body.apex) + 0.012
    path = [(start, v), (start + long / 2, v + slope * 0.4), (start + long, v + slope)]
    return in_lung(lung, path), 0.0065


def _wedge(anatomy: Anatomy, lung: Lung, tall: float) -> Map:
    """A basal opacity, highest beside the heart."""
    reach = np.float32(tall) * np.clip(1.45 - lung.lateral / np.float32(0.24), 0.0, 1.0)
    inside = ramp(reach - (lung.floor - anatomy.v), 0.045) * ramp(lung.lateral - 0.03, 0.03)
    return np.asarray(lung.chest * inside, np.float32)


def nodule(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A ball below 1 cm, of 1 to 3 cm, or a lobulated mass above 3 cm."""
    grade, lobe = anatomy.body.state.nodule
    share, away, down, density, bumps = pick(
        generator, (0.0, 1.0), (-1.0, 1.0), (-1.0, 1.0), (0.9, 1.1), (0.0, 6.28)
    )
    if not grade:
        return
    smallest, largest = ((0.0085, 0.0118), (0.0135, 0.031), (0.039, 0.062))[grade - 1]
    yield _ball(
        anatomy,
        lobe,
        "Lung Lesion",
        (away, down),
        smallest + (largest - smallest) * share,
        density * (0.20, 0.27, 0.40)[grade - 1],
        0.05 * grade * float(np.cos(bumps)),
    )


def _ball(
    anatomy: Anatomy,
    lobe: str,
    finding: str,
    offset: tuple[float, float],
    radius: float,
    density: float,
    lobes: float = 0.0,
) -> Effect:
    """A ball in a lobe: what rays pass through of it is half an ellipse."""
    lung, body = anatomy.lung_of(lobe), anatomy.body
    across, down, wide, tall = LOBE_PLACES[lobe]
    center = (
        min(across * body.chest + 0.6 * wide * offset[0], body.chest - radius - 0.015),
        body.apex + min(down, 0.84) * (lung.dome - body.apex) + 0.45 * tall * offset[1],
    )
    mask = np.zeros_like(anatomy.u)
    lateral = sorted(lung.sign * (center[0] + way * 1.5 * radius) for way in (-1, 1))
    part = window(
        anatomy.u,
        anatomy.v,
        (lateral[0], lateral[1]),
        (center[1] - 1.5 * radius, center[1] + 1.5 * radius),
    )
    du = (lung.lateral[part] - np.float32(center[0])) * np.float32(1.0 / radius)
    dv = (anatomy.v[part] - np.float32(center[1])) * np.float32(1.0 / radius)
    r2 = du * du + dv * dv
    if lobes:
        r2 = r2 * (
            1.0 + np.float32(lobes) * np.cos(np.float32(3.0) * np.arctan2(dv, du) + 9 * lobes)
        )
    edge = np.float32(max(0.25, 1.3 * anatomy.pixel / radius))
    thick = 0.45 + 0.55 * np.sqrt(np.maximum(1.0 - r2, 0.0))
    mask[part] = ramp(1.0 - np.sqrt(r2), float(edge)) * thick
    return Effect(finding, lobe, np.float32(density) * mask, mask)


def granuloma(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A small, dense, sharp spot of calcium."""
    lobe = anatomy.body.state.granuloma
    radius, away, down = pick(generator, (0.0055, 0.0085), (-1.0, 1.0), (-1.0, 1.0))
    if lobe:
        yield _ball(anatomy, lobe, "Granuloma", (away, down), radius, 0.52)


def hernia(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Stomach behind the heart: a rounded opacity with an air-fluid level."""
    grade = anatomy.body.state.hernia
    across, density, level = pick(generator, (0.0, 0.03), (0.11, 0.15), (-0.25, 0.15))
    if not grade:
        return
    radius = (0.058, 0.088)[grade - 1]
    center = across, anatomy.body.rest[1] - 0.35 * radius - 0.01
    du = (anatomy.u - np.float32(center[0])) * np.float32(1.0 / (1.15 * radius))
    dv = (anatomy.v - np.float32(center[1])) * np.float32(1.0 / radius)
    r = np.sqrt(du * du + dv * dv)
    inside = ramp(1.0 - r, 0.22)
    air = ramp(0.93 - r, 0.20) * ramp(level - dv, 0.06)
    delta = inside * np.float32(density) - air * np.float32(density + 0.05)
    yield Effect("Hiatal Hernia", "hiatus", np.asarray(delta, np.float32), inside, over_all=True)


def fracture(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A break in a rib's arc: a dark gap, and the part beyond it out of line."""
    side, rib = anatomy.body.state.fracture
    place, step = pick(generator, (1.02, 1.30), (0.0085, 0.0125))
    if not side:
        return
    sign, number = SIGN[side], rib - 1
    whole = np.linspace(place - 0.02, place + 0.24, 8)
    moved = step * (1.0 - np.linspace(0.0, 1.0, 8))
    before = polygons(anatomy.size, rib_polygons(anatomy, [(number, sign)], whole))
    beyond = np.linspace(place + 0.01, place + 0.24, 8)
    after = polygons(anatomy.size, rib_polygons(anatomy, [(number, sign)], beyond, moved))
    u, v = rib_path(anatomy.body, number, sign, np.array([place]))
    callus = ((anatomy.u - np.float32(u[0])) ** 2 + (anatomy.v - np.float32(v[0])) ** 2) ** 0.5
    bright = np.float32(0.03) * ramp(0.018 - callus, 0.012)
    delta = np.asarray(np.float32(0.19) * (after - before) + bright, np.float32)
    yield Effect("Fracture", side, delta, np.maximum(before, after), over_all=True)
