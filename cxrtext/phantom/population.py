"""The population: which findings a study has, where and how severe, and how often.

A study's state is drawn along a small tree of conditional tables, so that every statement about
it has an exactly computable probability:

    age group → cardiomegaly → edema → effusion → pneumonia
    age group → pneumothorax, aorta, spine, lung volume

Places and severities follow falling, Zipf-like weights, which makes the tail of finding × place ×
severity long.  Right and left are the patient's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOBES = (
    "right lower lobe",
    "left lower lobe",
    "right upper lobe",
    "right middle lobe",
    "left upper lobe",
    "lingula",
)
"""Places of a pneumonia, the commonest first."""

LOBE_PAIRS = (
    ("right lower lobe", "left lower lobe"),
    ("right middle lobe", "right lower lobe"),
    ("right upper lobe", "right lower lobe"),
    ("lingula", "left lower lobe"),
    ("left upper lobe", "left lower lobe"),
    ("right upper lobe", "right middle lobe"),
    ("right upper lobe", "left upper lobe"),
    ("right upper lobe", "left lower lobe"),
    ("left upper lobe", "lingula"),
)
"""Places of a pneumonia in two lobes, the commonest first."""

GROUPS = ((18, 44), (45, 64), (65, 92))
"""Age groups in years, both ends included."""

GROUP_SHARE: Floats = np.array([0.30, 0.35, 0.35])
GRADE_SHARE = (0.46, 0.34, 0.20)
KEEP = 0.35
"""Probability that a later study of a patient repeats the findings of the one before."""

STUDY_COUNT: Floats = np.array([0.50, 0.25, 0.15, 0.10])
"""Probabilities of 1, 2, 3 and 4 studies a patient."""


def _pneumonias() -> list[tuple[int, tuple[str, ...]]]:
    places: list[tuple[str, ...]] = [(lobe,) for lobe in LOBES]
    places += LOBE_PAIRS
    return [(grade, place) for place in places for grade in (1, 2, 3)]


def _pneumothoraces() -> list[tuple[int, str, str]]:
    values = []
    for side in ("right", "left"):
        values += [(1, side, "apical"), (2, side, "apical"), (1, side, "lateral")]
        values += [(2, side, "lateral"), (1, side, "basilar"), (2, side, "basilar")]
        values += [(3, side, "apicolateral"), (4, side, "tension")]
    return [*values, (1, "both", "apical"), (2, "both", "apical")]


VALUES: dict[str, tuple[Any, ...]] = {
    "cardiomegaly": (0, 1, 2, 3),
    "edema": ((0, ""), *((grade, lean) for grade in (1, 2, 3) for lean in ("", "right", "left"))),
    "effusion": tuple((right, left) for right in range(4) for left in range(4)),
    "pneumonia": ((0, ()), *_pneumonias()),
    "pneumothorax": ((0, "", ""), *_pneumothoraces()),
    "aorta": ("normal", "tortuous", "calcified"),
    "spine": ("straight", "degenerative", "scoliosis right", "scoliosis left"),
    "volume": ("normal", "low", "high"),
}
"""Every value that each axis of a study's state can take; the first is the normal one."""


