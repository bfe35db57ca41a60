"""Calibrated probabilities: how to fit and measure them, and what acting on them is worth.

Logits [n] are score differences, labels [n] are 1 or 0; probabilities [n] lie in [0, 1];
``patients`` [n] are the patients of the rows.  Arguments that do not fit raise a ValueError.
"""

from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.metrics.intervals import Measured, degrees_of, mean_of
from cxrtext.metrics.ranking import Floats, Patients, Truth, patient_codes, scores_and_truth

TEMPERATURES = 1e-2, 1e2
"""The lowest and the highest temperature that is fitted."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns a logit into a probability: the logistic of ``scale · logit + shift``.

    The scale is 1 / temperature; with a temperature alone the shift is 0.
    """

    scale: float = 1.0
    shift: float = 0.0

    @property
    def temperature(self) -> float:
        """1 / scale; infinite if the scale is 0."""
        return 1 / self.scale if self.scale else float("inf")

    def probabilities(self, logits: ArrayLike) -> Floats:
        return logistic(self.scale * np.asarray(logits, dtype=np.float64) + self.shift)


def logistic(z: Floats) -> Floats:
    """``1 / (1 + exp(−z))`` without overflow."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + small), small / (1 + small))


def _loss(z: Floats, target: Floats) -> float:
    return float((np.logaddexp(0.0, z) - target * z).mean())


def log_loss(logits: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-likelihood of the labels, in nats.

    Computed from logits, so that no probability rounds to 0 or 1.  Source: Good 1952.
    """
    values, truth = scores_and_truth(logits, labels, positive=False, negative=False)
    return _loss(values, truth.astype(np.float64))


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> Calibration:
    """Fit one temperature to the log-loss of validation images.

    The loss is convex in 1 / temperature, so its slope has one root.  The best temperature is 0 if
    the logits separate the classes, and infinite if they rank no better than chance; then the
    answer is that end of :data:`TEMPERATURES`.  Both classes must occur.

    Source: Guo et al. 2017 (temperature scaling).
    """
    from scipy.optimize import brentq

    values, truth = scores_and_truth(logits, labels)
    lowest, highest = TEMPERATURES
    # Use the logarithm, because a scale spans decades, and logits rescaled to size 1.
    size = float(np.abs(values).max()) or 1.0
    unit, low, high = values / size, log(size / highest), log(size / lowest)

    def slope(scale: float) -> float:
        return float(((logistic(exp(scale) * unit) - truth) * unit).mean())

    if slope(low) >= 0:
        return Calibration(1 / highest)
    if slope(high) <= 0:
        return Calibration(1 / lowest)
    return Calibration(exp(brentq(slope, low, high, xtol=1e-13)) / size)


def fit_logistic(design: Floats, target: Floats, offset: Floats | float = 0.0) -> Floats:
    """Coefficients [k] of a logistic regression of targets [n] in [0, 1] on a design [n, k].

    Maximum likelihood without a penalty, for a few columns of size 1; an ``offset`` [n] gets
    coefficient 1.
    """
    from scipy.optimize import minimize

    def loss(at: Floats) -> tuple[float, Floats]:
        z = design @ at + offset
        return _loss(z, target), design.T @ (logistic(z) - target) / len(target)

    def bend(at: Floats) -> Floats:
        p = logistic(design @ at + offset)
        hessian: Floats = (design.T * (p * (1 - p))) @ design / len(target)
        return hessian

    start, gtol = np.zeros(design.shape[1]), {"gtol": 1e-11}
    best = minimize(loss, start, jac=True, hess=bend, method="trust-exact", options=gtol)
    coefficients: Floats = best.x
    return coefficients


def fit_platt(logits: ArrayLike, labels: ArrayLike) -> Calibration:
    """Fit a scale and a shift to the log-loss of validation images.

    The targets are pulled in slightly from 0 and 1, so that a best fit exists even if the logits
    separate the classes.  Both classes must occur.

    Source: Platt 1999; Lin, Lin and Weng 2007 (the targets).
    """
    values, truth = scores_and_truth(logits, labels)
    positives, negatives = int(truth.sum()), int((~truth).sum())
    target = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    center, spread = float(values.mean()), float(values.std())
    columns = [np.ones_like(values)]
    if spread > 0:
        columns.append((values - center) / spread)
    shift, *slope = fit_logistic(np.stack(columns, axis=1), target).tolist()
    scale = slope[0] / spread if slope else 0.0
    return Calibration(scale, shift - scale * center)


def probabilities_and_truth(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Floats, Truth]:
    values, truth = scores_and_truth(probabilities, labels, positive=False, negative=False)
    if (values < 0).any() or (values > 1).any():
        raise ValueError("probabilities must lie in [0, 1]; turn scores into probabilities first")
    return values, truth


