"""Figures from rows that belong to patients: their 95 % intervals and their differences.

There is one method for all.  Each patient's influence is how far it moves a figure; the sum of
squared influences is the variance (Efron 1982, infinitesimal jackknife).  Influence is linear: the
mean over findings or trainings, and the difference of two models on the same rows, have the mean
and the difference of the influences.  Kinds of figure differ only in the scale of the interval:
logit for an AUC, Wilson's for a share, ranks for a median, and for a mean that of Hall (1992),
which makes the interval longer on the side to which the influences are skewed.

Rows are [n], ``patients`` [n] their patients; without them every row is its own patient.  ``total``
is the number of patients in all, if figures of different rows are combined.  Arguments that do not
fit raise a ValueError.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import exp, inf, log, sqrt
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.metrics.ranking import Floats, Patients, patient_codes, scores_and_truth

Interval = tuple[float, float]
Kind = TypeVar("Kind", bound="Measured")
PRIOR: Final = 8.0
"""For an AUC, Hanley and McNeil's variance weighs as much as this many patients."""
FULL_CORRELATION: Final = 2.0
"""Weight of a full correlation within patients, against the square of the patients seen."""
EDGE: Final = 0.25
"""The logit is taken no nearer to 0 and 1 than this part of a patient of the rarer class."""
FARTHEST = 37.0
"""Standard errors beyond which a p-value is 0 in float64."""
FEW = 25
"""A report warns if fewer patients have a finding, or do not have it."""


