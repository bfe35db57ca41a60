"""Hard negatives: the nearer a negative, the more it weighs; then debiased."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives.correction import Corrected, corrected_negatives
from cxrtext.objectives.rows import log_sum, log_weights, split_rows


def hard_negative(
    scores: Tensor,
    tau_plus: float,
    beta: float,
    gamma_sq: Tensor | float,
    positive: Tensor | None = None,
) -> Tensor:
    """Hard-negative loss: negatives weighted ``∝ e^{β s}``, mean 1, then debiased with τ⁺.

    ``N g = max( (Σ_j w_j e^{s_j} − N τ⁺ pos) / (1 − τ⁺), N e^{−γ²} )``.  The weights are part of
    the loss: gradients flow through them.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        tau_plus: τ⁺, the class probability, in [0, 1).
        beta: β, the concentration on hard negatives, at least 0; 0 is :func:`debiased`.
        gamma_sq: γ², the largest possible score; no gradient flows through the floor's.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, a positive is −inf, or τ⁺ or β is out of range.

    Source: Robinson et al. 2021 (hard negative samples); METHOD section 4.
    """
    return F.softplus(_corrected(scores, tau_plus, beta, gamma_sq, positive).log_ratio)


def hard_negative_floored(
    scores: Tensor,
    tau_plus: float,
    beta: float,
    gamma_sq: Tensor | float,
    positive: Tensor | None = None,
) -> Tensor:
    """Tell for which anchors the floor of :func:`hard_negative` holds; its arguments.

    Returns:
        [A], boolean; its mean is worth logging.
    """
    return _corrected(scores.detach(), tau_plus, beta, gamma_sq, positive).floored


def _corrected(
    scores: Tensor,
    tau_plus: float,
    beta: float,
    gamma_sq: Tensor | float,
    positive: Tensor | None,
) -> Corrected:
    if not 0 <= tau_plus < 1:
        raise ValueError(f"tau_plus must lie in [0, 1), got {tau_plus}")
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be at least 0 and finite, got {beta}")
    rows = split_rows(scores, positive)
    weights = log_weights(beta * rows.negatives, ~torch.isneginf(rows.negatives))
    marginal = log_sum(rows.negatives + weights)
    return corrected_negatives(rows, marginal, tau_plus, gamma_sq)
