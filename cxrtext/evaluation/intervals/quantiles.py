"""Quantiles and tails of the normal distribution and of Student's t, by scipy.

Degrees of freedom may be any number above 0, as Satterthwaite's are, or infinite: then the
distribution is the normal one.
"""

from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()


@lru_cache(maxsize=1024)
def quantile(level: float, degrees: float = float("inf")) -> float:
    """How far from 0 an interval of a level reaches, in standard errors: 1.96 for 0.95.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 9), 3)
    (1.96, 2.262)
    """
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be above 0, not {degrees}")
    return float(stdtrit(degrees, (1 + level) / 2))


def two_sided(t: float, degrees: float = float("inf")) -> float:
    """The probability that a number of Student's distribution is at least as far from 0 as t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(t)))