@lru_cache(maxsize=1024)
def quantile(level: float, degrees: float = inf) -> float:
    """How far an interval of this level reaches from 0, in standard errors: 1.96 for 0.95.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 9), 3)
    (1.96, 2.262)

    It uses Student's t; with infinite degrees of freedom, the normal distribution.
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def two_sided(t: float, degrees: float = inf) -> float:
    """The probability that a Student's t variable is at least as far from 0 as t."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(t)))


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure and how far each patient moves it; as it is, a mean.

    Attributes:
        influence: [k, P]; its sum of squares is the variance, a sum of products a covariance.
        degrees: Of Student's t; 0 if a single patient says nothing about others.
        apart: Variance that the data do not show: for an AUC of 1, or a single patient.
        rows: What it was measured on: figures of two models on equal rows are paired.
    """

    METHOD: ClassVar[str] = "Student's t with Hall's transformation, by the sums of patients"

    value: float
    influence: Floats = field(repr=False, compare=False)
    degrees: float = inf
    apart: float = 0.0
    rows: tuple[Hashable, ...] = field(default=(), repr=False, kw_only=True)

    @property
    def variance(self) -> float:
        return float(np.vdot(self.influence, self.influence)) + self.apart

    def ends(self, z: float) -> Interval:
        """The interval that corresponds to z standard errors on either side.

        A normal z stands for T + κ T² / 3 + κ² T³ / 27 of a statistic T whose influences have the
        skewness κ.  Source: Hall 1992, formula 2, without the term that would move the middle.
        """
        error = sqrt(self.variance)
        skewness = float((self.influence**3).sum()) / error**3 if error else 0.0
        if abs(skewness * z) < 1e-6:
            return self.value - error * z, self.value + error * z
        down, up = (3 / skewness * (float(np.cbrt(1 + skewness * x)) - 1) for x in (z, -z))
        return self.value - error * down, self.value - error * up

    def interval(self, level: float = 0.95) -> Interval | None:
        """(low, high); None for a single patient."""
        return self.ends(quantile(level, self.degrees)) if self.degrees > 0 else None

    @classmethod
    def mean(cls, every: Sequence[Any]) -> dict[str, Any]:
        """The fields of a mean of figures of this kind."""
        return {
            "value": float(np.mean([one.value for one in every])),
            "influence": np.mean([one.influence for one in every], axis=0),
            "degrees": min(one.degrees for one in every),
            "apart": sum(one.apart for one in every) / len(every) ** 2,
        }


@dataclass(frozen=True, slots=True)
class OnLogit(Measured):
    """A figure from 0 to 1 with its interval on the logit scale.

    Attributes:
        edge: How near to 0 and 1 the logit is taken.  A value beyond it gets the logit of the
            edge, and its interval reaches to the end, because an AUC of 1 may really be 1.
    """

    METHOD: ClassVar[str] = "logit scale, by the sums of patients"

    edge: float = 0.0

    def ends(self, z: float) -> Interval:
        middle = min(max(self.value, self.edge), 1 - self.edge)
        if not 0 < middle < 1:
            return self.value, self.value
        at, reach = log(middle / (1 - middle)), z * sqrt(self.variance) / (middle * (1 - middle))
        low = 0.0 if self.value < middle else _logistic(at - reach)
        high = 1.0 if self.value > middle else _logistic(at + reach)
        return min(low, self.value), max(high, self.value)

    @classmethod
    def mean(cls, every: Sequence[Any]) -> dict[str, Any]:
        return {**Measured.mean(every), "edge": float(np.mean([one.edge for one in every]))}


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x)) if x > -700 else 0.0


@dataclass(frozen=True, slots=True)
class Area(OnLogit):
    """An AUC, or a mean of AUCs.

    Attributes:
        positives: Rows with the finding; for a mean, the fewest.
        negatives: Rows without; for a mean, the fewest.
        patients: Patients with a positive, and with a negative; for a mean, the fewest of each.
    """

    METHOD: ClassVar[str] = "logit-DeLong, clustered by patient"

    positives: int = 0
    negatives: int = 0
    patients: tuple[int, int] = (0, 0)

    def interval(self, level: float = 0.95) -> Interval:
        """(low, high), within [0, 1], and the AUC between them."""
        return self.ends(quantile(level))

    @classmethod
    def mean(cls, every: Sequence[Any]) -> dict[str, Any]:
        patients = [one.patients for one in every]
        return {
            **OnLogit.mean(every),
            "positives": min(one.positives for one in every),
            "negatives": min(one.negatives for one in every),
            "patients": (min(one for one, _ in patients), min(one for _, one in patients)),
        }


@dataclass(frozen=True, slots=True)
class Share(Measured):
    """A share with Wilson's (1927) interval for its effective number of rows."""

    METHOD: ClassVar[str] = "Wilson, clustered by patient"

    effective: float = 1.0

    def ends(self, z: float) -> Interval:
        share, square = self.value, z**2 / self.effective
        middle = (share + square / 2) / (1 + square)
        spread = share * (1 - share) / self.effective + square / (4 * self.effective)
        half = z * sqrt(max(spread, 0.0)) / (1 + square)
        # At 0 and 1 the end is the share itself; rounding may miss it.
        low = 0.0 if share == 0 else max(0.0, middle - half)
        return low, 1.0 if share == 1 else min(1.0, middle + half)

    @classmethod
    def mean(cls, every: Sequence[Any]) -> dict[str, Any]:
        fields, rows = Measured.mean(every), [one.effective for one in every]
        spread = fields["value"] * (1 - fields["value"])
        variance = float(np.vdot(fields["influence"], fields["influence"]))
        effective = min(spread / variance, sum(rows)) if variance > 0 else min(rows)
        return {**fields, "effective": effective}


@dataclass(frozen=True, slots=True)
class Median(Measured):
    """A median; its interval ends at the rows where the interval of its share ends.

    ``ordered`` [n] are the sorted values; for a mean of medians, the means of these.  ``error`` is
    the standard error of the share of rows below the median.

    Source: Woodruff 1952.
    """

    METHOD: ClassVar[str] = "Woodruff, clustered by patient"

    ordered: Floats = field(default_factory=lambda: np.zeros(1), repr=False, compare=False)
    error: float = 0.0

    def ends(self, z: float) -> Interval:
        places = np.clip([0.5 - z * self.error, 0.5 + z * self.error], 0, 1)
        low, high = np.quantile(self.ordered, places)
        return float(low), float(high)

    @classmethod
    def mean(cls, every: Sequence[Any]) -> dict[str, Any]:
        ordered = np.mean([one.ordered for one in every], axis=0)
        error = max(one.error for one in every)
        return {**Measured.mean(every), "ordered": ordered, "error": error}


