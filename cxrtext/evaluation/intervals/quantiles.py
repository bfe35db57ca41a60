"""Quantiles and tails of the normal distribution and of Student's t, in float64.

Degrees of freedom may be any number above 0, as Satterthwaite's are.
"""

from functools import lru_cache
from math import erfc, exp, isinf, lgamma, log, log1p, sqrt
from statistics import NormalDist

NORMAL = NormalDist()
TINY = 1e-300


def two_sided(z: float) -> float:
    """The probability that a standard normal number is at least as far from 0 as z; in [0, 1]."""
    return erfc(abs(z) / sqrt(2))


@lru_cache(maxsize=1024)
def quantile(level: float, degrees: float = float("inf")) -> float:
    """How far from 0 an interval of a level reaches, in standard errors: 1.96 for 0.95.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 9), 3)
    (1.96, 2.262)

    Args:
        level: Of the two-sided interval, above 0 and below 1.
        degrees: Of freedom; infinite for the normal distribution.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be above 0, not {degrees}")
    if isinf(degrees):
        return NORMAL.inv_cdf((1 + level) / 2)
    low, high = 0.0, 1.0
    while student_two_sided(high, degrees) > 1 - level:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (
            (middle, high) if student_two_sided(middle, degrees) > 1 - level else (low, middle)
        )
    return high


def student_two_sided(t: float, degrees: float) -> float:
    """The probability that a number of Student's distribution is at least as far from 0 as t.

    Exact in the tails too: it is the incomplete beta function I_x(ν/2, 1/2) at x = ν / (ν + t²).

    Source: Student 1908; Abramowitz and Stegun 1964, 26.7.1.
    """
    if isinf(degrees):
        return two_sided(t)
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be above 0, not {degrees}")
    a, b, square = degrees / 2, 0.5, t * t
    if not square:
        return 1.0
    if isinf(square):
        return 0.0
    share = -log1p(square / degrees)  # log x
    rest = log(square) - log(degrees) + share  # log (1 − x)
    front = exp(a * share + b * rest + lgamma(a + b) - lgamma(a) - lgamma(b))
    x = exp(share)
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, exp(rest)) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (1976)."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + factor * d)
            c = _not_zero(1 + factor / c)
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY
