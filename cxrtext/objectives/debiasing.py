"""The debiased contrastive loss: false negatives are taken out of the sum of negatives.

``−log( pos / (pos + N g) )`` with ``N g = max( (neg − N η pos) / (1 − η), N e^{−γ²} )``.  All is
computed in log space and relative to the positive, so that the losses stay finite and accurate for
|score| up to 200 in float32.  The floor assumes that no score is below −γ²; no gradient flows
through its γ², and none from a negative of an anchor whose loss is floored there.

Sources: Wang et al. 2023 (sample-specific debiasing), section 2.3, eq. 6-8 and figure 5; Robinson
et al. 2021 (hard negative samples).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.objectives.scores import Rows, full_precision, log_sum, log_weights, split_rows

MIN_ETA = torch.finfo(torch.float32).tiny
"""Least class probability, in every type that can hold it: what is scored is trained on."""


def class_probability(log_p: Tensor, a: float = DEFAULT_A, k: float = DEFAULT_K) -> Tensor:
    """Estimate class probabilities, ``η = a · p^k``, in log space.

    Args:
        log_p: Log-likelihoods of sentences, in nats, at most 0; any shape, floating point.
        a: Scale, in (0, 1).
        k: Exponent, at least 0.

    Returns:
        ``η`` in (0, a], the shape and type of ``log_p``, at least ``MIN_ETA``.
    """
    if not 0.0 < a < 1.0:
        raise ValueError(f"a must lie in (0, 1), got {a}")
    if not 0.0 <= k < math.inf:
        raise ValueError(f"k must be at least 0 and finite, got {k}")
    if not bool((log_p <= 0).all()):
        raise ValueError("log-likelihoods must be numbers of at most 0")
    eta = torch.exp(math.log(a) + k * log_p)
    return eta.clamp(min=max(MIN_ETA, torch.finfo(log_p.dtype).tiny), max=a)


def debiased(
    scores: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    extra: Tensor | None = None,
    positive: Tensor | None = None,
) -> Tensor:
    """Debiased contrastive loss with one class probability an anchor: DCL-η, DCL-η_LM.

    Args:
        eta: Class probability of each anchor [A], or one for all; in [0, 1).
        gamma_sq: γ², the largest possible score.
        extra: [A, M], scaled scores of extra positives; ``pos`` inside g is then their mean.  −inf
            is none, but a row must have one.
    """
    rows = split_rows(scores, positive)
    in_class = None if extra is None else mean_positive(rows.positive, extra)
    if not bool(((_per_row(eta, rows, "eta") >= 0) & (_per_row(eta, rows, "eta") < 1)).all()):
        raise ValueError("eta must lie in [0, 1) in every row")
    return debiased_terms(rows, eta, gamma_sq, in_class)[0]


def mean_positive(chosen: Tensor, extra: Tensor) -> Tensor:
    """``log`` of the mean of ``e^score`` over the extra positives, minus the positive's score."""
    if extra.ndim != 2 or extra.shape[0] != chosen.shape[0] or extra.shape[1] == 0:
        raise ValueError(f"extra must be [{chosen.shape[0]}, M], got shape {tuple(extra.shape)}")
    relative = full_precision(extra, "extra").to(chosen.dtype) - chosen[:, None]
    count = (~torch.isneginf(relative)).sum(dim=1)
    if bool((count == 0).any()):
        raise ValueError("extra has a row of -inf alone; give each anchor a positive")
    return torch.logsumexp(relative, dim=1) - count.to(relative.dtype).log()


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
        tau_plus: τ⁺, the class probability, in [0, 1).
        beta: β, the concentration on hard negatives, at least 0; 0 is :func:`debiased`.
        gamma_sq: γ², the largest possible score.
    """
    if not 0 <= tau_plus < 1:
        raise ValueError(f"tau_plus must lie in [0, 1), got {tau_plus}")
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be at least 0 and finite, got {beta}")
    return hard_negative_terms(split_rows(scores, positive), tau_plus, beta, gamma_sq)[0]


def hard_negative_terms(
    rows: Rows, tau_plus: float, beta: float, gamma_sq: Tensor | float
) -> tuple[Tensor, Tensor]:
    """:func:`hard_negative` of rows, unchecked, and which anchors are floored; each [A]."""
    weights = log_weights(beta * rows.negatives, ~torch.isneginf(rows.negatives))
    return _corrected(rows, log_sum(rows.negatives + weights), tau_plus, gamma_sq)


def debiased_terms(
    rows: Rows, eta: Tensor | float, gamma_sq: Tensor | float, in_class: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`debiased` of rows, unchecked, and which anchors are floored; each [A].

    ``in_class`` is the ``log`` of what stands for ``pos`` in the correction, over pos; None is 0.
    """
    return _corrected(rows, log_sum(rows.negatives), eta, gamma_sq, in_class)


def _corrected(
    rows: Rows,
    marginal: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    in_class: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss from ``marginal``, ``log( neg / pos )`` [A] with negatives weighted or not."""
    eta = _per_row(eta, rows, "eta")
    gamma = _per_row(gamma_sq, rows, "gamma_sq").detach()
    log_count = rows.count.log()
    floor = log_count - gamma - rows.positive
    # log of (N η pos) / neg: the part of the negatives that the correction takes away
    taken = log_count + torch.log(eta) - marginal
    if in_class is not None:
        taken = taken + in_class
    possible = (taken < 0) & ~torch.isneginf(marginal)
    # log(1 − e^taken) without cancellation; the inner where keeps NaN out of the gradient
    rest = torch.log(-torch.expm1(torch.where(possible, taken, -1.0)))
    estimate = torch.where(possible, marginal + rest - torch.log1p(-eta), -torch.inf)
    # A NaN score stays NaN: a floor would hide that training diverged.
    unknown = torch.isnan(marginal)
    floored = (estimate <= floor) & ~unknown
    log_ratio = torch.where(floored, floor, torch.where(unknown, marginal, estimate))
    return F.softplus(log_ratio), floored & (rows.count > 0)


def _per_row(value: Tensor | float, rows: Rows, name: str) -> Tensor:
    like = rows.positive
    tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if tensor.ndim > 1 or (tensor.ndim == 1 and tensor.shape != like.shape):
        raise ValueError(
            f"{name} must be a number or [{len(like)}], got shape {tuple(tensor.shape)}"
        )
    return tensor
