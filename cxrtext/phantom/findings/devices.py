"""Tubes, lines, drains, pacemakers and sternal wires.

They are denser than any finding, but thin; the difficulty leaves them alone.
"""

from collections.abc import Iterator

import numpy as np

from cxrtext.phantom.anatomy import SIGN, Anatomy
from cxrtext.phantom.findings.effect import Effect, Path, drawn, grown, pick
from cxrtext.phantom.shapes import Map, polygons
from cxrtext.phantom.tissue import CARINA

SVC = (-0.052, 0.40)  # where the tip of a central line lies

LINES: dict[str, Path] = {
    "right ij": [(-0.085, -0.06), (-0.068, 0.06), (-0.052, 0.18), (-0.050, 0.30)],
    "left ij": [(0.085, -0.06), (0.066, 0.06), (0.045, 0.17), (-0.02, 0.235), (-0.049, 0.29)],
    "right picc": [
        (-0.56, 0.38),
        (-0.47, 0.20),
        (-0.36, 0.135),
        (-0.20, 0.145),
        (-0.085, 0.185),
        (-0.050, 0.26),
    ],
    "left picc": [
        (0.56, 0.38),
        (0.47, 0.20),
        (0.36, 0.135),
        (0.20, 0.145),
        (0.08, 0.195),
        (-0.02, 0.245),
        (-0.049, 0.31),
    ],
    "right subclavian": [(-0.34, 0.25), (-0.25, 0.175), (-0.14, 0.155), (-0.065, 0.195)],
}
"""The ways of central lines to the superior vena cava, in body coordinates."""


def curved(path: Path) -> Path:
    """A path with its corners cut, so that it bends like a tube."""
    points = np.asarray(path, np.float64)
    for _ in range(3):
        first, second = points[:-1], points[1:]
        cut = np.stack([0.75 * first + 0.25 * second, 0.25 * first + 0.75 * second], axis=1)
        points = np.concatenate([points[:1], cut.reshape(-1, 2), points[-1:]])
    return [(float(u), float(v)) for u, v in points]


def _device(anatomy: Anatomy, finding: str, part: str, images: list[tuple[Map, float]]) -> Effect:
    delta = np.zeros_like(anatomy.u)
    for image, density in images:
        delta += np.float32(density) * image
    return Effect(finding, part, delta, grown(delta, anatomy.size), over_all=True)


def _wire(anatomy: Anatomy, path: Path, width: float) -> Map:
    """One line of a width in body coordinates."""
    return drawn(anatomy, [(curved(path), width)])


def _hollow(anatomy: Anatomy, path: Path, half: float) -> list[tuple[Map, float]]:
    """A tube: a faint wall all over, and a dense stripe along one side."""
    line = np.asarray(curved(path))
    step = np.gradient(line, axis=0)
    normal = np.stack([step[:, 1], -step[:, 0]], axis=1) / np.hypot(*step.T)[:, None]
    stripe = [(u, v) for u, v in (line + 0.75 * half * normal).tolist()]
    return [
        (drawn(anatomy, [(curved(path), 2 * half)]), 0.07),
        (drawn(anatomy, [(stripe, 0.0036)]), 0.15),
    ]


