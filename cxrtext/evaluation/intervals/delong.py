"""AUC with its interval, where the images of one patient are alike, and the difference of two.

An AUC is a mean over pairs of a positive and a negative.  Its variance is known from how far each
row moves it (DeLong), summed by patient first (Obuchowski).  An :class:`Area` keeps these sums, so
that AUCs of other scores, other models and other findings have covariances wherever they share
patients.  All takes n log n.

Two things are added, for few positives, where DeLong's variance is too small whenever the scores
happen to rank well: it is drawn toward that of Hanley and McNeil, with the weight of
:data:`PRIOR` patients, and the interval is taken on the logit scale.  How often such intervals
hold is in docs/results/training-and-evaluation.md, and why they are so in
docs/decisions/07-evaluation.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.intervals.bootstrap import Difference, Interval
from cxrtext.evaluation.intervals.quantiles import quantile, two_sided
from cxrtext.evaluation.metrics import Floats, scores_and_truth

PRIOR: Final = 8.0
"""Patients that Hanley and McNeil's variance weighs as much as."""
EDGE: Final = 0.25
"""Of a patient of the rarer class: as near to 0 and 1 the logit is taken."""
FARTHEST = 37.0
"""Standard errors beyond which a p-value is 0 in float64."""


def placements(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    """How each row does against the other class: positives [m] and negatives [n], in [0, 1].

    Of a positive it is the share of negatives below it, of a negative the share of positives above
    it; a tie counts one half.  The mean of either is the AUC.

    Source: DeLong, DeLong and Clarke-Pearson 1988 (structural components); in n log n as Sun and Xu
        2014.
    """
    values, truth = scores_and_truth(scores, labels)
    with_it, without = np.sort(values[truth]), np.sort(values[~truth])

    def below(rows: Floats, others: Floats) -> Floats:
        sides = [np.searchsorted(others, rows, side) for side in ("left", "right")]
        return (sides[0] + sides[1]) / (2 * len(others))

    return below(values[truth], without), 1 - below(values[~truth], with_it)


def hanley_mcneil_variance(area: float, positives: float, negatives: float) -> float:
    """Of an AUC, for exponential scores.  Source: Hanley and McNeil 1982, formulas 1 and 2."""
    if not 0 <= area <= 1 or not positives > 0 or not negatives > 0:
        raise ValueError(f"no AUC of {positives} positives and {negatives} negatives is {area}")
    both = area * (1 - area)
    by_positives = area / (2 - area) - area**2
    rest = (positives - 1) * by_positives + (negatives - 1) * (2 * area**2 / (1 + area) - area**2)
    return max(both + rest, 0.0) / (positives * negatives)


@dataclass(frozen=True, slots=True)
class Area:
    """An AUC, or a mean of AUCs, with what its interval and its covariances need.

    Attributes:
        value: The AUC as it is.
        positives: Rows with the finding; of a mean, the fewest.
        negatives: Rows without; of a mean, the fewest.
        patients: Patients with a positive, and with a negative; of a mean, the fewest of each.
        design_effect: How many times the variance is that of as many independent rows; of a mean,
            the largest.
        influence: [3, P], how far each patient moves the AUC, so that the sum of squares is the
            variance and a sum of products a covariance.
        apart: Variance that is not seen in the data: of an AUC of 1, or of a single patient.
        edge: How near to 0 and 1 the logit is taken.  Beyond it, it is taken at the edge, and the
            interval reaches to the end, as an AUC of 1 may be 1.
    """

    value: float
    positives: int
    negatives: int
    patients: tuple[int, int]
    design_effect: float
    influence: Floats = field(repr=False, compare=False)
    apart: float = 0.0
    edge: float = 0.0

    @property
    def variance(self) -> float:
        """Of the AUC; 0 to 1/4."""
        return float(np.vdot(self.influence, self.influence)) + self.apart

    def interval(self, level: float = 0.95) -> Interval:
        """(low, high), within [0, 1], and the AUC between them."""
        return self.reaching(quantile(level) * sqrt(self.variance))

    def reaching(self, reach: float) -> Interval:
        """The interval that reaches so far on either side, were the scale not that of the logit."""
        middle = min(max(self.value, self.edge), 1 - self.edge)
        if not 0 < middle < 1:
            return self.value, self.value
        at, reach = log(middle / (1 - middle)), reach / (middle * (1 - middle))
        low = 0.0 if self.value < middle else _logistic(at - reach)
        high = 1.0 if self.value > middle else _logistic(at + reach)
        return min(low, self.value), max(high, self.value)


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x)) if x > -700 else 0.0


