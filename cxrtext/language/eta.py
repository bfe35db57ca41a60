"""Fits the scale and the exponent of the class probability to a corpus of sentences."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MAX_A = 0.99  # largest fitted scale; the loss divides by 1 - η

MAX_K = 1e6
"""A larger exponent is not a fit: only the likeliest sentence of the corpus repeats."""


def _falling_root(function: Callable[[float], float]) -> float:
    """The root of a falling function, at least 0."""
    from scipy.optimize import brentq

    if function(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while function(high) > 0.0:
        low, high = high, 2.0 * high
        if high > MAX_K:
            raise DataError(
                f"a and k cannot be fitted: k is above {MAX_K:g}, because hardly any but the "
                "likeliest sentences occur twice; give a and k instead"
            )
    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-14))


def _tilted(log_p: Floats, log_weight: Floats, k: float) -> tuple[float, float]:
    """Log of the sum of ``weight · p^k``, and the mean of log p with these weights."""
    exponent = log_weight + k * log_p
    peak = float(exponent.max())
    share = np.exp(exponent - peak)
    total = float(share.sum())
    return peak + math.log(total), float(share @ log_p) / total


def solve(log_p: Floats, count: Counts, share: Floats | None = None) -> tuple[float, float]:
    """The a in (0, 0.99] and k, at least 0, that make the repeats likeliest.

    Log-likelihoods in nats and counts belong to the distinct sentences, [D]; at least one occurs
    twice.  ``share`` [D], some above 0, replaces the share of repeats among other occurrences.

    Source: the likelihood of ``fit_class_probability``.
    """
    occurrences = count.astype(np.float64)
    if share is None:
        share = (occurrences - 1.0) / (float(count.sum()) - 1.0)
    repeats = occurrences * share
    log_weight = np.log(occurrences)
    target = float(repeats @ log_p) / float(repeats.sum())
    log_repeats = math.log(float(repeats.sum()))

    # The best a for a given k is known, which leaves one equation in k: the mean of log p over the
    # occurrences, tilted by p^k, equals the mean over the repeats.
    k = _falling_root(lambda k: target - _tilted(log_p, log_weight, k)[1])
    log_a = log_repeats - _tilted(log_p, log_weight, k)[0]
    if log_a <= math.log(MAX_A):
        return math.exp(log_a), k

    # The likelihood is concave, so the best a within its range is then the largest.
    def at_the_end(k: float) -> float:
        total, mean = _tilted(log_p, log_weight, k)
        return target - math.exp(total + math.log(MAX_A) - log_repeats) * mean

    return MAX_A, _falling_root(at_the_end)


MIN_SENTENCES = 20  # least distinct sentences for fitting two numbers


def _check_can_be_fitted(log_p: Floats, count: Counts) -> None:
    def refuse(why: str) -> DataError:
        return DataError(f"a and k cannot be fitted: {why}; give a and k instead")

    if len(log_p) < MIN_SENTENCES:
        raise refuse(
            f"the corpus has {len(log_p)} distinct sentences, and at least {MIN_SENTENCES} "
            "are needed"
        )
    repeated = count > 1
    if not repeated.any():
        raise refuse(f"none of the {len(log_p)} distinct sentences occurs twice")
    if log_p.min() == log_p.max():
        raise refuse(f"all {len(log_p)} distinct sentences have the same log-likelihood")
    if log_p[repeated].min() == log_p.max():
        raise refuse("only sentences with the largest log-likelihood occur twice")


def fit_class_probability(log_likelihood: Floats, count: Counts) -> tuple[float, float]:
    """Fit a and k of ``η = a · p^k`` to how often the sentences of a corpus repeat.

    An anchor of the loss is an occurrence of a sentence.  Each of the corpus's other N - 1
    occurrences is again sentence i with probability π_i, so the repeats ``n_i - 1`` have mean
    ``(N - 1) π_i``.  Their Poisson log-likelihood under π = η, summed over anchors,

        ``Σ_i n_i [ (n_i - 1) log((N - 1) η_i) - (N - 1) η_i ]``,

    is concave in (log a, k) and is maximized under 0 < a ≤ 0.99 and k ≥ 0.

    - Sentences that never occurred need no correction, because they have no anchor.
    - Counts of sentences are heavy-tailed.  The Poisson estimating equation only needs the right
      mean; a zero-truncated Poisson was 5 times below the rate of repeats of 17,918 real sentences,
      and a line through log frequencies selects its points by what it should explain.
    - Mean η over the anchors is the corpus's rate of repeats, ``Σ n_i (n_i - 1) / (N (N - 1))``
      (Simpson's index), unless a stopped at 0.99.

    Paraphrases are false negatives too but are not counted, so the fitted η is a lower bound.

    Natural log-likelihoods, at most 0, and counts, at least 1, belong to the distinct sentences,
    [D].

    Source: Wang et al. 2023 (sample-specific debiasing), section 2.3, for η; Simpson 1949 for
        the rate of repeats; Santos Silva and Tenreyro 2006 for Poisson against log-linear fits.
    """
    log_p = np.asarray(log_likelihood, dtype=np.float64)
    count = np.asarray(count, dtype=np.int64)
    _check_can_be_fitted(log_p, count)
    return solve(log_p, count)
