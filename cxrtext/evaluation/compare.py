"""Several models on the same images: paired differences on the same resamples of patients."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cxrtext.evaluation.bootstrap import paired_difference
from cxrtext.evaluation.tasks.resampling import Resampled, interval_of

SMALLER_IS_BETTER = "MedR"

Measures = Mapping[str, Resampled]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A measure of one model less that of another.

    Args:
        measure: Its name.
        first: The model that is subtracted.
        second: The model it is subtracted from.
        estimate: Second less first, on the images as they are.
        low: Lower end of the 95 % interval.
        high: Upper end.
        p_value: Two-sided, not corrected for the number of comparisons.
        verdict: "better", "worse" or "not told apart": of the second, by whether the interval
            leaves out 0.
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
    """Several models on the same images.

    Args:
        models: Their names, the first being the one that the others are best read against.
        measures: By model and measure: ``value``, ``low`` and ``high``.
        differences: Of every two models.
        left_out: What could not be compared, and why.
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
            (``evaluation.details.resampled``).

    Returns:
        The comparison; a measure that two models do not have on equal rows is left out, and said.

    Raises:
        ValueError: There are fewer than two models.
    """
    if len(models) < 2:
        raise ValueError("a comparison wants at least two models")
    names = list(dict.fromkeys(name for measures in models.values() for name in measures))
    differences: list[PairedDifference] = []
    left_out: list[str] = []
    for name in names:
        for first, second in combinations(models, 2):
            one, other = models[first].get(name), models[second].get(name)
            problem = _problem(one, other)
            if problem or one is None or other is None:
                left_out.append(f"{name}: {first} and {second}: {problem}")
            else:
                differences.append(_difference(name, (first, one), (second, other)))
    values = {
        model: {name: _value(one) for name, one in measures.items()}
        for model, measures in models.items()
    }
    return Comparison(list(models), values, differences, left_out)


def _problem(one: Resampled | None, other: Resampled | None) -> str:
    if one is None or other is None:
        return "one of them was not measured"
    if one.rows != other.rows:
        return "measured on other images or boxes"
    if not len(one.values) or len(one.values) != len(other.values):
        return "there are no resamples; ask for some with --resamples"
    defined = ~(np.isnan(one.values) | np.isnan(other.values))
    return "" if defined.mean() >= 0.9 else "hardly any resample holds both classes"


def _difference(
    name: str, first: tuple[str, Resampled], second: tuple[str, Resampled]
) -> PairedDifference:
    one, other = first[1], second[1]
    defined = ~(np.isnan(one.values) | np.isnan(other.values))
    found = paired_difference(
        other.values[defined], one.values[defined], other.estimate - one.estimate
    )
    verdict = "not told apart"
    if found.low > 0 or found.high < 0:
        better = (found.low > 0) != name.endswith(SMALLER_IS_BETTER)
        verdict = "better" if better else "worse"
    return PairedDifference(
        name,
        first[0],
        second[0],
        found.estimate,
        found.low,
        found.high,
        found.p_value,
        verdict,
    )


def _value(one: Resampled) -> dict[str, float | None]:
    low, high = interval_of(one.values) or (None, None)
    return {"value": one.estimate, "low": low, "high": high}
