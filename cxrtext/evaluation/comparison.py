"""Compare models on the same images, first by one measure declared in advance."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from cxrtext.metrics.intervals import Measured, difference, holm

BETTER, WORSE, TIED = "better", "worse", "not distinguishable"
SMALLER_IS_BETTER = "MedR"
"""Measures with names that end like this are better if smaller."""
PRIMARY = "AUC"
"""The default primary measure: the mean AUC over findings."""
LEVEL = 0.05
Measures = Mapping[str, Measured]


def smallest_difference(measure: str) -> float:
    """The smallest difference of a measure that counts; less is "not distinguishable".

    It is half a point in a hundred for shares and AUCs, a fiftieth for CNR, one for a median rank.
    """
    if measure.endswith(SMALLER_IS_BETTER):
        return 1.0
    return 0.02 if measure.endswith("CNR") else 0.005


def verdict_of(measure: str, estimate: float, ends: tuple[float, float]) -> str:
    """What a difference says about the first model.

    It must be large enough to count, and its interval must leave out 0.
    """
    low, high = ends
    if abs(estimate) < smallest_difference(measure) or low <= 0 <= high:
        return TIED
    return BETTER if (low > 0) != measure.endswith(SMALLER_IS_BETTER) else WORSE


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A measure of the second model minus that of the first, with its 95 % interval.

    The p-value is two-sided; ``adjusted_p`` is Holm's, over all pairs of models for the primary
    measure, and over all pairs and measures for the others.  The verdict on the second model is
    "better" or "worse" if the interval leaves out 0, the adjusted p-value is below .05, and the
    difference is large enough to count (:func:`smallest_difference`); else "not distinguishable".
    """

    measure: str
    first: str
    second: str
    estimate: float
    low: float
    high: float
    p_value: float
    verdict: str
    adjusted_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models on the same images; read the others against the first.

    ``measures``: ``value``, ``low`` and ``high`` by model and measure.  ``differences``: of every
    two models, the primary measure first.  ``left_out``: what could not be compared, and why.
    """

    models: list[str]
    measures: dict[str, dict[str, dict[str, float | None]]]
    differences: list[PairedDifference]
    left_out: list[str]
    primary: str = PRIMARY

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(models: Mapping[str, Measures], *, primary: str = PRIMARY) -> Comparison:
    """Compare models that were evaluated on the same data with the same settings.

    A measure that two models do not have on equal rows is left out, and listed as such.

    Args:
        models: The measures of :func:`~cxrtext.evaluation.evaluate` by name
            (``evaluation.rows.compared``); at least two.
        primary: The measure that decides, declared before the figures are seen.
    """
    if len(models) < 2:
        raise ValueError("a comparison needs at least two models")
    known = list(dict.fromkeys(name for measures in models.values() for name in measures))
    names = sorted(known, key=lambda name: name != primary)
    differences: list[PairedDifference] = []
    left_out: list[str] = []
    if primary not in known:
        left_out.append(
            f"the primary measure, {primary}, was not measured; others are: {', '.join(known)}"
        )
    for name in names:
        for first, second in combinations(models, 2):
            one, other = models[first].get(name), models[second].get(name)
            problem = _problem(one, other)
            gap = None
            if one is not None and other is not None and not problem:
                gap = difference(other, one)
                problem = "there is one patient"
            if gap is None:
                left_out.append(f"{name}: {first} and {second}: {problem}")
                continue
            verdict = verdict_of(name, gap.estimate, (gap.low, gap.high))
            differences.append(
                PairedDifference(
                    name, first, second, gap.estimate, gap.low, gap.high, gap.p_value, verdict
                )
            )
    values_of = {
        model: {name: estimate_of(measured) for name, measured in measures.items()}
        for model, measures in models.items()
    }
    return Comparison(list(models), values_of, _adjusted(differences, primary), left_out, primary)


def _problem(one: Measured | None, other: Measured | None) -> str:
    """Why two models cannot be compared on a measure; "" if they can."""
    if one is None or other is None:
        return "one of them was not measured"
    if one.rows != other.rows or one.influence.shape != other.influence.shape:
        return "measured on other images or boxes"
    return ""


def _adjusted(differences: Sequence[PairedDifference], primary: str) -> list[PairedDifference]:
    """Add Holm's p-values, for the primary measure and for all others separately."""
    adjusted: dict[int, float] = {}
    for main in (True, False):
        places = [at for at, gap in enumerate(differences) if (gap.measure == primary) == main]
        adjusted.update(zip(places, holm([differences[at].p_value for at in places]), strict=True))
    return [
        replace(gap, adjusted_p=adjusted[at], verdict=gap.verdict if adjusted[at] < LEVEL else TIED)
        for at, gap in enumerate(differences)
    ]


def estimate_of(measured: Measured) -> dict[str, float | None]:
    """A measure's ``value``, and the ``low`` and ``high`` of its interval, or None."""
    low, high = measured.interval() or (None, None)
    return {"value": measured.value, "low": low, "high": high}
