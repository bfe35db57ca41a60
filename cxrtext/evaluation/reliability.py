"""Whether probabilities mean what they say."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.binary import Floats, probabilities_and_truth

Bins = Literal["width", "mass"]


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean squared difference of probability and label.

    Args:
        probabilities: [n], in [0, 1].
        labels: [n], 1 or 0.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.probabilities_and_truth`.

    Source: Brier 1950.
    """
    values, truth = probabilities_and_truth(probabilities, labels)
    return float(((values - truth) ** 2).mean())


@dataclass(frozen=True, slots=True)
class ReliabilityBins:
    """Rows gathered by their probability; bins without rows are left out.

    Args:
        counts: [b], rows in each bin.
        probability: [b], mean probability in each bin.
        observed: [b], share of positives in each bin.
    """

    counts: NDArray[np.int64]
    probability: Floats
    observed: Floats


def reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15, kind: Bins = "width"
) -> ReliabilityBins:
    """Gather rows by their probability.

    Args:
        probabilities: [n], in [0, 1].
        labels: [n], 1 or 0.
        bins: How many.
        kind: "width": [0, 1] in equal parts, each without its upper end but the last; "mass":
            equally many rows in each, except that equal probabilities stay together.

    Raises:
        ValueError: ``bins`` is below 1 or ``kind`` something else; or see
            :func:`~cxrtext.evaluation.binary.probabilities_and_truth`.

    Source: DeGroot and Fienberg 1983 (width); Nguyen and O'Connor 2015 (mass).
    """
    values, truth = probabilities_and_truth(probabilities, labels)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    if kind not in get_args(Bins):
        raise ValueError(f"kind must be one of {get_args(Bins)}, not {kind!r}")
    if kind == "width":
        place = np.minimum((values * bins).astype(np.int64), bins - 1)
    else:
        below = np.searchsorted(np.sort(values), values, side="left")
        place = below * bins // len(values)
    counts = np.bincount(place, minlength=bins)
    kept = counts > 0
    totals = [np.bincount(place, weights=w, minlength=bins) for w in (values, truth)]
    probability, observed = (total[kept] / counts[kept] for total in totals)
    return ReliabilityBins(counts[kept], probability, observed)


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15, kind: Bins = "width"
) -> float:
    """Mean gap between probability and share of positives, over bins, weighed by their rows.

    Args:
        probabilities: [n], in [0, 1].
        labels: [n], 1 or 0.
        bins: How many.
        kind: See :func:`reliability_bins`.

    Raises:
        ValueError: See :func:`reliability_bins`.

    Source: Naeini, Cooper and Hauskrecht 2015.
    """
    found = reliability_bins(probabilities, labels, bins, kind)
    gaps = np.abs(found.probability - found.observed)
    return float((found.counts * gaps).sum() / found.counts.sum())
