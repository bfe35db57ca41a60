"""Models on the same images: how much better one is than another, by one declared measure first."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from cxrtext.metrics.intervals import Measured, difference, holm

BETTER, WORSE, TIED = "better", "worse", "not distinguishable"
SMALLER_IS_BETTER = "MedR"
"""How the names of measures end of which a smaller one is better."""
PRIMARY = "AUC"
"""The primary measure where none is declared: the mean AUC over findings."""
LEVEL = 0.05
Measures = Mapping[str, Measured]


def smallest_difference(measure: str) -> float:
    """The smallest difference of a measure that counts; less is "not distinguishable".

    Of shares and AUCs half a point in a hundred, of CNR a fiftieth, of a median rank one.
    """
    if measure.endswith(SMALLER_IS_BETTER):
        return 1.0
    return 0.02 if measure.endswith("CNR") else 0.005


def verdict_of(measure: str, estimate: float, ends: tuple[float, float]) -> str:
    """What a difference says of the first.

    It has to be as large as counts, and its interval to leave out 0.
    """
    low, high = ends
    if abs(estimate) < smallest_difference(measure) or low <= 0 <= high:
        return TIED
    return BETTER if (low > 0) != measure.endswith(SMALLER_IS_BETTER) else WORSE


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A measure of the second model less that of the first, with its 95 % interval.

    The p-value is two-sided; ``adjusted_p`` is Holm's, for the primary measure among its pairs of
    models, for the others among all of theirs.  The verdict, on the second, is "better" or "worse"
    where the interval leaves out 0, the adjusted p-value is below .05, and the difference as large
    as counts (:func:`smallest_difference`); else "not distinguishable".
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
    """Models on the same images, the others being best read against the first.

    ``measures``: by model and measure ``value``, ``low`` and ``high``.  ``differences``: of every
    two models, of the primary measure first.  ``left_out``: what could not be compared, and why.
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

    A measure that two models do not have on equal rows is left out, and said.

    Args:
        models: By name, the measures of :func:`~cxrtext.evaluation.evaluate`
            (``evaluation.rows.compared``); at least two.
        primary: The measure that decides, declared before the figures are seen.
    """
    if len(models) < 2:
        raise ValueError("a comparison wants at least two models")
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
            found = None
            if one is not None and other is not None and not problem:
                found = difference(other, one)
                problem = "there is one patient"
            if found is None:
                left_out.append(f"{name}: {first} and {second}: {problem}")
                continue
            verdict = verdict_of(name, found.estimate, (found.low, found.high))
            differences.append(
                PairedDifference(
                    name, first, second, found.estimate, found.low, found.high, found.p_value,
                    verdict,
                )
            )  # fmt: skip
    values_of = {
        model: {name: estimate_of(one) for name, one in measures.items()}
        for model, measures in models.items()
    }
    return Comparison(list(models), values_of, _adjusted(differences, primary), left_out, primary)


def _problem(one: Measured | None, other: Measured | None) -> str:
    """Why two models cannot be compared on a measure; "" where they can."""
    if one is None or other is None:
        return "one of them was not measured"
    if one.rows != other.rows or one.influence.shape != other.influence.shape:
        return "measured on other images or boxes"
    return ""


def _adjusted(found: Sequence[PairedDifference], primary: str) -> list[PairedDifference]:
    """With Holm's p-values, of the primary measure and of all others apart."""
    adjusted: dict[int, float] = {}
    for main in (True, False):
        places = [at for at, one in enumerate(found) if (one.measure == primary) == main]
        adjusted.update(zip(places, holm([found[at].p_value for at in places]), strict=True))
    return [
        replace(one, adjusted_p=adjusted[at], verdict=one.verdict if adjusted[at] < LEVEL else TIED)
        for at, one in enumerate(found)
    ]


def estimate_of(one: Measured) -> dict[str, float | None]:
    """A measure with its interval: ``value``, ``low`` and ``high``; None where it has none."""
    low, high = one.interval() or (None, None)
    return {"value": one.value, "low": low, "high": high}