def tube(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """An endotracheal tube: its tip some 4 cm above the carina, too high, or in a bronchus."""
    place = anatomy.body.state.tube
    side, depth = pick(generator, (-0.004, 0.004), (-0.012, 0.012))
    if not place:
        return
    turn = 0.5 * anatomy.body.turn
    path = [(0.0, -0.15), (turn + side, 0.05), (turn + side - 0.004, 0.16)]
    tip = CARINA + {"good": -0.105, "high": -0.195, "low": 0.0}[place] + depth
    if place == "low":
        path += [(turn - 0.010, 0.30), (turn - 0.028, 0.355), (turn - 0.050, 0.385 + depth)]
    else:
        path = [*path[:2], (turn + side - 0.004, tip)]
    yield _device(anatomy, "Endotracheal Tube", "trachea", _hollow(anatomy, path, 0.0085))


def line(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    entry = anatomy.body.state.line
    jitter = generator.normal(0.0, 0.006, size=(8, 2))
    depth = float(generator.uniform(-0.03, 0.05))
    if not entry:
        return
    path = [*LINES[entry], (SVC[0] + 0.5 * anatomy.body.turn, SVC[1] + depth)]
    path = [(u + du, v + dv) for (u, v), (du, dv) in zip(path, jitter.tolist(), strict=False)]
    yield _device(anatomy, "Central Line", entry.split()[0], [(_wire(anatomy, path, 0.0055), 0.19)])


def pacemaker(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A box below the collar bone and its leads to the right ventricle, and perhaps the atrium."""
    kind = anatomy.body.state.pacemaker
    across, down, tilt = pick(generator, (0.255, 0.305), (0.205, 0.25), (-0.4, 0.4))
    if not kind:
        return
    side, leads = kind.split()
    sign = SIGN[side]
    turns = np.linspace(0.0, 2 * np.pi, 40)
    # A rounded box, its upper end with the leads' sockets.
    du, dv = (np.abs(f(turns)) ** 0.65 * np.sign(f(turns)) for f in (np.cos, np.sin))
    u = sign * across + 0.047 * du * np.cos(tilt) - 0.040 * dv * np.sin(tilt)
    v = down + 0.047 * du * np.sin(tilt) + 0.040 * dv * np.cos(tilt)
    box = np.stack(anatomy.to_pixels(u, v), axis=1)
    inner_u, inner_v = sign * across + (u - sign * across) * 0.6, down + (v - down) * 0.55 - 0.004
    inner = np.stack(anatomy.to_pixels(inner_u, inner_v), axis=1)
    floor, body = anatomy.body.rest[1], anatomy.body
    start = [(sign * across, down - 0.035), (sign * (across + 0.03), down - 0.07)]
    start += [(sign * 0.19, 0.15), (sign * 0.09, 0.19), (-0.045, 0.25), (-0.055, 0.38)]
    width = 2.0 * body.chest * body.heart
    ends: list[Path] = [
        [(-0.075, 0.52), (-0.03, floor - 0.04), (0.42 * width, floor - 0.035)],
        [(-0.085, 0.50), (-0.075, 0.56), (-0.055, 0.53)],
    ]
    images = [(polygons(anatomy.size, [(box, 0.8), (inner, 1.0)]), 0.62)]
    for end in ends[: 1 if leads == "single" else 2]:
        images.append((_wire(anatomy, [*start, *end], 0.0046), 0.21))
        images.append((_wire(anatomy, end[-2:], 0.0060), 0.10))
    yield _device(anatomy, "Pacemaker", side, images)


def drain(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """A chest tube from the side towards the apex, or along the base."""
    side = anatomy.body.state.drain
    entry, lean, apical = pick(generator, (0.52, 0.64), (-0.03, 0.03), (0.0, 1.0))
    if not side:
        return
    sign, wall = SIGN[side], anatomy.body.chest
    path = [(wall + 0.12, entry + 0.10), (wall + 0.01, entry + 0.01)]
    if apical < 0.7:
        path += [(wall - 0.07, entry - 0.14), (0.235 + lean, 0.30), (0.17 + lean, 0.20)]
    else:
        path += [(wall - 0.08, entry - 0.02), (0.17 + lean, entry + 0.03), (0.11, entry)]
    path = [(sign * u, v) for u, v in path]
    yield _device(anatomy, "Chest Tube", side, _hollow(anatomy, path, 0.0095))


def wires(anatomy: Anatomy, generator: np.random.Generator) -> Iterator[Effect]:
    """Loops of wire down the breastbone."""
    count = int(generator.integers(5, 8))
    jitter = generator.normal(0.0, 1.0, size=(8, 3)).tolist()
    if not anatomy.body.state.wires:
        return
    turns = np.linspace(0.0, 2 * np.pi, 18)
    lines = []
    for number, (across, down, tilt) in enumerate(jitter[:count]):
        u = 1.3 * anatomy.body.turn + 0.003 * across
        v = 0.25 + 0.062 * number + 0.004 * down
        loop = [
            (u + 0.016 * np.cos(t), v + 0.0085 * np.sin(t) + 0.12 * tilt * 0.016 * np.cos(t))
            for t in turns
        ]
        twist = [(u + 0.001, v + 0.007), (u + 0.003, v + 0.017)]
        lines += [(loop, 0.0034), (twist, 0.0048)]
    yield _device(anatomy, "Sternotomy Wires", "sternum", [(drawn(anatomy, lines), 0.30)])
