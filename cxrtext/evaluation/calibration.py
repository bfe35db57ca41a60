"""From logits to probabilities that mean what they say, fitted on validation images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cxrtext.evaluation.binary import Floats, scores_and_truth


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns a logit into a probability: the logistic of ``scale · logit + shift``.

    Args:
        scale: 1 / temperature.
        shift: 0 for a temperature alone.
    """

    scale: float = 1.0
    shift: float = 0.0

    @property
    def temperature(self) -> float:
        """1 / scale; infinite where the scale is 0."""
        return 1 / self.scale if self.scale else float("inf")

    def probabilities(self, logits: ArrayLike) -> Floats:
        """Probabilities of logits, of the same shape."""
        z = self.scale * np.asarray(logits, dtype=np.float64) + self.shift
        return _logistic(z)


def _logistic(z: Floats) -> Floats:
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + small), small / (1 + small))


def _loss(z: Floats, target: Floats) -> float:
    return float((np.logaddexp(0.0, z) - target * z).mean())


def log_loss(logits: ArrayLike, labels: ArrayLike, calibration: Calibration | None = None) -> float:
    """Mean negative log-likelihood of the labels, in nats.

    Args:
        logits: [n], before the logistic, so that no probability rounds to 0 or 1.
        labels: [n], 1 or 0.
        calibration: Applied first.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Good 1952.
    """
    values, truth = scores_and_truth(logits, labels, positive=False, negative=False)
    one = calibration or Calibration()
    return _loss(one.scale * values + one.shift, truth.astype(np.float64))


def fit_temperature(
    logits: ArrayLike, labels: ArrayLike, limits: tuple[float, float] = (1e-2, 1e2)
) -> Calibration:
    """Fit one temperature by the log-loss of validation images.

    Newton's method on 1 / temperature, in which the loss is convex, kept inside a bracket that
    shrinks at each step: it cannot run away.

    Args:
        logits: [n], of the validation images.
        labels: [n], 1 or 0; both must occur.
        limits: The lowest and highest temperature.  Logits that separate the classes have their
            best temperature at 0, and logits that rank no better than chance at infinity; then
            the limit is the answer.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`; or the limits are not
            0 < lowest < highest.

    Source: Guo et al. 2017 (temperature scaling).
    """
    values, truth = scores_and_truth(logits, labels)
    if not 0 < limits[0] < limits[1]:
        raise ValueError(f"limits must be 0 < lowest < highest, not {limits}")
    low, high = 1 / limits[1], 1 / limits[0]

    def slopes(scale: float) -> tuple[float, float]:
        p = _logistic(scale * values)
        return float(((p - truth) * values).mean()), float((p * (1 - p) * values**2).mean())

    if slopes(low)[0] >= 0:
        return Calibration(low)
    if slopes(high)[0] <= 0:
        return Calibration(high)
    scale = min(max(1.0, low), high)
    for _ in range(100):
        slope, curvature = slopes(scale)
        low, high = (scale, high) if slope < 0 else (low, scale)
        step = scale - slope / curvature if curvature > 0 else np.nan
        # Outside the bracket, or nowhere: the geometric middle, as a scale spans decades.
        new = step if low < step < high else float(np.sqrt(low * high))
        if abs(new - scale) <= 1e-12 * scale:
            break
        scale = new
    return Calibration(scale)


def fit_platt(logits: ArrayLike, labels: ArrayLike) -> Calibration:
    """Fit a scale and a shift by the log-loss of validation images.

    The labels are drawn in a little, so that a best fit exists even where the logits separate the
    classes.  Newton's method with halved steps.

    Args:
        logits: [n], of the validation images.
        labels: [n], 1 or 0; both must occur.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.binary.scores_and_truth`.

    Source: Platt 1999; Lin, Lin and Weng 2007, algorithm 1.
    """
    values, truth = scores_and_truth(logits, labels)
    positives, negatives = int(truth.sum()), int((~truth).sum())
    target = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    centre, spread = float(values.mean()), float(values.std())
    unit = spread > 0
    x = (values - centre) / spread if unit else np.zeros_like(values)
    design = np.stack([x, np.ones_like(x)])
    ridge = 1e-12 * np.eye(2)  # the curvature of equal logits has no inverse
    best = np.array([0.0, np.log((positives + 1) / (negatives + 1))])
    loss = _loss(best @ design, target)
    for _ in range(100):
        p = _logistic(best @ design)
        slope = design @ (p - target) / len(x)
        if np.abs(slope).max() < 1e-12:
            break
        direction = np.linalg.solve((design * (p * (1 - p))) @ design.T / len(x) + ridge, -slope)
        step = 1.0
        while step > 1e-10:
            new_loss = _loss((best + step * direction) @ design, target)
            if new_loss <= loss + 1e-4 * step * float(slope @ direction):
                break
            step /= 2
        else:
            break  # no step gets lower: rounding is all that is left
        best, loss = best + step * direction, new_loss
    scale = float(best[0]) / spread if unit else 0.0
    return Calibration(scale, float(best[1]) - scale * centre)
