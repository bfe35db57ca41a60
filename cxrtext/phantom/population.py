"""How often each finding occurs: the conditional tables of the population.

A study's state is drawn along a small tree, so that every statement about it has an exactly
computable probability:

    age group → cardiomegaly → edema → effusion → pneumonia
                               edema → tube → line
                                       effusion → atelectasis
                                       effusion, pneumothorax → drain
    age group → pneumothorax, nodule, diaphragm
    age group → aorta, spine, granuloma, fibrosis, hernia, fracture, pacemaker, wires
    age group → emphysema → lung volume

A chest tube lies only where there is air or fluid.  The third and fourth lines, lung volume apart,
stay with a patient.  Places and severities follow falling, Zipf-like weights, which makes the tail
of finding × place × severity long.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.phantom.state import AXES, BASES, GRADE_SHARE, LOBE_PAIRS, LOBES, SIDES, VALUES, State

Floats = NDArray[np.float64]

GROUPS = ((18, 44), (45, 64), (65, 92))  # age groups in years, both ends included

GROUP_SHARE: Floats = np.array([0.30, 0.35, 0.35])
KEEP = 0.35  # probability that a later study of a patient repeats the findings of the one before

STUDY_COUNT: Floats = np.array([0.50, 0.25, 0.15, 0.10])
"""Probabilities of 1, 2, 3 and 4 studies a patient."""

FOLLOWED_COUNT: Floats = np.array([0.0, 0.50, 0.30, 0.20])
"""The same of a set of follow-ups."""
FATES = {"same": 0.26, "more": 0.27, "less": 0.27, "gone": 0.20}
"""What becomes of a finding until a follow-up; one that cannot grow, or shrink, stays."""
COMING = 0.5
"""How likely a follow-up shows a new finding, beside a study of somebody else."""

FRAME = tuple(name for name, axis in AXES.items() if axis.stays)
"""The axes that stay with a patient."""

CHANGING = tuple(name for name, axis in AXES.items() if not axis.stays and name != "volume")
"""The axes that a later study may show otherwise; the lung volume is always drawn anew."""


def _row(prevalence: float, weights: Sequence[float]) -> Floats:
    """Probabilities of "none" and of each other value, the latter in proportion to ``weights``."""
    share = np.asarray(weights, dtype=np.float64)
    return np.concatenate([[1.0 - prevalence], prevalence * share / share.sum()])


def _edema(cardiomegaly: int) -> Floats:
    prevalence = (0.12, 0.28, 0.42, 0.58)[cardiomegaly]
    lean = {"": 0.7, "right": 0.19, "left": 0.11}
    return _row(prevalence, [GRADE_SHARE[g - 1] * lean[s] for g, s in VALUES["edema"][1:]])


def _effusion(cardiomegaly: int, edema: tuple[int, str]) -> Floats:
    both = 0.45 if edema[0] else 0.16
    size = (0.0, 0.48, 0.32, 0.20)
    weights = []
    for right, left in VALUES["effusion"][1:]:
        if right and left:
            nearness = (1.0, 0.28, 0.06)[abs(right - left)]
            weights.append(both * size[right] * size[left] * nearness * 2.4)
        else:
            weights.append((1 - both) * (0.56 if right else 0.44) * size[right or left])
    return _row(min(0.155 + 0.05 * cardiomegaly + 0.12 * edema[0], 0.62), weights)


def _pneumonia(effusion: tuple[int, int]) -> Floats:
    weight: dict[tuple[str, ...], float] = {
        (lobe,): 0.76 / (rank + 1.4) for rank, lobe in enumerate(LOBES)
    }
    weight |= {pair: 0.20 / (rank + 1.4) for rank, pair in enumerate(LOBE_PAIRS)}
    shares = [weight[place] * GRADE_SHARE[g - 1] for g, place in VALUES["pneumonia"][1:]]
    return _row(0.25 if any(effusion) else 0.20, shares)


def _pneumothorax(group: int) -> Floats:
    grade_share = (0.0, 0.44, 0.34, 0.16, 0.06)
    place_share = {
        "apical": 0.55,
        "lateral": 0.27,
        "basilar": 0.18,
        "apicolateral": 1,
        "tension": 1,
    }
    side_share = {"right": 0.53, "left": 0.44, "both": 0.06}
    weights = [
        grade_share[grade] * place_share[place] * side_share[side]
        for grade, side, place in VALUES["pneumothorax"][1:]
    ]
    return _row((0.18, 0.16, 0.14)[group], weights)


def _atelectasis(effusion: tuple[int, int]) -> Floats:
    """Commoner, and then mostly beside it, where there is fluid."""
    base = dict(zip(BASES, (0.44, 0.30, 0.26), strict=True))
    for side, grade in zip(SIDES, effusion, strict=True):
        base[f"{side} base"] *= 2.5 if grade else 1.0
    grade_share = (0.0, 0.68, 0.32)
    weights = [base[place] * grade_share[grade] for grade, place in VALUES["atelectasis"][1:]]
    return _row(0.17 if any(effusion) else 0.075, weights)


def _drain(effusion: tuple[int, int], pneumothorax: tuple[int, str, str]) -> Floats:
    """On a side with air or more than a little fluid, on one side at a time."""
    weights = []
    for side, grade in zip(SIDES, effusion, strict=True):
        air = pneumothorax[0] if pneumothorax[1] in (side, "both") else 0
        weights.append(0.07 * (grade > 1) + (0.0, 0.14, 0.26, 0.34, 0.38)[air])
    return np.array([1.0 - sum(weights), *weights])


def _volume(group: int, emphysema: int) -> Floats:
    if emphysema:
        high = (0.0, 0.75, 1.0)[emphysema]
        return np.array([1.0 - high, 0.0, high])
    return _row((0.13, 0.19, 0.23)[group], (0.70, 0.30))


_ROWS: dict[str, Callable[..., Floats]] = {
    "edema": _edema,
    "effusion": _effusion,
    "pneumonia": _pneumonia,
    "atelectasis": _atelectasis,
    "tube": lambda edema: _row((0.025, 0.05, 0.10, 0.17)[edema[0]], (0.74, 0.15, 0.11)),
    "line": lambda tube: _row(0.70 if tube else 0.055, (0.34, 0.13, 0.26, 0.10, 0.17)),
    "drain": _drain,
    "pneumothorax": _pneumothorax,
    "volume": _volume,
}

PARENTS: dict[str, tuple[str, ...]] = {
    "cardiomegaly": ("",),
    "edema": ("cardiomegaly",),
    "effusion": ("cardiomegaly", "edema"),
    "pneumothorax": ("",),
    "tube": ("edema",),
    "pneumonia": ("effusion",),
    "volume": ("", "emphysema"),
    "atelectasis": ("effusion",),
    "nodule": ("",),
    "diaphragm": ("",),
    "line": ("tube",),
    "drain": ("effusion", "pneumothorax"),
}
"""What an axis that changes depends on, "" being the age group, in the order of the draws."""
PARENTS |= {name: ("",) for name in CHANGING if name not in PARENTS}


@cache
def tables() -> dict[str, Floats]:
    """The conditional tables, by axis.

    Returns:
        ``edema`` [C, E], ``effusion`` [C, E, F], ``pneumonia`` [F, P], ``atelectasis`` [F, A],
        ``tube`` [E, T], ``line`` [T, L], ``drain`` [F, X, D], ``volume`` [G, M, V] (M for
        emphysema) and [G, ·] for the others: G age groups, the rest in the order of ``VALUES``;
        each sums to 1 over its last axis.
    """

    def stacked(row: Callable[..., Floats], parents: Sequence[str], *given: Any) -> Floats:
        if not parents:
            return row(*given)
        values = VALUES[parents[0]] if parents[0] else range(len(GROUPS))
        return np.stack([stacked(row, parents[1:], *given, value) for value in values])

    return {
        name: np.stack([_row(prevalence, axis.weights) for prevalence in axis.prevalence])
        for name, axis in AXES.items()
        if axis.prevalence
    } | {axis: stacked(row, PARENTS.get(axis, ("",))) for axis, row in _ROWS.items()}


_CUMULATIVE: dict[str, Floats] = {}


def _draw(generator: np.random.Generator, axis: str, *given: int) -> int:
    """The index of a value of an axis, from those of what it depends on, age group or value."""
    if axis not in _CUMULATIVE:
        _CUMULATIVE[axis] = tables()[axis].cumsum(axis=-1)
    row = _CUMULATIVE[axis][given]
    return min(int(np.searchsorted(row, generator.random(), side="right")), len(row) - 1)


def draw_findings(generator: np.random.Generator, group: int, emphysema: int = 0) -> State:
    """Draw what changes between the studies of a patient of an age group, and the lung volume."""
    places = {"": group, "emphysema": emphysema}
    for axis, parents in PARENTS.items():
        places[axis] = _draw(generator, axis, *(places[parent] for parent in parents))
    return State(**{axis: VALUES[axis][places[axis]] for axis in PARENTS})


def _severity(axis: str, value: Any) -> tuple[int, Any]:
    """How severe a value is, and what must agree for two severities to be compared."""
    if axis == "cardiomegaly":
        return value, ""
    if axis == "effusion":
        return sum(value), (value[0] > 0, value[1] > 0)
    if axis in ("edema", "pneumonia", "pneumothorax", "atelectasis"):
        return value[0], value[1] if axis != "edema" else ""
    return 0, value


def change_of(axis: str, now: Any, then: Any) -> str:
    """How a value of an axis compares with an earlier one.

    "new", "gone", "same", "more" or "less"; "" of two normal ones, and where places differ.
    """
    normal = VALUES[axis][0]
    if now == normal:
        return "gone" if then != normal else ""
    if then == normal:
        return "new"
    if now == then:
        return "same"
    (grade, place), (old_grade, old_place) = _severity(axis, now), _severity(axis, then)
    if place != old_place or grade == old_grade:
        return ""
    if axis == "effusion" and {n < t for n, t in zip(now, then, strict=True) if n != t} != {
        grade < old_grade
    }:
        return ""
    return "more" if grade > old_grade else "less"


def follow_up(generator: np.random.Generator, before: State, other: State) -> State:
    """What a follow-up shows: findings stay, grow, shrink, resolve or come.

    New ones come as ``other``, a state drawn by itself, has them; so does the lung volume.
    """
    found: dict[str, Any] = {}
    for axis in CHANGING:
        was, normal = getattr(before, axis), VALUES[axis][0]
        if was == normal:
            found[axis] = getattr(other, axis) if generator.random() < COMING else normal
            continue
        fate = str(generator.choice(list(FATES), p=list(FATES.values())))
        may = [one for one in VALUES[axis] if change_of(axis, one, was) == fate] or [was]
        found[axis] = may[int(generator.integers(len(may)))]
    places = (VALUES[axis].index(found[axis]) for axis in ("effusion", "pneumothorax", "drain"))
    if tables()["drain"][tuple(places)] == 0:  # there is nothing left to drain
        found["drain"] = ""
    return replace(other, **found)


def draw_frame(generator: np.random.Generator, group: int) -> dict[str, Any]:
    """Draw what stays with a patient, by axis."""
    return {axis: VALUES[axis][_draw(generator, axis, group)] for axis in FRAME}


def probability(masks: dict[str, Floats], power: int = 1) -> float:
    """Exact probability that a random study's value lies in the mask of every axis.

    Args:
        masks: One vector of 0 and 1 an axis, in the order of ``VALUES``; no vector: any value.
        power: 2 gives the probability that two independent studies of one patient agree on all
            that may change between them.
    """
    full = {axis: masks.get(axis, np.ones(len(values))) for axis, values in VALUES.items()}
    table = {
        axis: values**power if axis in CHANGING else values for axis, values in tables().items()
    }
    of_edema = table["tube"] @ (full["tube"] * (table["line"] @ full["line"])) * full["edema"]
    of_effusion = (
        table["pneumonia"] @ full["pneumonia"] * (table["atelectasis"] @ full["atelectasis"])
    )
    # What hangs on effusion: [F, X] for the drain, with X for pneumothorax, becomes [G, F].
    of_air = full["pneumothorax"] * (table["drain"] @ full["drain"])
    of_effusion = table["pneumothorax"] @ of_air.T * (full["effusion"] * of_effusion)
    along_edema = np.einsum("cef,gf->gce", table["effusion"], of_effusion)
    of_heart = np.einsum("ce,gce,e->gc", table["edema"], along_edema, of_edema)
    of_group = (table["cardiomegaly"] * of_heart) @ full["cardiomegaly"]
    of_emphysema = full["emphysema"] * (table["volume"] @ full["volume"])
    of_group = of_group * (table["emphysema"] * of_emphysema).sum(axis=-1)
    alone = [axis for axis, parents in PARENTS.items() if parents == ("",)]
    for axis in (*alone, *FRAME):
        if axis in ("cardiomegaly", "pneumothorax", "emphysema"):
            continue
        of_group = of_group * (table[axis] @ full[axis])
    return float(GROUP_SHARE @ of_group)


@cache
def unchanged_probability() -> float:
    """Probability that a random study has an earlier one with the same findings.

    The lung volume may differ.  The last patient of a set may lack studies; that is not counted.
    """
    later = 1.0 - 1.0 / float(STUDY_COUNT @ np.arange(1, len(STUDY_COUNT) + 1))
    return later * (KEEP + (1.0 - KEEP) * probability({}, power=2))
