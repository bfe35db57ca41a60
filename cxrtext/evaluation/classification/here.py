"""What a threshold does in an archive of which people read a part: some films of each stratum.

Strata are above the threshold or below it, and on either side divided by the score, or by what a
report says.  The share of films with the finding in each, and how many films it has, give all that
is asked.  Intervals are percentiles over draws of both, by Jeffreys' prior.

Source: Horvitz and Thompson 1952, Cochran 1977 (strata); Brown, Cai and DasGupta 2001 (the prior).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.calibration import Measured
from cxrtext.evaluation.intervals.estimates import Estimate
from cxrtext.evaluation.intervals.multiple import FEW
from cxrtext.evaluation.intervals.proportions import Clusters, proportion
from cxrtext.evaluation.metrics import Floats, Truth, quotient

MEASURES = ("sensitivity", "specificity", "PPV", "NPV", "prevalence")
WIDEST = 0.3
"""Width of an interval beyond which a share is not given; nor is one of fewer than 25 patients."""
DRAWS = 4000
STRATA = 3
"""Strata of films to read on either side of the threshold."""


def given(found: Estimate, patients: int) -> Measured | None:
    """A share as it is kept, None for "not enough": the one rule, :data:`WIDEST`."""
    if found.value is None or found.low is None or found.high is None or patients < FEW:
        return None
    return (found.value, found.low, found.high) if found.high - found.low <= WIDEST else None


def accuracy_of(present: Floats, weight: Floats, above: Truth) -> dict[str, Floats]:
    """:data:`MEASURES` from strata [..., H], of which some are ``above`` [H] the threshold.

    ``present``: the share of the films of each that have the finding; ``weight``: its share of all
    films.  NaN for 0 / 0.  Source: Bayes.
    """
    have = present * weight
    true, missed = (have[..., at].sum(axis=-1) for at in (above, ~above))
    called, left = (weight[..., at].sum(axis=-1) for at in (above, ~above))
    shares = (
        quotient(true, true + missed),
        quotient(left - missed, called + left - true - missed),
        quotient(true, called),
        quotient(left - missed, left),
        quotient(true + missed, called + left),
    )
    return dict(zip(MEASURES, shares, strict=True))


def sampled_point(
    truth: ArrayLike,
    strata: ArrayLike,
    sizes: Sequence[int],
    above: Sequence[bool],
    clusters: Clusters | None = None,
) -> dict[str, Estimate]:
    """:data:`MEASURES` of a threshold for all films, from those of them that were read.

    Where the strata are by what reports say, this corrects their labels for the error that was
    found, as it is on either side of the threshold.

    Args:
        truth: [n], whether each film that was read has the finding.
        strata: [n], the stratum of each, from 0.
        sizes: [H], how many films each stratum has, read or not.
        above: [H], whether it is above the threshold.
        clusters: [n], patients.

    Source: Tenenbein 1970 (double sampling: a label that errs for all, the truth for some).
    """
    said, place = np.asarray(truth, dtype=np.float64), np.asarray(strata)
    over, films = np.asarray(above, dtype=bool), np.asarray(sizes, dtype=np.float64)
    kept = films > 0
    effect = max(1.0, proportion(said, clusters).design_effect) if len(said) else 1.0
    read = np.bincount(place, minlength=len(films))[kept] / effect
    hits = np.bincount(place, said, minlength=len(films))[kept] / effect
    over, films = over[kept], films[kept]
    # Of several strata without a film that has the finding each would else add one half of it.
    prior = 0.5 / np.where(over, over.sum(), (~over).sum())
    rng, shape = np.random.default_rng(0), (DRAWS, len(films))
    present = rng.beta(hits + prior, read - hits + prior, shape)
    weight = rng.dirichlet(films, DRAWS)
    shares = np.where(read > 0, quotient(hits, read), 0.5)  # of which none was read: unknown
    values = accuracy_of(shares, films / films.sum(), over)
    drawn = accuracy_of(present, weight, over)
    return {name: _percentiles(float(values[name]), drawn[name]) for name in MEASURES}


def _percentiles(value: float, drawn: Floats) -> Estimate:
    """A value with the percentiles of draws; an interval holds its value."""
    known = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not known.size:
        return Estimate()
    low, high = np.quantile(known, (0.025, 0.975)).tolist()
    return Estimate(value, min(low, value), max(high, value))


def strata_of(scores: ArrayLike, likely: ArrayLike, threshold: float) -> NDArray[np.intp]:
    """The stratum of each film, [n]: 0 to 2 below the threshold, 3 to 5 above.

    On either side they are cut so that equally many read of each tell the most: each has the same
    sum of √(p (1 − p)), p = ``likely`` [n], so that those near the threshold are smaller.

    Source: Neyman 1934; Dalenius and Hodges 1959.
    """
    values, p = np.asarray(scores, np.float64), np.asarray(likely, np.float64)
    strata = np.zeros(len(values), dtype=np.intp)
    for side in (False, True):
        rows = np.flatnonzero((values > threshold) == side)
        rows = rows[np.argsort(values[rows], kind="stable")]
        hard = np.sqrt(np.clip(p[rows] * (1 - p[rows]), 1e-4, None))
        reached = (np.cumsum(hard) - hard / 2) / hard.sum() if len(rows) else hard
        strata[rows] = np.minimum((reached * STRATA).astype(np.intp), STRATA - 1) + STRATA * side
    return strata


def draw_films(strata: NDArray[np.intp], films: int, seed: int = 0) -> NDArray[np.intp]:
    """Rows of so many films to read, equally many of each stratum, all of a smaller one."""
    rng = np.random.default_rng(seed)
    sizes = np.bincount(strata, minlength=2 * STRATA)
    each = np.zeros_like(sizes)
    for _ in range(min(films, len(strata))):
        room = np.flatnonzero(each < sizes)
        each[room[each[room].argmin()]] += 1
    drawn = [rng.permutation(np.flatnonzero(strata == h))[:n] for h, n in enumerate(each)]
    return np.sort(np.concatenate(drawn))