@dataclass(frozen=True, slots=True)
class State:
    """What is to be seen in one study.

    Args:
        cardiomegaly: Grade, 0 (none) to 3 (severe).
        edema: Grade 0 to 3, and the side that is worse ("" where neither).
        effusion: Grades 0 to 3 of the right and of the left side.
        pneumonia: Grade 0 to 3, and the lobes.
        pneumothorax: Grade 0 to 4 (tension), side ("right", "left", "both"), and place.
        aorta: "normal", "tortuous" or "calcified".
        spine: "straight", "degenerative", "scoliosis right" or "scoliosis left".
        volume: "normal", "low" or "high".
    """

    cardiomegaly: int = 0
    edema: tuple[int, str] = (0, "")
    effusion: tuple[int, int] = (0, 0)
    pneumonia: tuple[int, tuple[str, ...]] = (0, ())
    pneumothorax: tuple[int, str, str] = (0, "", "")
    aorta: str = "normal"
    spine: str = "straight"
    volume: str = "normal"

    def places(self) -> tuple[tuple[str, str], ...]:
        """Every (finding, part) that is there; the parts are those of the boxes."""
        places = [("Cardiomegaly", "heart")] if self.cardiomegaly else []
        if self.edema[0]:
            places += [("Edema", side) for side in ("right", "left")]
        for side, grade in zip(("right", "left"), self.effusion, strict=True):
            places += [("Pleural Effusion", side)] if grade else []
        places += [("Pneumonia", lobe) for lobe in self.pneumonia[1]]
        for side in ("right", "left"):
            if self.pneumothorax[1] in (side, "both"):
                places.append(("Pneumothorax", side))
        return tuple(places)

    def labels(self) -> dict[str, int]:
        """The CheX5 labels, 1 or 0, by finding."""
        return {
            "Cardiomegaly": int(self.cardiomegaly > 0),
            "Edema": int(self.edema[0] > 0),
            "Pleural Effusion": int(any(self.effusion)),
            "Pneumonia": int(self.pneumonia[0] > 0),
            "Pneumothorax": int(self.pneumothorax[0] > 0),
        }

    def is_normal(self) -> bool:
        """Whether every axis has its normal value."""
        return self == State()


def _row(prevalence: float, weights: Sequence[float]) -> Floats:
    """Probabilities of "none" and of each other value, the latter in proportion to ``weights``."""
    share = np.asarray(weights, dtype=np.float64)
    return np.concatenate([[1.0 - prevalence], prevalence * share / share.sum()])


def _edema(cardiomegaly: int) -> Floats:
    prevalence = (0.12, 0.28, 0.42, 0.58)[cardiomegaly]
    lean = {"": 0.7, "right": 0.19, "left": 0.11}
    return _row(prevalence, [GRADE_SHARE[g - 1] * lean[s] for g, s in VALUES["edema"][1:]])


def _effusion(cardiomegaly: int, edema: tuple[int, str]) -> Floats:
    prevalence = min(0.155 + 0.05 * cardiomegaly + 0.12 * edema[0], 0.62)
    both = 0.45 if edema[0] else 0.16
    size = (0.0, 0.48, 0.32, 0.20)
    weights = []
    for right, left in VALUES["effusion"][1:]:
        if right and left:
            nearness = (1.0, 0.28, 0.06)[abs(right - left)]
            weights.append(both * size[right] * size[left] * nearness * 2.4)
        else:
            share = 0.56 if right else 0.44
            weights.append((1 - both) * share * size[right or left])
    return _row(prevalence, weights)


def _pneumonia(effusion: tuple[int, int]) -> Floats:
    prevalence = 0.25 if any(effusion) else 0.20
    places = [(lobe,) for lobe in LOBES], list(LOBE_PAIRS)
    weight = {place: 0.76 / (rank + 1.4) for rank, place in enumerate(places[0])}
    pairs = {place: 0.20 / (rank + 1.4) for rank, place in enumerate(places[1])}
    return _row(
        prevalence,
        [
            (weight | pairs)[place] * GRADE_SHARE[grade - 1]
            for grade, place in VALUES["pneumonia"][1:]
        ],
    )


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


