"""Models on the same images: how much better one is than another, by one declared measure first."""

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

from cxrtext.evaluation.intervals.bootstrap import (
    SMALLER_IS_BETTER,
    Difference,
    Interval,
    Resampled,
    difference_of,
    verdict_of,
)
from cxrtext.evaluation.intervals.delong import Area, difference
from cxrtext.evaluation.intervals.multiple import POWER, holm
from cxrtext.evaluation.intervals.quantiles import NORMAL, quantile

PRIMARY = "AUC"
"""The primary measure where none is declared: the mean AUC over findings."""
OF_FINDING = "AUC of "
"""Before a finding's name: its AUC."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """An AUC, and what it was measured on: those of two models on equal rows are paired."""

    area: Area
    rows: tuple[Hashable, ...] = field(repr=False)

    @property
    def estimate(self) -> float:
        return self.area.value

    def interval(self) -> Interval | None:
        return self.area.interval()


Compared = Resampled | Ranked
Measures = Mapping[str, Compared]


def rows_digest(columns: Iterable[Iterable[Hashable]]) -> tuple[Hashable, ...]:
    """What stands for the rows that something was measured on, in place of their ids."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(repr(list(column)).encode())
    return (digest.hexdigest(),)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A measure of the second model less that of the first, with its 95 % interval.

    The p-value is two-sided; ``adjusted_p`` is Holm's, for the primary measure among its pairs of
    models, for the others among all of theirs.  The verdict, on the second, is "better", "worse"
    or "not distinguishable", by whether the interval leaves out 0.  ``noninferior``: whether the
    interval lies above the margin, None without one.  ``detectable``: the difference that would
    have been found with a power of 80 %.
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
    noninferior: bool | None = None
    detectable: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models on the same images, the others being best read against the first.

    ``measures``: by model and measure ``value``, ``low`` and ``high``.  ``differences``: of every
    two models, of the primary measure first.  ``left_out``: what could not be compared, and why.
    ``margin``: by how much a model may be worse and is still noninferior.
    """

    models: list[str]
    measures: dict[str, dict[str, dict[str, float | None]]]
    differences: list[PairedDifference]
    left_out: list[str]
    primary: str = PRIMARY
    margin: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    models: Mapping[str, Measures], *, primary: str = PRIMARY, margin: float | None = None
) -> Comparison:
    """Compare models that were evaluated on the same data with the same settings.

    A measure that two models do not have on equal rows is left out, and said.

    Args:
        models: By name, the measures of :func:`~cxrtext.evaluation.evaluate`
            (``evaluation.rows.compared``); at least two.
        primary: The measure that decides, declared before the figures are seen.
        margin: Of noninferiority, for the primary measure and for AUCs.
    """
    if len(models) < 2:
        raise ValueError("a comparison wants at least two models")
    if margin is not None and not margin > 0:
        raise ValueError(f"a margin must be above 0, not {margin}")
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
                found = _difference(other, one)
                problem = "hardly any resample holds both classes, or there is one patient"
            if found is None:
                left_out.append(f"{name}: {first} and {second}: {problem}")
                continue
            asked = margin if name == primary or isinstance(one, Ranked) else None
            differences.append(_paired(name, (first, second), found, asked))
    values_of = {
        model: {name: estimate_of(one) for name, one in measures.items()}
        for model, measures in models.items()
    }
    return Comparison(
        list(models), values_of, _adjusted(differences, primary), left_out, primary, margin
    )


def _problem(one: Compared | None, other: Compared | None) -> str:
    """Why two models cannot be compared on a measure; "" where they can."""
    if one is None or other is None:
        return "one of them was not measured"
    if one.rows != other.rows:
        return "measured on other images or boxes"
    if isinstance(one, Ranked) and isinstance(other, Ranked):
        return ""
    if isinstance(one, Ranked) or isinstance(other, Ranked):
        return "measured in different ways"
    if not len(one.values) or len(one.values) != len(other.values):
        return "there are no resamples; ask for some with --resamples"
    return ""


def _difference(one: Compared, other: Compared) -> Difference | None:
    if isinstance(one, Ranked) and isinstance(other, Ranked):
        return difference(one.area, other.area)
    if isinstance(one, Resampled) and isinstance(other, Resampled):
        return difference_of(one, other)
    return None


def _paired(
    name: str, models: tuple[str, str], found: Difference, margin: float | None
) -> PairedDifference:
    """A difference; with a margin also whether the second is noninferior by it.

    With the two-sided 95 % interval the test is one-sided at 2.5 %.  Source: Piaggio et al. 2012
    (CONSORT, noninferiority trials).
    """
    smaller = name.endswith(SMALLER_IS_BETTER)
    deviation = (found.high - found.low) / (2 * quantile(0.95))
    least = -found.high if smaller else found.low
    return PairedDifference(
        name, *models, found.estimate, found.low, found.high, found.p_value,
        verdict_of((found.low, found.high), smaller=smaller),
        noninferior=None if margin is None else least > -margin,
        detectable=(quantile(0.95) + NORMAL.inv_cdf(POWER)) * deviation,
    )  # fmt: skip


def _adjusted(found: Sequence[PairedDifference], primary: str) -> list[PairedDifference]:
    """With Holm's p-values, of the primary measure and of all others apart."""
    adjusted: dict[int, float] = {}
    for main in (True, False):
        places = [at for at, one in enumerate(found) if (one.measure == primary) == main]
        adjusted.update(zip(places, holm([found[at].p_value for at in places]), strict=True))
    return [replace(one, adjusted_p=adjusted[at]) for at, one in enumerate(found)]


def estimate_of(one: Compared) -> dict[str, float | None]:
    """A measure with its interval: ``value``, ``low`` and ``high``; None where it has none."""
    low, high = one.interval() or (None, None)
    return {"value": one.estimate, "low": low, "high": high}
