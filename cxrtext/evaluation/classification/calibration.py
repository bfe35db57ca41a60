"""Probabilities that mean what they say: fitted, measured, and kept with a checkpoint.

Logits [n] are score differences of the validation images, labels [n] are 1 or 0; probabilities
[n] lie in [0, 1].  What does not fit is a ValueError.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cxrtext.evaluation.classification.heads import BetterHeads
from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.kept import Kept, KeptFile, Share
from cxrtext.evaluation.metrics import Floats, Truth, scores_and_truth
from cxrtext.evaluation.rows import YOUDEN
from cxrtext.models import ImageTextModel

TEMPERATURES = 1e-2, 1e2
"""The lowest and the highest that is fitted."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns a logit into a probability: the logistic of ``scale · logit + shift``.

    The scale is 1 / temperature, the shift 0 for a temperature alone.
    """

    scale: float = 1.0
    shift: float = 0.0

    @property
    def temperature(self) -> float:
        """1 / scale; infinite where the scale is 0."""
        return 1 / self.scale if self.scale else float("inf")

    def probabilities(self, logits: ArrayLike) -> Floats:
        return logistic(self.scale * np.asarray(logits, dtype=np.float64) + self.shift)


def logistic(z: Floats) -> Floats:
    """``1 / (1 + exp(−z))``, which does not overflow."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + small), small / (1 + small))


def _loss(z: Floats, target: Floats) -> float:
    return float((np.logaddexp(0.0, z) - target * z).mean())


def log_loss(logits: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-likelihood of the labels, in nats.

    Taken from logits, so that no probability rounds to 0 or 1.  Source: Good 1952.
    """
    values, truth = scores_and_truth(logits, labels, positive=False, negative=False)
    return _loss(values, truth.astype(np.float64))


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> Calibration:
    """Fit one temperature by the log-loss of validation images.

    The loss is convex in 1 / temperature, so its slope has one root.  Logits that separate the
    classes have their best temperature at 0, and logits that rank no better than chance at
    infinity; then the end of :data:`TEMPERATURES` is the answer.  Both classes must occur.

    Source: Guo et al. 2017 (temperature scaling).
    """
    from scipy.optimize import brentq

    values, truth = scores_and_truth(logits, labels)
    lowest, highest = TEMPERATURES
    # In the logarithm, as a scale spans decades, and of logits of size 1, whatever theirs is.
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

    Maximum likelihood without a penalty, for a few columns of size 1; an ``offset`` [n] has the
    coefficient 1.
    """
    from scipy.optimize import minimize

    def loss(at: Floats) -> tuple[float, Floats]:
        z = design @ at + offset
        return _loss(z, target), design.T @ (logistic(z) - target) / len(target)

    def bend(at: Floats) -> Floats:
        p = logistic(design @ at + offset)
        found: Floats = (design.T * (p * (1 - p))) @ design / len(target)
        return found

    start, gtol = np.zeros(design.shape[1]), {"gtol": 1e-11}
    found = minimize(loss, start, jac=True, hess=bend, method="trust-exact", options=gtol)
    best: Floats = found.x
    return best


def fit_platt(logits: ArrayLike, labels: ArrayLike) -> Calibration:
    """Fit a scale and a shift by the log-loss of validation images.

    The labels are drawn in a little, so that a best fit exists even where the logits separate the
    classes.  Both classes must occur.

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


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean squared difference of probability and label.  Source: Brier 1950."""
    values, truth = probabilities_and_truth(probabilities, labels)
    return float(((values - truth) ** 2).mean())


@dataclass(frozen=True, slots=True)
class ReliabilityBins:
    """Rows gathered by their probability, [b] each; bins without rows are left out.

    How many rows, their mean probability, and the share of positives among them.
    """

    counts: NDArray[np.int64]
    probability: Floats
    observed: Floats


def reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15
) -> ReliabilityBins:
    """Gather rows by their probability: equal parts of [0, 1], each without its upper end.

    The last part has its upper end.  Source: DeGroot and Fienberg 1983.
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
    """Mean gap between probability and share of positives, over bins, weighed by their rows.

    Source: Naeini, Cooper and Hauskrecht 2015.
    """
    found = reliability_bins(probabilities, labels, bins)
    gaps = np.abs(found.probability - found.observed)
    return float((found.counts * gaps).sum() / found.counts.sum())


CALIBRATION = "calibration.json"
"""In a checkpoint's folder: its prompts, and what was fitted with these and no others."""
Measured = tuple[Share, Share, Share]
"""A share, and the low and the high end of its 95 % interval."""


