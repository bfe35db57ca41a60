"""Means of a measure by finding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class FindingMean:
    """The mean of a measure over the sentences of a finding.

    Args:
        mean: Over the defined values; None where there is none.
        count: Defined values.
        undefined: Values that are NaN, left out of the mean.
    """

    mean: float | None
    count: int
    undefined: int


def mean_by_finding(values: ArrayLike, findings: Sequence[str]) -> dict[str, FindingMean]:
    """Average a measure over the sentences of each finding.

    Args:
        values: [n], one a sentence; NaN where it is not defined.
        findings: [n].

    Returns:
        By finding in order of first appearance, then "mean of findings" (each finding weighs the
        same) and "all" (each sentence weighs the same).

    Raises:
        ValueError: The lengths differ.
    """
    numbers, names = np.asarray(values, dtype=np.float64), np.asarray(findings, dtype=object)
    if numbers.ndim != 1 or numbers.shape != names.shape:
        raise ValueError(f"values {numbers.shape} and findings {names.shape} must be equally long")
    found = {name: _mean(numbers[names == name]) for name in dict.fromkeys(findings)}
    means = [one.mean for one in found.values() if one.mean is not None]
    macro = _mean(np.asarray(means, dtype=np.float64))
    left_out = len(found) - len(means)
    return {
        **found,
        "mean of findings": FindingMean(macro.mean, macro.count, left_out),
        "all": _mean(numbers),
    }


def _mean(values: NDArray[np.float64]) -> FindingMean:
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if known.size else None
    return FindingMean(mean, int(known.size), int(values.size - known.size))
