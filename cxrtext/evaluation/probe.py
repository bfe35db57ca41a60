"""What frozen image features hold: linear probes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike

from cxrtext.evaluation.binary import Floats
from cxrtext.evaluation.calibration import log_loss

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True, slots=True)
class Probe:
    """A logistic regression on features.

    Args:
        weights: [D].
        bias: Added to each logit.
        ridge: The penalty it was fitted with.
    """

    weights: Floats
    bias: float
    ridge: float

    def logits(self, features: ArrayLike) -> Floats:
        """Logits of rows of features, [n, D] -> [n]."""
        values: Floats = np.asarray(features, dtype=np.float64) @ self.weights + self.bias
        return values


def _checked(features: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if x.ndim != 2 or y.shape != x.shape[:1] or not x.size:
        raise ValueError(f"features must be [n, D] and labels [n], got {x.shape} and {y.shape}")
    if not np.isfinite(x).all():
        raise ValueError("features must be finite")
    if not np.isin(y, (0, 1)).all() or len(np.unique(y)) < 2:
        raise ValueError("labels must be 1 or 0, and both must occur")
    return x, y.astype(np.float64)


def fit_probe(
    features: ArrayLike,
    labels: ArrayLike,
    ridge: float,
    *,
    reference: ArrayLike | None = None,
    start: Probe | None = None,
) -> Probe:
    """Fit a logistic regression: mean log-loss + ridge / 2 · |w|² over standardised features.

    Each feature is brought to mean 0 and deviation 1 first, so that one ridge suits all; the
    probe returned takes features as they are.  The bias is not penalised.

    Args:
        features: [n, D], finite.
        labels: [n], 1 or 0; both must occur.
        ridge: Above 0, so that a best fit exists where the classes can be separated.
        reference: [m, D], the features whose mean and deviation standardise, such as all training
            features where few of them have labels; by default ``features``.
        start: Where to begin, to save time.

    Raises:
        ValueError: The shapes do not fit, a class is missing or the ridge is not above 0.

    Source: Alain and Bengio 2017; minimised by L-BFGS (Liu and Nocedal 1989) in float64.
    """
    x, y = _checked(features, labels)
    if not ridge > 0:
        raise ValueError(f"ridge must be above 0, not {ridge}")
    every = x if reference is None else np.asarray(reference, dtype=np.float64)
    centre, spread = every.mean(axis=0), every.std(axis=0)
    # A feature that is the same everywhere, up to rounding, says nothing.
    live = spread > 1e-12 * np.abs(every).max(axis=0)
    scale = np.where(live, 1 / np.where(live, spread, 1), 0)
    design, target = torch.from_numpy((x - centre) * scale), torch.from_numpy(y)
    parameters = torch.zeros(x.shape[1] + 1, dtype=torch.float64)
    parameters[-1] = float(np.log(y.sum() / (1 - y).sum()))
    if start is not None:
        parameters[:-1] = torch.from_numpy(np.where(live, start.weights * spread, 0))
        parameters[-1] = float(start.logits(centre[None])[0])
    w = _minimise(design, target, ridge, parameters)
    weights = w[:-1] * scale
    return Probe(weights, float(w[-1] - weights @ centre), ridge)


def _minimise(
    design: torch.Tensor, target: torch.Tensor, ridge: float, start: torch.Tensor
) -> Floats:
    parameters = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [parameters],
        max_iter=500,
        tolerance_grad=1e-8,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        logits = design @ parameters[:-1] + parameters[-1]
        loss = F.binary_cross_entropy_with_logits(logits, target)
        loss = loss + ridge / 2 * parameters[:-1].square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(closure)
    found: Floats = parameters.detach().numpy()
    return found


def linear_probe(
    features: ArrayLike,
    labels: ArrayLike,
    validation_features: ArrayLike,
    validation_labels: ArrayLike,
    ridges: Sequence[float] = RIDGES,
    *,
    reference: ArrayLike | None = None,
) -> Probe:
    """Fit a probe, with the ridge that gives validation images the lowest log-loss.

    Args:
        features: [n, D], of the training images.
        labels: [n], 1 or 0; both must occur.
        validation_features: [m, D].
        validation_labels: [m], 1 or 0; both must occur.
        ridges: Those to try; the largest of several equally good is taken.
        reference: See :func:`fit_probe`.

    Raises:
        ValueError: See :func:`fit_probe`; or no ridge is given.
    """
    if not ridges:
        raise ValueError("give at least one ridge")
    seen, truth = _checked(validation_features, validation_labels)
    fits: list[tuple[float, Probe]] = []
    probe = None
    for ridge in sorted(ridges, reverse=True):  # from the stiffest, each beginning at the last
        probe = fit_probe(features, labels, ridge, reference=reference, start=probe)
        fits.append((log_loss(probe.logits(seen), truth), probe))
    return min(fits, key=lambda fit: fit[0])[1]