@cache
def tables() -> dict[str, Floats]:
    """The conditional tables, by axis.

    Returns:
        ``cardiomegaly`` [G, C], ``edema`` [C, E], ``effusion`` [C, E, F], ``pneumonia`` [F, P],
        and ``pneumothorax``, ``aorta``, ``spine``, ``volume`` [G, ·]: G age groups, the others in
        the order of ``VALUES``; each sums to 1 over its last axis.
    """
    groups = range(len(GROUPS))

    def by_group(row: Callable[[int], Floats]) -> Floats:
        return np.stack([row(group) for group in groups])

    return {
        "cardiomegaly": by_group(lambda g: _row((0.11, 0.22, 0.31)[g], GRADE_SHARE)),
        "edema": np.stack([_edema(c) for c in VALUES["cardiomegaly"]]),
        "effusion": np.stack(
            [[_effusion(c, e) for e in VALUES["edema"]] for c in VALUES["cardiomegaly"]]
        ),
        "pneumonia": np.stack([_pneumonia(f) for f in VALUES["effusion"]]),
        "pneumothorax": by_group(_pneumothorax),
        "aorta": by_group(lambda g: _row((0.02, 0.14, 0.36)[g], (0.6, 0.4))),
        "spine": by_group(lambda g: _row((0.05, 0.15, 0.34)[g], (0.62, 0.25, 0.13))),
        "volume": by_group(lambda g: _row((0.13, 0.20, 0.26)[g], (0.64, 0.36))),
    }


def _draw(generator: np.random.Generator, axis: str, row: Floats) -> Any:
    place = int(np.searchsorted(np.cumsum(row), generator.random(), side="right"))
    return VALUES[axis][min(place, len(row) - 1)]


def draw_findings(generator: np.random.Generator, group: int) -> State:
    """Draw the five findings and the lung volume of one study of a patient of an age group."""
    table = tables()
    cardiomegaly = _draw(generator, "cardiomegaly", table["cardiomegaly"][group])
    edema = _draw(generator, "edema", table["edema"][cardiomegaly])
    row = table["effusion"][cardiomegaly, VALUES["edema"].index(edema)]
    effusion = _draw(generator, "effusion", row)
    row = table["pneumonia"][VALUES["effusion"].index(effusion)]
    return State(
        cardiomegaly=cardiomegaly,
        edema=edema,
        effusion=effusion,
        pneumonia=_draw(generator, "pneumonia", row),
        pneumothorax=_draw(generator, "pneumothorax", table["pneumothorax"][group]),
        volume=_draw(generator, "volume", table["volume"][group]),
    )


def draw_frame(generator: np.random.Generator, group: int) -> tuple[str, str]:
    """Draw what stays with a patient: the aorta and the spine."""
    table = tables()
    return (
        _draw(generator, "aorta", table["aorta"][group]),
        _draw(generator, "spine", table["spine"][group]),
    )


def probability(masks: dict[str, Floats], power: int = 1) -> float:
    """Probability that a random study's value lies in the mask of every axis.

    Args:
        masks: One vector of 0 and 1 an axis, in the order of ``VALUES``; no vector: any value.
        power: 2 gives the probability that two independent studies of one patient agree.

    Returns:
        The exact probability, summed along the tree.
    """
    full = {axis: masks.get(axis, np.ones(len(values))) for axis, values in VALUES.items()}
    table = {axis: values**power for axis, values in tables().items()}
    of_effusion = table["pneumonia"] @ full["pneumonia"]
    of_edema = table["effusion"] @ (full["effusion"] * of_effusion)
    of_cardiomegaly = (table["edema"] * of_edema) @ full["edema"]
    of_group = table["cardiomegaly"] @ (full["cardiomegaly"] * of_cardiomegaly)
    for axis in ("pneumothorax", "aorta", "spine", "volume"):
        if power == 1 or axis == "pneumothorax":
            of_group = of_group * (table[axis] @ full[axis])
    return float(GROUP_SHARE @ of_group)


@cache
def unchanged_probability() -> float:
    """Probability that a random study has an earlier one with the same five findings.

    The last patient of a set may lack studies; that is not counted.
    """
    later = 1.0 - 1.0 / float(STUDY_COUNT @ np.arange(1, len(STUDY_COUNT) + 1))
    return later * (KEEP + (1.0 - KEEP) * probability({}, power=2))