def average(figures: Sequence[Kind]) -> Kind:
    """The mean of figures of one kind; rows may differ, but patients must be numbered alike."""
    if not figures:
        raise ValueError("a mean needs at least one figure")
    if len({one.influence.shape for one in figures}) > 1:
        raise ValueError("the figures must be of the same patients: give 'total' to each")
    return replace(figures[0], **type(figures[0]).mean(figures))


def _numbered(patients: Patients, n: int, total: int | None) -> NDArray[np.intp]:
    """The patients of n rows as numbers; with ``total`` they are numbers already."""
    if total is None or patients is None:
        return patient_codes(patients, n)
    return np.asarray(patients)


def _summed(values: Floats, codes: NDArray[np.intp], total: int | None) -> tuple[Floats, int]:
    """Sums by patient [1, P], with the small-sample factor, and how many patients have a row."""
    size = int(codes.max()) + 1 if total is None else total
    groups = len(np.unique(codes))
    factor = sqrt(groups / (groups - 1)) if groups > 1 else 0.0
    sums = np.bincount(codes, values, size).astype(np.float64)
    return (factor * sums)[None], groups


def mean_of(
    values: ArrayLike, patients: Patients = None, total: int | None = None
) -> Measured | None:
    """The mean of values without NaN; None if all are NaN.

    Source: Bell and McCaffrey 2002 (CR2, and degrees of freedom for rows equal within a patient).
    """
    numbers = np.asarray(values, dtype=np.float64)
    codes, known = patient_codes(patients, len(numbers)), ~np.isnan(numbers)
    if not known.any():
        return None
    size = int(codes.max()) + 1 if total is None else total
    rows, codes = numbers[known], codes[known]
    mean, counts = float(rows.mean()), np.bincount(codes, minlength=size)
    if counts.max() == len(rows):
        return Measured(mean, np.zeros((1, size)), 0)
    shares = counts / len(rows)
    sums = np.bincount(codes, (rows - mean) / len(rows), size) / np.sqrt(1 - shares)
    return Measured(mean, sums[None], _degrees_of_mean(shares))


def _degrees_of_mean(shares: Floats) -> float:
    """Satterthwaite's degrees of freedom of the variance of a mean, (tr M)² / tr M².

    M is the covariance of the patients' sums if rows are equal within a patient.  With the shares
    of rows h, a = h / √(1 − h) and b = a h, it is diag(a²) − b aᵀ − a bᵀ + Σ h² a aᵀ.
    """
    a = shares / np.sqrt(1 - shares)
    b, whole = a * shares, float(shares @ shares)
    aa, ab, bb = float(a @ a), float(a @ b), float(b @ b)
    trace = aa - 2 * ab + whole * aa
    cross = 2 * aa * bb + 2 * ab**2 - 4 * whole * ab * aa + (whole * aa) ** 2
    squares = float((a**4).sum()) * (1 + 2 * whole) - 4 * float((a**3) @ b) + cross
    return trace**2 / squares


def degrees_of(influence: Floats, most: float) -> float:
    """Degrees of freedom of a sum of squares of influences [k, P], from their kurtosis.

    They are 2 v² / var(v) for the sum v, from 1 to ``most``.  Source: Satterthwaite 1946.
    """
    squares = (influence**2).sum(axis=0)
    whole = float(squares.sum())
    if not whole > 0 or most < 1:
        return most
    excess = float(squares @ squares) / whole**2 - 1 / (most + 1)
    return min(most, max(1.0, 2 / excess)) if excess > 0 else most


def ratio_of(top: ArrayLike, bottom: ArrayLike, patients: Patients = None) -> Share | None:
    """A ratio of sums over rows between 0 and 1, such as F1; None for 0 / 0."""
    above, below = (np.asarray(given, dtype=np.float64) for given in (top, bottom))
    whole = float(below.sum())
    if not whole > 0:
        return None
    value = float(above.sum()) / whole
    codes = patient_codes(patients, len(above))
    sums, groups = _summed((above - value * below) / whole, codes, None)
    variance = float(np.vdot(sums, sums))
    effective = value * (1 - value) / variance if variance > 0 else float(groups)
    return Share(value, sums, groups - 1, effective=effective)