POOLED = "pooled"
"""The operating point of all groups together."""


class OperatingPoint(Kept):
    """A threshold of scores that validation images chose, and what it does to the images measured.

    Above it a finding is called present.  A share is None where it is of fewer than 25 patients or
    its interval is wider than .3; predictive values are of the prevalence of the images measured.
    """

    threshold: float
    sensitivity: Measured | None
    specificity: Measured | None
    ppv: Measured | None = None
    npv: Measured | None = None
    prevalence: Measured | None = None


class FindingCalibration(Kept):
    """Calibration of a finding: probability is the logistic of ``scale · score + shift``.

    ``positives`` and ``negatives`` count the validation images.  On the images measured: expected
    calibration error before and after, AUC, and ``points`` by how their threshold was chosen; None
    or empty where they could not be measured.  ``groups``: by "column=value" of the manifest
    a point of the same specificity, the first that an image is of counts; None of too few images.
    """

    scale: Annotated[float, Field(gt=0)]
    shift: float
    positives: int
    negatives: int
    by_head: bool = False  # whether the scores were a head's, not the prompts'
    error_before: float | None = None
    error_after: float | None = None
    auc: Measured | None = None
    points: dict[str, OperatingPoint] = Field(default_factory=dict)
    groups: dict[str, OperatingPoint | None] = Field(default_factory=dict)

    @property
    def calibration(self) -> Calibration:
        return Calibration(self.scale, self.shift)

    def point_of(self, image: Mapping[str, str]) -> tuple[str, OperatingPoint | None]:
        """The point for an image of some metadata, and the group that it is of."""
        named = {f"{column}={value}" for column, value in image.items()}
        for name, point in self.groups.items():
            if point is not None and name in named:
                return name, point
        return POOLED, self.points.get(YOUDEN)


class KeptCalibration(KeptFile):
    """A checkpoint's prompts, and the calibration of the findings that could be calibrated.

    ``measured`` is the split on which errors were measured, and how many images it has.
    """

    FILE = CALIBRATION

    format: Literal["cxrtext calibration"] = "cxrtext calibration"
    version: Literal[3] = 3
    measured: tuple[str, int]
    prompts: dict[str, Prompts]
    findings: dict[str, FindingCalibration]

    def measured_of(
        self, finding: str, prompts: Prompts, *, by_head: bool
    ) -> FindingCalibration | None:
        """What was fitted and measured of a finding asked with some prompts, or by a head."""
        found = self.findings.get(finding) if self.prompts.get(finding) == prompts else None
        return found if found and found.by_head == by_head else None


def prompts_beside(model: ImageTextModel) -> dict[str, Prompts]:
    """The prompts that a model's checkpoint keeps; CheX5's where it keeps none."""
    kept = KeptCalibration.beside(model)
    return dict(CHEX5_PROMPTS if kept is None else kept.prompts)


def calibrations_of(
    model: ImageTextModel, prompts: Mapping[str, Prompts]
) -> dict[str, Calibration]:
    """The calibration of each finding whose prompts the model's checkpoint calibrated."""
    if (kept := KeptCalibration.beside(model)) is None:
        return {}
    by_head = BetterHeads(model.heads, prompts).findings
    found = {
        name: kept.measured_of(name, asked, by_head=name in by_head)
        for name, asked in prompts.items()
    }
    return {name: known.calibration for name, known in found.items() if known}