@dataclass(frozen=True, slots=True)
class ReliabilityBins:
    """Rows binned by probability, [b] each; empty bins are left out.

    The fields are the number of rows, their mean probability, and their share of positives.
    """

    counts: NDArray[np.int64]
    probability: Floats
    observed: Floats


def reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15
) -> ReliabilityBins:
    """Bin rows by probability, in equal parts of [0, 1], each without its upper end.

    Only the last part includes it.  Source: DeGroot and Fienberg 1983.
    """
    values, truth = probabilities_and_truth(probabilities, labels)
    place = np.minimum((values * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    kept = counts > 0
    totals = [np.bincount(place, weights=w, minlength=bins) for w in (values, truth)]
    probability, observed = (total[kept] / counts[kept] for total in totals)
    return ReliabilityBins(counts[kept], probability, observed)


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15
) -> float:
    """Mean gap between probability and share of positives over bins, weighted by their rows.

    Source: Naeini, Cooper and Hauskrecht 2015.
    """
    binned = reliability_bins(probabilities, labels, bins)
    gaps = np.abs(binned.probability - binned.observed)
    return float((binned.counts * gaps).sum() / binned.counts.sum())


THRESHOLDS = tuple(k / 100 for k in range(1, 100))
"""Lowest probabilities at which one may act."""


def recalibration(
    logits: ArrayLike, labels: ArrayLike, patients: Patients = None
) -> tuple[Measured | None, Measured]:
    """Calibration slope and intercept of probabilities, given as logits, on new images.

    With a slope below 1, probabilities are too extreme.  The intercept is fitted with the slope
    held at 1 (calibration in the large): above 0, the finding is more frequent than predicted.
    Maximum likelihood; the influence of patients is the sandwich's.  If the logits separate the
    classes, or are all equal, the slope is None.  Both classes must occur.

    Source: Cox 1958; Van Calster et al. 2016; Liang and Zeger 1986 (the sandwich).
    """
    values, truth = scores_and_truth(logits, labels)
    ones, codes = np.ones((len(values), 1)), patient_codes(patients, len(values))
    target = truth.astype(np.float64)
    (intercept,) = _regression(ones, values, target, codes)
    present, absent = values[truth], values[~truth]
    if absent.max() <= present.min() or present.max() <= absent.min():
        return None, intercept
    center, spread = values.mean(), float(values.std())
    both = np.concatenate([ones, (values[:, None] - center) / spread], axis=1)
    _, slope = _regression(both, np.zeros_like(values), target, codes)
    scaled = Measured(slope.value / spread, slope.influence / spread, slope.degrees)
    return scaled, intercept


def _regression(
    design: Floats, offset: Floats, target: Floats, codes: NDArray[np.intp]
) -> list[Measured]:
    """Coefficients of a logistic regression [n, k] with an offset [n]."""
    best = fit_logistic(design, target, offset)
    p = logistic(design @ best + offset)
    bread = np.linalg.pinv((design * (p * (1 - p))[:, None]).T @ design)
    each = design * (target - p)[:, None]
    sums = np.stack([np.bincount(codes, column) for column in each.T], axis=1)
    groups = len(sums)
    # A single patient's sum is 0 at the best fit: it says nothing about others.
    influence = (sums @ bread) * np.sqrt(groups / max(groups - 1, 1))
    return [
        Measured(float(b), column[None], degrees_of(column[None], groups - 1))
        for b, column in zip(best, influence.T, strict=True)
    ]


def net_benefit(
    probabilities: ArrayLike, labels: ArrayLike, patients: Patients = None
) -> tuple[list[Measured], list[float]]:
    """Net benefit of acting by the model, and of acting on all, at each of :data:`THRESHOLDS`.

    ``TP / n − FP / n · t / (1 − t)``: acting from a probability t on means accepting (1 − t) / t
    false positives for a true one.  Probabilities of t and above are acted on; acting on none is 0.

    >>> net_benefit([0.9, 0.6, 0.4, 0.1], [1, 0, 1, 0])[0][49].value
    0.0

    If few patients are acted on, their spread shows little.  So the variance includes that of three
    more, in whom the finding is as probable as t.

    Source: Vickers and Elkin 2006; the three patients are ours: DECISIONS.md.
    """
    values, truth = probabilities_and_truth(probabilities, labels)
    codes = patient_codes(patients, len(values))
    model: list[Measured] = []
    everyone: list[float] = []
    rows_of_patient = float((np.bincount(codes) ** 2).sum()) / len(codes)
    for cut in THRESHOLDS:
        odds = cut / (1 - cut)
        gain = np.where(truth, 1.0, -odds)
        earned = mean_of(np.where(values >= cut, gain, 0.0), codes)
        assert earned is not None  # noqa: S101 - there is a row
        # cut · 1² + (1 − cut) · odds² = odds
        model.append(replace(earned, apart=3 * odds * rows_of_patient / len(codes) ** 2))
        everyone.append(float(gain.mean()))
    return model, everyone