def share(right: ArrayLike, patients: Patients = None, total: int | None = None) -> Share:
    """The share of rows that are right, booleans or values in [0, 1].

    >>> low, high = share([True] * 5 + [False] * 5).interval()
    >>> round(low, 4), round(high, 4)
    (0.2366, 0.7634)

    The variance is that of a ratio of sums over patients.  It says little if only few patients have
    a row that is right, or one that is wrong (at least, or less than, half right): with k of them,
    the design effect of the data gets weight k², and that of a full correlation, Σ rows of a
    patient² / rows, gets weight 2.

    Source: Rao and Scott 1992; Korn and Graubard 1998 (effective rows, Student's t with one
        degree fewer than patients); Kish 1965 (the design effect of full correlation).  The
        weight is ours: DECISIONS.md.
    """
    values = np.asarray(right, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError("a share needs a list of at least one row")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("the rows of a share must be true or false, or lie in [0, 1]")
    codes = _numbered(patients, len(values), total)
    n, mean = len(values), float(values.mean())
    moved, groups = _summed((values - mean) / n, codes, total)
    spread, effect = mean * (1 - mean), 1.0
    alone = groups == n
    if n > 1 and not (alone and np.isin(values, (0, 1)).all()):
        sizes = np.bincount(codes)
        full = float((sizes**2).sum()) / n
        right_rows = np.bincount(codes, values >= 0.5)
        few = float(min((right_rows > 0).sum(), (right_rows < sizes).sum())) ** 2
        effect = full
        if 0 < mean < 1 and groups > 1:
            effect = float(np.vdot(moved, moved)) * (n - 1) / spread
        effect = (few * effect + FULL_CORRELATION * full) / (few + FULL_CORRELATION)
    variance, known = spread * effect / n, float(np.vdot(moved, moved))
    influence = moved * sqrt(variance / known) if known > 0 else moved
    degrees = inf if alone else float(groups - 1)
    return Share(mean, influence, degrees, effective=n / effect)


def median_of(values: ArrayLike, patients: Patients = None) -> Median:
    """The median of rows, such as ranks; for an even number the mean of the middle two."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.ndim != 1 or not ordered.size or np.isnan(ordered).any():
        raise ValueError("values must be a list of numbers without NaN")
    numbers, middle = np.asarray(values, dtype=np.float64), float(np.median(ordered))
    below = ((numbers < middle) + 0.5 * (numbers == middle)).astype(np.float64)
    codes = patient_codes(patients, len(numbers))
    moved, groups = _summed((below - below.mean()) / len(numbers), codes, None)
    # Rows at the median count half and seem to vary less, so the error is at least that of
    # independent rows.
    error = max(sqrt(float(np.vdot(moved, moved))), 0.5 / sqrt(len(numbers)))
    plain = Median(middle, moved, groups - 1, ordered=ordered, error=error)
    low, high = plain.ends(1.0)
    known = sqrt(float(np.vdot(moved, moved)))
    scale = (high - low) / 2 / known if known > 0 else 0.0
    return replace(plain, influence=-moved * scale)


def placements(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    """How each row does against the other class: positives [m] and negatives [n], in [0, 1].

    For a positive it is the share of negatives below it, for a negative the share of positives
    above it; a tie counts one half.  The mean of either is the AUC.

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
    """The variance of an AUC for exponential scores; the same if scores are negated.

    Source: Hanley and McNeil 1982, formulas 1 and 2.
    """
    area = max(area, 1 - area)
    both = area * (1 - area)
    by_positives = area / (2 - area) - area**2
    rest = (positives - 1) * by_positives + (negatives - 1) * (2 * area**2 / (1 + area) - area**2)
    return max(both + rest, 0.0) / (positives * negatives)


def area(
    scores: ArrayLike, labels: ArrayLike, patients: Patients = None, total: int | None = None
) -> Area:
    """The AUC of scores [n] for labels [n] of 1 and 0, with its variance clustered by patient.

    >>> one = area([3.0, 2.0, 2.0, 1.0], [1, 0, 1, 0])
    >>> one.value, [round(end, 3) for end in one.interval()]
    (0.875, [0.158, 0.996])

    The variance of a few positives that happen to rank well is too small, so it is drawn toward
    Hanley and McNeil's, with the weight of :data:`PRIOR` patients.  With ``total``, patients are
    numbers from 0.

    Source: Obuchowski 1997, with the logit of Zou, Hall and Shapiro 1997 and Pepe 2003 (section
        5.2.5); the weight: DECISIONS.md.
    """
    values, truth = scores_and_truth(scores, labels)
    codes = _numbered(patients, len(values), total)
    size = int(codes.max()) + 1 if total is None else total
    by_positives, by_negatives = placements(values, truth)
    value = float(by_positives.mean())
    m, n = len(by_positives), len(by_negatives)
    some, others = (np.unique(codes[rows]) for rows in (truth, ~truth))
    counts = len(some), len(others), len(np.union1d(some, others))
    edge = EDGE / min(counts[:2])
    middle = min(max(value, edge), 1 - edge)
    guess = hanley_mcneil_variance(middle, counts[0], counts[1])
    unseen = Area(
        value, np.zeros((3, size)), apart=guess, edge=edge,
        positives=m, negatives=n, patients=counts[:2],
    )  # fmt: skip
    if min(counts[:2]) < 2:
        return unseen
    present = np.bincount(codes[truth], by_positives - value, size) / m
    absent = np.bincount(codes[~truth], by_negatives - value, size) / n
    influence, degrees = _stacked(present, absent, counts)
    variance = float(np.vdot(influence, influence))
    if not variance > 0:
        return unseen
    effect = variance / float(by_positives.var(ddof=1) / m + by_negatives.var(ddof=1) / n)
    guess = hanley_mcneil_variance(middle, m, n) * max(effect, 1.0)
    shrunk = (degrees * variance + PRIOR * guess) / (degrees + PRIOR)
    influence = influence * sqrt(shrunk / variance)
    return replace(unseen, influence=influence, apart=0.0)


def _stacked(present: Floats, absent: Floats, counts: tuple[int, int, int]) -> tuple[Floats, float]:
    """Obuchowski's variance as a sum of squares, and its degrees of freedom (Satterthwaite).

    ``present`` and ``absent`` [P] are each patient's sums over its positives and its negatives,
    ``counts`` the patients with a positive, with a negative, and with either.  The formula is
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


def area_of(scores: ArrayLike, labels: ArrayLike, patients: Patients = None) -> Area | None:
    """:func:`area`; None if a class is missing or a score is NaN."""
    truth = np.asarray(labels) == 1
    if not truth.any() or truth.all() or np.isnan(np.asarray(scores)).any():
        return None
    return area(scores, truth, patients)


def precision_of(
    scores: ArrayLike, labels: ArrayLike, patients: Patients = None, total: int | None = None
) -> OnLogit:
    """Average precision over the steps of recall, not interpolated; equal scores are one step.

    With row weights w it is Σ w y P / Σ w y, where P is the precision at each positive.  The
    influence is its derivative by w; sums from the highest score down give it for all rows.
    Within a quarter of a patient of 1, the deviation is that of a share of as many patients.

    Source: Manning, Raghavan and Schütze 2008, section 8.4; Boyd, Eng and Page 2013 (the logit, and
    the deviation of a share).
    """
    values, truth = scores_and_truth(scores, labels, negative=False)
    codes = _numbered(patients, len(values), total)
    distinct, place = np.unique(-values, return_inverse=True)
    right = np.bincount(place, truth, len(distinct))
    all_, upto = np.cumsum(np.bincount(place, minlength=len(distinct))), np.cumsum(right)
    precision, m = upto / all_, float(truth.sum())
    value = float((right * precision).sum() / m)
    # What one more row at a score would change for the positives at or below it.
    ones, shares = (np.cumsum((right * some / all_)[::-1])[::-1] for some in (1.0, precision))
    moved = (truth * (precision[place] - value + ones[place]) - shares[place]) / m
    influence, _ = _summed(moved, codes, total)
    positives = len(np.unique(codes[truth]))
    edge = EDGE / positives
    apart = 0.0
    if value > 1 - edge:
        apart = max(edge * (1 - edge) / positives - float(np.vdot(influence, influence)), 0.0)
    degrees = degrees_of(influence, len(np.unique(codes)) - 1)
    return OnLogit(value, influence, degrees, apart=apart, edge=edge)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another, with interval and two-sided p-value."""

    estimate: float
    low: float
    high: float
    p_value: float


def difference(one: Measured, other: Measured, level: float = 0.95) -> Difference | None:
    """The first figure minus the second, on the same patients, with interval and p-value.

    The interval combines those of both figures and their correlation, so that it is longer on the
    side with more room.  If both models say almost the same, that is too long, because the two
    sides do not cancel: then it is the deviation of the difference, stretched as far as the longer
    of the two sides.  Student's t has the degrees of freedom of the difference of the influences.
    The p-value fits the interval: it is 1 minus the level of the interval that ends at 0.  None for
    a single patient.

    Source: Zou and Donner 2008 (MOVER); Newcombe 1998 (shares); Obuchowski 1997 (the covariance).
    """
    from scipy.optimize import brentq

    if one.influence.shape != other.influence.shape:
        raise ValueError("the figures must be of the same patients: give 'total' to each")
    gap = one.influence - other.influence
    degrees = degrees_of(gap, min(one.degrees, other.degrees, gap.shape[1] - 1))
    if not degrees > 0:
        return None
    deviation, other_deviation = sqrt(one.variance), sqrt(other.variance)
    both = deviation * other_deviation
    correlation = float(np.vdot(one.influence, other.influence)) / both if both else 0.0
    estimate = one.value - other.value
    apart = _joined(deviation, other_deviation, correlation)

    def joined(reach: float, other_reach: float) -> float:
        whole = _joined(reach, other_reach, correlation)
        if not both:
            return whole
        return min(whole, max(reach / deviation, other_reach / other_deviation) * apart)

    def ends(z: float) -> Interval:
        (low, high), (other_low, other_high) = one.ends(z), other.ends(z)
        down, up = one.value - low, high - one.value
        other_down, other_up = other.value - other_low, other_high - other.value
        return estimate - joined(down, other_up), estimate + joined(up, other_down)

    low, high = ends(quantile(level, degrees))
    side = 0 if estimate > 0 else 1
    # The interval of an AUC of 1 never closes on it: no level ends at 0.
    if not estimate or ends(0.0)[side] * estimate <= 0:
        return Difference(estimate, low, high, 1.0)
    if ends(FARTHEST)[side] * estimate > 0:
        return Difference(estimate, low, high, two_sided(FARTHEST, degrees))
    at_zero = brentq(lambda z: ends(z)[side], 0.0, FARTHEST)
    return Difference(estimate, low, high, two_sided(at_zero, degrees))


def _joined(one: float, other: float, correlation: float) -> float:
    return sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))


TRAININGS = 3
"""With at least this many trainings, the interval of their mean includes training's randomness."""


def with_training(estimates: Sequence[float], ends: Interval) -> Interval:
    """The interval of a mean of trainings over patients and trainings.

    ``ends`` are for these trainings, over the patients alone.  The differences between trainings on
    the same patients add Student's t with one degree fewer than there are trainings.

    Source: Zou and Donner 2008 (MOVER, for a sum of two independent parts).
    """
    mean, n = float(np.mean(estimates)), len(estimates)
    reach = quantile(0.95, n - 1) * float(np.std(estimates, ddof=1)) / sqrt(n)
    return mean - _joined(mean - ends[0], reach, 0), mean + _joined(ends[1] - mean, reach, 0)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted so that the chance of any false finding among all stays at the level.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]

    The smallest of k is multiplied by k, the next by k − 1, and so on; none falls below the one
    before it.  Independence is not needed.

    Source: Holm 1979.
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    stepped = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(p) for p in adjusted]