def area(
    scores: ArrayLike,
    labels: ArrayLike,
    patients: ArrayLike | None = None,
    total: int | None = None,
) -> Area:
    """The AUC of scores [n] for labels [n] of 1 and 0, with its variance clustered by patient.

    >>> one = area([3.0, 2.0, 2.0, 1.0], [1, 0, 1, 0])
    >>> one.value, [round(end, 3) for end in one.interval()]
    (0.875, [0.158, 0.996])

    Args:
        patients: [n], the number of each row's patient, from 0
            (:func:`~cxrtext.evaluation.intervals.proportions.cluster_codes`); without them every
            row is its own.
        total: How many patients there are in all, where AUCs of different rows go together.

    Source: Obuchowski 1997, with the logit of Zou, Hall and Shapiro 1997 and Pepe 2003 (section
        5.2.5).
    """
    values, truth = scores_and_truth(scores, labels)
    codes = np.arange(len(values)) if patients is None else np.asarray(patients)
    if codes.shape != values.shape or codes.dtype.kind not in "iu" or codes.min() < 0:
        raise ValueError(f"patients must be {len(values)} numbers from 0, got {list(codes.shape)}")
    size = int(codes.max()) + 1 if total is None else total
    if size <= codes.max():
        raise ValueError(f"patient {codes.max()} is beyond the {size} patients in all")
    by_positives, by_negatives = placements(values, truth)
    value = float(by_positives.mean())
    m, n = len(by_positives), len(by_negatives)
    some, others = (np.unique(codes[rows]) for rows in (truth, ~truth))
    counts = len(some), len(others), len(np.union1d(some, others))
    edge = EDGE / min(counts[:2])
    middle = min(max(value, edge), 1 - edge)
    guess = _guess(middle, counts[0], counts[1])
    unseen = Area(value, m, n, counts[:2], 1.0, np.zeros((3, size)), guess, edge)
    if min(counts[:2]) < 2:
        return unseen
    present = np.bincount(codes[truth], by_positives - value, size) / m
    absent = np.bincount(codes[~truth], by_negatives - value, size) / n
    influence, degrees = _stacked(present, absent, counts)
    variance = float(np.vdot(influence, influence))
    if not variance > 0:
        return unseen
    effect = variance / float(by_positives.var(ddof=1) / m + by_negatives.var(ddof=1) / n)
    guess = _guess(middle, m, n) * max(effect, 1.0)
    shrunk = (degrees * variance + PRIOR * guess) / (degrees + PRIOR)
    influence = influence * sqrt(shrunk / variance)
    return Area(value, m, n, counts[:2], effect, influence, 0.0, edge)


def _guess(value: float, positives: int, negatives: int) -> float:
    """Hanley and McNeil's variance, alike for scores that are turned around."""
    return hanley_mcneil_variance(max(value, 1 - value), positives, negatives)


