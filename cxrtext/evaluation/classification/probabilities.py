"""What probabilities are worth: their calibration slope and intercept, and their net benefit.

Logits and probabilities are [n], labels [n] are 1 or 0, ``clusters`` [n] are patients.  What does
not fit is a ValueError.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification.calibration import (
    fit_logistic,
    logistic,
    probabilities_and_truth,
)
from cxrtext.evaluation.intervals.estimates import Estimate, Patients
from cxrtext.evaluation.intervals.proportions import codes_of_rows
from cxrtext.evaluation.intervals.quantiles import quantile
from cxrtext.evaluation.metrics import Floats, scores_and_truth

THRESHOLDS = tuple(k / 100 for k in range(1, 100))
Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Recalibration:
    """What a logistic regression makes of the logits of probabilities; ideal: slope 1, intercept 0.

    ``intercept`` is that of a slope held at 1 (calibration in the large): above 0 the finding is
    more frequent than was foretold.  ``slope`` below 1: probabilities are too extreme.
    """

    slope: Estimate
    intercept: Estimate


def recalibration(logits: ArrayLike, labels: ArrayLike, clusters: Patients = None) -> Recalibration:
    """Calibration slope and intercept of probabilities, given as logits, on new images.

    Maximum likelihood; intervals are Wald's, by the sandwich of patients, and there are none of a
    single patient.  Both classes must occur.  Where the logits separate the classes, or are all
    equal, the slope is not defined.

    Source: Cox 1958; Van Calster et al. 2016; Liang and Zeger 1986 (the sandwich).
    """
    values, truth = scores_and_truth(logits, labels)
    ones, codes = np.ones((len(values), 1)), codes_of_rows(clusters, len(values))
    target = truth.astype(np.float64)
    intercept = _regression(ones, values, target, codes)
    present, absent = values[truth], values[~truth]
    apart = absent.max() <= present.min() or present.max() <= absent.min()
    if apart:
        return Recalibration(Estimate(None), intercept[0])
    center, spread = values.mean(), values.std()
    both = np.concatenate([ones, (values[:, None] - center) / spread], axis=1)
    _, slope = _regression(both, np.zeros_like(values), target, codes)
    scaled = [None if one is None else one / spread for one in (slope.value, slope.low, slope.high)]
    return Recalibration(Estimate(*scaled), intercept[0])


def _regression(design: Floats, offset: Floats, target: Floats, codes: Codes) -> list[Estimate]:
    """Logistic regression [n, k] with an offset [n]: coefficients with the sandwich's intervals."""
    best = fit_logistic(design, target, offset)
    p = logistic(design @ best + offset)
    bread = np.linalg.pinv((design * (p * (1 - p))[:, None]).T @ design)
    each = design * (target - p)[:, None]
    sums = np.stack([np.bincount(codes, column) for column in each.T], axis=1)
    groups = len(sums)
    if groups < 2:  # whose sum is 0 at the best fit: they say nothing of other patients
        return [Estimate(float(b)) for b in best]
    meat = sums.T @ sums * (groups / (groups - 1))
    errors = quantile(0.95, groups - 1) * np.sqrt(np.diag(bread @ meat @ bread))
    return [
        Estimate(float(b), float(b - e), float(b + e)) for b, e in zip(best, errors, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class NetBenefit:
    """Net benefit at each of :data:`THRESHOLDS`, in true positives an image.

    Of acting by the model, with its 95 % band but of a single patient, and of acting on all; acting
    on none is 0.
    """

    model: list[Estimate]
    everyone: list[float]


def net_benefit(
    probabilities: ArrayLike, labels: ArrayLike, clusters: Patients = None
) -> NetBenefit:
    """True positives less false positives, these weighed by the odds of the threshold.

    ``TP / n − FP / n · t / (1 − t)``: who would act from a probability t on takes so many false
    positives for a true one.  Probabilities of t and above are acted on.  The band is that of a
    mean, by the sums of patients.

    >>> net_benefit([0.9, 0.6, 0.4, 0.1], [1, 0, 1, 0]).model[49].value
    0.0

    Source: Vickers and Elkin 2006.
    """
    values, truth = probabilities_and_truth(probabilities, labels)
    codes = codes_of_rows(clusters, len(values))
    n, sizes = len(values), np.bincount(codes)
    groups = len(sizes)
    model: list[Estimate] = []
    everyone: list[float] = []
    for cut in THRESHOLDS:
        gain = np.where(truth, 1.0, -cut / (1 - cut))
        earned = np.where(values >= cut, gain, 0.0)
        mean = float(earned.mean())
        everyone.append(float(gain.mean()))
        if groups < 2:
            model.append(Estimate(mean))
            continue
        sums = np.bincount(codes, earned, minlength=groups) - mean * sizes
        error = sqrt(float((sums**2).sum()) * groups / (groups - 1)) / n
        reach = quantile(0.95, groups - 1) * error
        model.append(Estimate(mean, mean - reach, mean + reach))
    return NetBenefit(model, everyone)
