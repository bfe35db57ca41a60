"""Intervals and differences by resampling patients.

Images of one patient are alike, so patients are drawn, not images.  A resample is kept as counts:
``counts[r, i]`` is how often row i occurs in resample r; the measures of
:mod:`cxrtext.evaluation.metrics` take all resamples together.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.metrics import Floats

Counts = NDArray[np.int64]
Interval = tuple[float, float]
RESAMPLES_AT_ONCE = 64
"""Resamples drawn at the same time; bounds memory."""
SMALLER_IS_BETTER = "MedR"
"""How the names of measures end of which a smaller one is better."""


def resample_patients(
    patients: Sequence[Hashable], resamples: int, generator: np.random.Generator
) -> Counts:
    """Draw patients with replacement, as many as there are: the patients of n rows -> [R, n].

    The rows of a patient occur equally often.

    Source: Efron 1979; Davison and Hinkley 1997, section 3.8 (clusters).
    """
    if not len(patients) or resamples < 1:
        raise ValueError("at least one row and one resample are wanted")
    numbers: dict[Hashable, int] = {}
    rows = np.array([numbers.setdefault(patient, len(numbers)) for patient in patients])
    shares = np.full(len(numbers), 1 / len(numbers))
    drawn: Counts = generator.multinomial(len(numbers), shares, size=resamples)
    return drawn[:, rows]


def draw(patients: Sequence[Hashable], resamples: int, seed: Sequence[int]) -> NDArray[np.uint16]:
    """:func:`resample_patients`, the same for the same patients and seed; R may be 0.

    Counts are 16 bits wide, and drawn some resamples at a time, so that those of a hundred
    thousand sentences fit in memory.
    """
    generator = np.random.default_rng(list(seed))
    parts = [np.zeros((0, len(patients)), dtype=np.uint16)]
    for start in range(0, resamples if len(patients) else 0, RESAMPLES_AT_ONCE):
        some = min(RESAMPLES_AT_ONCE, resamples - start)
        parts.append(resample_patients(patients, some, generator).astype(np.uint16))
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Resamples:
    """Resamples [R, n] each of which can be measured, and how many were drawn again for that."""

    counts: Counts
    redrawn: int


def resample_covering(
    patients: Sequence[Hashable],
    needed: ArrayLike,
    resamples: int,
    generator: np.random.Generator,
) -> Resamples:
    """Draw patients, and draw again whatever lacks a row of a set that is needed.

    Where many are drawn again, the interval is that of resamples that happen to hold both
    classes, and too narrow.

    Args:
        patients: [n], the patient of each row.
        needed: [k, n], boolean: sets of rows; a resample must hold a row of each.  For AUC the
            positives and the negatives.

    Raises:
        ValueError: The shapes do not fit, a set has no row, or the sets are so rare that 1,000
            draws for each resample do not do.
    """
    sets = np.atleast_2d(np.asarray(needed, dtype=np.bool_))
    if sets.shape[1] != len(patients):
        raise ValueError(f"needed must be [k, {len(patients)}], got {list(sets.shape)}")
    if not sets.any(axis=1).all():
        raise ValueError("a class has no row at all, so no resample can hold it")
    counts = resample_patients(patients, resamples, generator)
    redrawn = 0
    lacking = _lacking(counts, sets)
    while lacking.size:
        redrawn += lacking.size
        if redrawn > 1000 * resamples:
            raise ValueError("a class is in so few patients that resamples hardly ever hold it")
        counts[lacking] = resample_patients(patients, lacking.size, generator)
        lacking = lacking[_lacking(counts[lacking], sets)]
    return Resamples(counts, redrawn)


def _lacking(counts: Counts, sets: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Resamples that lack a set: [R, n], [k, n] -> places in R."""
    # Products of float32 are fast, and no sum of counts is taken for 0 by rounding.
    held = counts.astype(np.float32) @ sets.T.astype(np.float32)
    return np.flatnonzero((held == 0).any(axis=1))


def interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Percentile interval of a measure's values over resamples, [R] without NaN -> (low, high).

    Source: Efron and Tibshirani 1993, section 13.3.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size or np.isnan(numbers).any():
        raise ValueError("values must be [R] without NaN; draw with resample_covering")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    low, high = np.quantile(numbers, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interval_of(values: Floats) -> Interval | None:
    """The interval of a measure; None where there are no resamples.

    Resamples in which the measure is not defined (NaN), because no row of a small group was
    drawn, are left out; where they are more than a tenth there is no interval.
    """
    known = values[~np.isnan(values)]
    if not len(values) or len(known) < 0.9 * len(values):
        return None
    return interval(known)


def intervals_of(measures: Mapping[str, Floats]) -> dict[str, Interval]:
    """The intervals of measures, as far as they have one."""
    found = {name: interval_of(values) for name, values in measures.items()}
    return {name: ends for name, ends in found.items() if ends is not None}


@dataclass(frozen=True, slots=True)
class Resampled:
    """A measure on the data as they are, and on every resample of them, [R].

    ``rows`` is what was resampled: measures of two models on equal rows are paired.
    """

    estimate: float
    values: Floats
    rows: tuple[Hashable, ...] = field(repr=False)


Measures = Mapping[str, Resampled]


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another, with the ends of its interval, two-sided."""

    estimate: float
    low: float
    high: float
    p_value: float


def paired_difference(first: ArrayLike, second: ArrayLike, estimate: float) -> Difference:
    """Compare two models by a measure on the same resamples, [R] each.

    ``estimate`` is first less second on the rows as they are.  The p-value is twice the smaller
    share of differences at or beyond 0, the observed data counted as one more resample: never 0,
    at most 1.

    Source: Davison and Hinkley 1997, section 4.2 (counting the observed data); Efron and
        Tibshirani 1993, section 15.4 (a test by the level at which the interval leaves out 0).
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise ValueError(f"first {one.shape} and second {other.shape} must be equally long")
    differences = one - other
    low, high = interval(differences)
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return Difference(estimate, low, high, min(1.0, 2 * (tail + 1) / (len(differences) + 1)))


BETTER, WORSE, TIED = "better", "worse", "not distinguishable"


def difference_of(
    one: Resampled, other: Resampled, *, smaller: bool = False
) -> tuple[Difference | None, str]:
    """The first less the second where both are defined, and what that says of the first.

    It is better or worse where the interval leaves out 0.  The difference is None where there are
    no resamples, or more than a tenth of them lack one of the two.
    """
    defined = ~(np.isnan(one.values) | np.isnan(other.values))
    if not len(defined) or defined.mean() < 0.9:
        return None, TIED
    estimate = one.estimate - other.estimate
    found = paired_difference(one.values[defined], other.values[defined], estimate)
    if found.low > 0 or found.high < 0:
        return found, BETTER if (found.low > 0) != smaller else WORSE
    return found, TIED


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A measure of the second model less that of the first, with its 95 % interval.

    The p-value is two-sided and not corrected for the number of comparisons; the verdict, on the
    second, is "better", "worse" or "not distinguishable", by whether the interval leaves out 0.
    """

    measure: str
    first: str
    second: str
    estimate: float
    low: float
    high: float
    p_value: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models on the same images, the others being best read against the first.

    ``measures``: by model and measure ``value``, ``low`` and ``high``.  ``differences``: of every
    two models.  ``left_out``: what could not be compared, and why.
    """

    models: list[str]
    measures: dict[str, dict[str, dict[str, float | None]]]
    differences: list[PairedDifference]
    left_out: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as it stands in ``comparison.json``."""
        return asdict(self)


def compare(models: Mapping[str, Measures]) -> Comparison:
    """Compare models that were evaluated on the same data with the same settings.

    Args:
        models: By name, the measures of :func:`~cxrtext.evaluation.evaluate`
            (``evaluation.measured.resampled``); at least two.

    Returns:
        The comparison; a measure that two models do not have on equal rows is left out, and said.
    """
    if len(models) < 2:
        raise ValueError("a comparison wants at least two models")
    names = list(dict.fromkeys(name for measures in models.values() for name in measures))
    differences: list[PairedDifference] = []
    left_out: list[str] = []
    for name in names:
        for first, second in combinations(models, 2):
            one, other = models[first].get(name), models[second].get(name)
            if one is None or other is None:
                problem = "one of them was not measured"
            elif one.rows != other.rows:
                problem = "measured on other images or boxes"
            elif not len(one.values) or len(one.values) != len(other.values):
                problem = "there are no resamples; ask for some with --resamples"
            else:
                smaller = name.endswith(SMALLER_IS_BETTER)
                found, verdict = difference_of(other, one, smaller=smaller)
                if found is not None:
                    values = (found.estimate, found.low, found.high, found.p_value)
                    differences.append(PairedDifference(name, first, second, *values, verdict))
                    continue
                problem = "hardly any resample holds both classes"
            left_out.append(f"{name}: {first} and {second}: {problem}")
    values_of = {
        model: {name: estimate_of(one) for name, one in measures.items()}
        for model, measures in models.items()
    }
    return Comparison(list(models), values_of, differences, left_out)


def estimate_of(one: Resampled) -> dict[str, float | None]:
    """A measure with its interval: ``value``, ``low`` and ``high``; None where it has none."""
    low, high = interval_of(one.values) or (None, None)
    return {"value": one.estimate, "low": low, "high": high}