def _stacked(present: Floats, absent: Floats, counts: tuple[int, int, int]) -> tuple[Floats, float]:
    """Obuchowski's variance as a sum of squares, and its degrees of freedom (Satterthwaite).

    ``present`` and ``absent`` [P] are by patient the sums over its positives and its negatives,
    ``counts`` the patients with a positive, with a negative, and with either.  Her formula is
    a Σ present² + b Σ absent² + 2 c Σ present · absent with a ≥ c and b ≥ c, each I / (I − 1).
    """
    a, b, c = (count / (count - 1) for count in counts)
    influence = np.stack(
        [sqrt(c) * (present + absent), sqrt(a - c) * present, sqrt(b - c) * absent]
    )
    cross = c * float(present @ absent)
    shares = a * float(present @ present) + cross, b * float(absent @ absent) + cross
    spread = shares[0] ** 2 / (counts[0] - 1) + shares[1] ** 2 / (counts[1] - 1)
    return influence, (shares[0] + shares[1]) ** 2 / spread if spread else 0.0


def mean_area(areas: Sequence[Area]) -> Area:
    """The mean of AUCs, whose rows may differ and whose patients are numbered alike."""
    if not areas:
        raise ValueError("a mean wants at least one AUC")
    if len({one.influence.shape for one in areas}) > 1:
        raise ValueError("the AUCs must be of the same patients: give 'total' to each")
    return Area(
        float(np.mean([one.value for one in areas])),
        min(one.positives for one in areas),
        min(one.negatives for one in areas),
        (min(one.patients[0] for one in areas), min(one.patients[1] for one in areas)),
        max(one.design_effect for one in areas),
        np.sum([one.influence / len(areas) for one in areas], axis=0),
        sum(one.apart for one in areas) / len(areas) ** 2,
        float(np.mean([one.edge for one in areas])),
    )


def covariance(one: Area, other: Area) -> float:
    """The covariance of two AUCs of patients that are numbered alike."""
    if one.influence.shape != other.influence.shape:
        raise ValueError("the AUCs must be of the same patients: give 'total' to each")
    return float(np.vdot(one.influence, other.influence))


def difference(one: Area, other: Area, level: float = 0.95) -> Difference:
    """The first AUC less the second, of the same patients, with interval and two-sided p-value.

    The interval is put together from those of both AUCs and their correlation, so that it is
    longer on the side where there is more room.  Where both models say almost the same that is too
    long, as the two sides do not cancel: then it is the deviation of the difference, as far
    stretched as the longer of the two sides.  The p-value belongs to the interval: it is 1 less the
    level of the one that ends at 0.

    Source: Zou and Donner 2008 (MOVER); Obuchowski 1997 (the covariance).
    """
    from scipy.optimize import brentq

    deviation, other_deviation = sqrt(one.variance), sqrt(other.variance)
    both = deviation * other_deviation
    correlation = covariance(one, other) / both if both else 0.0
    estimate = one.value - other.value
    apart = _joined(deviation, other_deviation, correlation)

    def joined(reach: float, other_reach: float) -> float:
        whole = _joined(reach, other_reach, correlation)
        if not both:
            return whole
        return min(whole, max(reach / deviation, other_reach / other_deviation) * apart)

    def ends(z: float) -> Interval:
        low, high = one.reaching(z * deviation)
        other_low, other_high = other.reaching(z * other_deviation)
        down, up = one.value - low, high - one.value
        other_down, other_up = other.value - other_low, other_high - other.value
        return estimate - joined(down, other_up), estimate + joined(up, other_down)

    low, high = ends(quantile(level))
    if not estimate:
        return Difference(estimate, low, high, 1.0)
    side = 0 if estimate > 0 else 1
    if ends(0.0)[side] * estimate <= 0:  # of an AUC of 1, whose interval never closes on it
        return Difference(estimate, low, high, 1.0)
    if ends(FARTHEST)[side] * estimate > 0:
        return Difference(estimate, low, high, 0.0)
    at_zero = brentq(lambda z: ends(z)[side], 0.0, FARTHEST)
    return Difference(estimate, low, high, two_sided(at_zero))


def _joined(one: float, other: float, correlation: float) -> float:
    return sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))
