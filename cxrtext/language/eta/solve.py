"""The two equations behind a fitted class probability."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

LARGEST_A = 0.99
"""Largest scale that is fitted; the loss divides by 1 - η."""

LARGEST_K = 1e6
"""An exponent beyond this is no fit: only the likeliest sentence of the corpus repeats."""


def _falling_root(function: Callable[[float], tuple[float, float]]) -> float:
    """Find the root, at least 0, of a falling function that also returns its slope."""
    if function(0.0)[0] <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while function(high)[0] > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST_K:
            raise DataError(
                f"a and k cannot be fitted: k is above {LARGEST_K:g}, because hardly any but the "
                "likeliest sentences occur twice; give a and k instead"
            )
    k = low
    for _ in range(200):
        value, slope = function(k)
        low, high = (k, high) if value > 0.0 else (low, k)
        newton = k - value / slope if slope < 0.0 else math.inf
        # Newton's step where it stays in the bracket, else halving, which always ends.
        following = newton if low < newton < high else 0.5 * (low + high)
        if abs(following - k) <= 1e-14 * max(1.0, k):
            return following
        k = following
    return k


def _tilted(log_p: Floats, log_weight: Floats, k: float) -> tuple[float, float, float]:
    """Log of the sum of ``weight · p^k``, and mean and variance of log p under these weights."""
    exponent = log_weight + k * log_p
    peak = float(exponent.max())
    share = np.exp(exponent - peak)
    total = float(share.sum())
    mean = float(share @ log_p) / total
    variance = float(share @ (log_p - mean) ** 2) / total
    return peak + math.log(total), mean, variance


def solve(log_p: Floats, count: Counts) -> tuple[float, float]:
    """Find the a and k under which the repeats are likeliest, within their ranges.

    Args:
        log_p: Log-likelihood of each distinct sentence, in nats, [D].
        count: How often each occurs; at least one occurs twice, [D].

    Returns:
        a in (0, 0.99] and k, at least 0.

    Raises:
        DataError: k has no finite best value.

    Source: the likelihood is that of ``fit_class_probability``.
    """
    others = float(count.sum()) - 1.0
    occurrences = count.astype(np.float64)
    repeats = occurrences * (occurrences - 1.0)
    log_weight = np.log(occurrences)
    target = float(repeats @ log_p) / float(repeats.sum())
    log_repeats = math.log(float(repeats.sum()) / others)

    # The best a for a given k is known; what is left is one equation in k: the mean of log p over
    # the occurrences, tilted by p^k, is the mean over the repeats.
    def equation(k: float) -> tuple[float, float]:
        _, mean, variance = _tilted(log_p, log_weight, k)
        return target - mean, -variance

    k = _falling_root(equation)
    log_a = log_repeats - _tilted(log_p, log_weight, k)[0]
    if log_a <= math.log(LARGEST_A):
        return math.exp(log_a), k

    # The likelihood is concave, so that the best a within its range is then at the end of it.
    def at_the_end(k: float) -> tuple[float, float]:
        total, mean, variance = _tilted(log_p, log_weight, k)
        scale = math.exp(total + math.log(LARGEST_A) - log_repeats)
        return target - scale * mean, -scale * (variance + mean * mean)

    return LARGEST_A, _falling_root(at_the_end)
