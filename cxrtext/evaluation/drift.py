"""Whether what a model is asked in a week is distributed as what it was calibrated on.

A distribution is kept as counts in bins: of numbers between the quantiles of the reference, of
words one each and one for all others.  Two of them are compared by the largest difference of their
cumulative shares (Kolmogorov and Smirnov), which the inequality of Dvoretzky, Kiefer and Wolfowitz
bounds for any distribution and any bins.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cxrtext.evaluation.kept import Kept
from cxrtext.models.familiar import Unlike

FALSE_ALARM = 0.05
"""Chance of any false alarm in a year without drift, over all that is watched."""
WEEKS = 52
BINS = 20
MOST_WORDS = 12
LEAST_REFERENCE = 50
"""Images of a reference below which a signal is not watched."""


class Distribution(Kept):
    """How a signal was distributed: ``counts`` of bins that ``edges`` or ``words`` divide."""

    counts: list[int]
    edges: list[float] = Field(default_factory=list)
    words: list[str] = Field(default_factory=list)

    def place(self, value: float | str) -> int:
        """The bin of a value; of a word that is new the last."""
        if isinstance(value, str):
            return self.words.index(value) if value in self.words else len(self.words)
        return bisect_left(self.edges, value)


def score_signal(finding: str) -> str:
    return f"score of {finding}"


def inputs_of(square: NDArray[np.uint8], unlike: Unlike | None) -> list[tuple[str, float]]:
    """What is watched of an image's 8-bit square [1, R, R], by signal."""
    found = [("gray mean", float(square.mean())), ("gray contrast", float(square.std()))]
    return found if unlike is None else [*found, ("unlike", unlike.share)]


def distribution_of(values: Sequence[float | str]) -> Distribution | None:
    """The distribution of a reference; None of fewer values than can be compared with."""
    if len(values) < LEAST_REFERENCE:
        return None
    if isinstance(values[0], str):
        empty = Distribution(
            counts=[], words=[str(word) for word, _ in Counter(values).most_common(MOST_WORDS)]
        )
    else:
        cuts = np.quantile(np.asarray(values, np.float64), np.linspace(0, 1, BINS + 1)[1:-1])
        empty = Distribution(counts=[], edges=sorted(set(cuts.tolist())))
    counts = [0] * (len(empty.edges or empty.words) + 1)
    for value in values:
        counts[empty.place(value)] += 1
    return empty.model_copy(update={"counts": counts})


def drift(reference: Sequence[int], counts: Sequence[int], signals: int) -> float:
    """How far counts lie from those of a reference in the same bins, over how far they may.

    ``signals`` are watched at the same time: with a chance of :data:`FALSE_ALARM` at most any of
    them is above 1 in any week of a year in which nothing changes (Bonferroni), if images come
    independently of each other.

    Source: Massart 1990 (the inequality); Wei and Dudley 2012 (of two samples).
    """
    shares = [np.cumsum(some) / max(sum(some), 1) for some in (reference, counts)]
    rate = 1 / max(sum(reference), 1) + 1 / max(sum(counts), 1)
    limit = sqrt(log(2 * WEEKS * max(signals, 1) / FALSE_ALARM) / 2 * rate)
    return float(np.abs(shares[0] - shares[1]).max()) / limit
