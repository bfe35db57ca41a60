"""The debiased contrastive loss, which takes false negatives out of the sum of negatives.

``−log( pos / (pos + N g) )`` with ``N g = max( (neg − N η pos) / (1 − η), N e^{−γ²} )``.
Everything is computed in log space and relative to the positive, so losses stay finite and accurate
for |score| up to 200 in float32.  The floor assumes that no score is below −γ²; no gradient flows
through its γ², or from the negatives of an anchor at the floor.

Sources: Wang et al. 2023 (sample-specific debiasing), section 2.3, eq. 6-8 and figure 5; Robinson
et al. 2021 (hard negative samples).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.objectives.scores import (
    Rows,
    first_row,
    full_precision,
    log_sum,
    log_weights,
    split_rows,
)

Aggregate = Literal["loss", "group"]

MIN_ETA = torch.finfo(torch.float32).tiny
"""Least class probability, in every type that can represent it; scoring and training use it."""


def class_probability(log_p: Tensor, a: float = DEFAULT_A, k: float = DEFAULT_K) -> Tensor:
    """Estimate class probabilities, ``η = a · p^k``, in log space.

    ``log_p`` has log-likelihoods in nats, at most 0, in any shape; ``a`` lies in (0, 1), k is at
    least 0.  ``η`` is in (0, a], at least ``MIN_ETA``, with the shape and type of ``log_p``.
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
    """Debiased contrastive loss with a class probability per anchor: DCL-η, DCL-η_LM.

    Args:
        eta: Class probability of each anchor [A], or one for all; in [0, 1).
        gamma_sq: γ², the largest possible score.
        extra: [A, M], scaled scores of extra positives; ``pos`` inside g is then their mean.  −inf
            means none, but each row must have one.
    """
    rows = split_rows(scores, positive)
    in_class = None if extra is None else mean_positive(rows.positive, extra)
    each = _per_row(eta, rows, "eta")
    if not bool(((each >= 0) & (each < 1)).all()):
        raise ValueError("eta must lie in [0, 1) in every row")
    return debiased_terms(rows, each, gamma_sq, in_class)[0]


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
    """Hard-negative loss: negatives weighted ``∝ e^{β s}`` with mean 1, then debiased with τ⁺.

    ``N g = max( (Σ_j w_j e^{s_j} − N τ⁺ pos) / (1 − τ⁺), N e^{−γ²} )``.  Gradients flow through the
    weights.

    Args:
        tau_plus: τ⁺, the class probability, in [0, 1).
        beta: β, the concentration on hard negatives, at least 0; 0 gives :func:`debiased`.
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
    """:func:`hard_negative` from rows, unchecked, and which anchors are floored; both [A]."""
    weights = log_weights(beta * rows.negatives, ~torch.isneginf(rows.negatives))
    return _corrected(rows, log_sum(rows.negatives + weights), tau_plus, gamma_sq)


def debiased_terms(
    rows: Rows, eta: Tensor | float, gamma_sq: Tensor | float, in_class: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`debiased` from rows, unchecked, and which anchors are floored; both [A].

    ``in_class`` is the ``log`` of the correction's ``pos`` divided by the positive's; None means 0.
    """
    return _corrected(rows, log_sum(rows.negatives), eta, gamma_sq, in_class)


def _corrected(
    rows: Rows,
    marginal: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    in_class: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss from ``marginal``, ``log( neg / pos )`` [A], with or without weighted negatives."""
    eta = _per_row(eta, rows, "eta")
    gamma = _per_row(gamma_sq, rows, "gamma_sq").detach()
    log_count = rows.count.log()
    floor = log_count - gamma - rows.positive
    # log of (N η pos) / neg: the part of the negatives that the correction removes
    taken = log_count + torch.log(eta) - marginal
    if in_class is not None:
        taken = taken + in_class
    possible = (taken < 0) & ~torch.isneginf(marginal)
    # log(1 − e^taken) without cancellation; the inner `where` keeps NaN out of the gradient
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


def positive_debiased(
    positive: Tensor,
    negative: Tensor,
    self_score: Tensor | float,
    tau_plus: float,
    gamma_sq: Tensor | float,
    aggregate: Aggregate = "loss",
) -> Tensor:
    """Positive-debiased contrastive loss: corrects for false positives.

    ``−log( (P − τ⁻P⁻) / (P + (Nτ⁺ − τ⁻) P⁻) )`` with ``P⁻ = (1/N) Σ_n e^{s(x,u_n)}`` and
    ``P = (Σ_n e^{s(x,u_n)} + e^{s(x,v)} + e^{s(x,x)}) / (N + 2)``.  ``P − τ⁻P⁻`` is at least
    ``τ⁺ e^{−γ²}``, in numerator and denominator alike; no gradient flows through that γ².

    Args:
        positive: [A, M], scaled scores s(x, v) of the positives; −inf means none.
        negative: [A, N], scaled scores s(x, u) of the negatives; −inf is not counted.
        self_score: s(x, x), which is γ² for normalized embeddings; [A] or one for all.
        tau_plus: τ⁺, the class probability, in (0, 1); τ⁻ = 1 − τ⁺.
        gamma_sq: γ², the largest possible score.
        aggregate: "loss" is the mean of the losses with each positive as v (loss-combination);
            "group" puts all M inside P, with the divisor N + M + 1 (pos-grouping).

    Returns:
        [A], in nats; 0 for an anchor without negatives.

    Source: Troeshestova and Isachenko (distributional biases), eq. 12-14, 16 and section 2.3; the
    floor is ours (docs/reference/objectives.md).
    """
    _check_positives(positive, negative, tau_plus, aggregate)
    given = (positive, negative, self_score, tau_plus, gamma_sq, aggregate)
    return positive_debiased_terms(*given)[0]


def positive_debiased_terms(
    positive: Tensor,
    negative: Tensor,
    self_score: Tensor | float,
    tau_plus: float,
    gamma_sq: Tensor | float,
    aggregate: Aggregate = "loss",
) -> tuple[Tensor, Tensor]:
    """:func:`positive_debiased`, unchecked, and which anchors are floored; both [A]."""
    positive, negative = full_precision(positive, "positive"), full_precision(negative, "negative")
    own = torch.as_tensor(self_score, dtype=negative.dtype, device=negative.device)
    if own.ndim > 1 or (own.ndim == 1 and len(own) != len(negative)):
        raise ValueError(f"self_score must be a number or [{len(negative)}], got {own.shape}")
    own = own.expand(len(negative))[:, None, None].expand(-1, positive.shape[1], 1)
    # [A, K, inside]: the scores in P apart from the negatives
    inside = torch.cat([positive[:, :, None], own], dim=2)
    if aggregate == "group":
        inside = torch.cat([positive, own[:, 0]], dim=1)[:, None]
    present = ~torch.isneginf(inside[..., :-1]).all(dim=2)
    size = (~torch.isneginf(inside)).sum(dim=2).to(negative.dtype)
    count = (~torch.isneginf(negative)).sum(dim=1, keepdim=True).to(negative.dtype)
    # Relative to the largest score inside, so that small losses stay accurate.
    reference = inside.detach().amax(dim=2)
    known = torch.logsumexp(inside - reference[..., None], dim=2) - (count + size).log()
    total = log_sum(negative[:, None] - reference[..., None])  # [A, K]
    least = torch.as_tensor(gamma_sq).detach().to(known).reshape(-1, 1)
    floor = math.log(tau_plus) - least - reference
    numerator, floored = _numerator(known, total, count, size, tau_plus, floor)
    # [A, K]: the loss is the softplus of log( N τ⁺P⁻ / (P − τ⁻P⁻) )
    losses = torch.where(present, F.softplus(math.log(tau_plus) + total - numerator), 0.0)
    return losses.sum(dim=1) / present.sum(dim=1), (floored & present).any(dim=1)


def _numerator(
    known: Tensor, total: Tensor, count: Tensor, size: Tensor, tau_plus: float, floor: Tensor
) -> tuple[Tensor, Tensor]:
    """``log( P − τ⁻P⁻ )`` with its floor, and where it is floored.

    P contains the negatives too, so they are collected before anything is subtracted:
    ``P − τ⁻P⁻ = e^known + c Σ e^u`` with ``c = (Nτ⁺ − kτ⁻) / (N (N + k))``; k counts the rest of P.
    """
    coefficient = (count * tau_plus - size * (1 - tau_plus)) / (count * (count + size))
    some = count > 0
    coefficient = torch.where(some, coefficient, 0.0)
    magnitude = coefficient.abs()
    used = some & (magnitude > 0)
    share = torch.where(used, total, 0.0) + torch.where(used, magnitude, 1.0).log()
    added = torch.logaddexp(known, torch.where(used, share, known - 1e4))
    possible = used & (coefficient < 0) & (share < known)
    left = known + torch.log(-torch.expm1(torch.where(possible, share - known, -1.0)))
    taken = used & (coefficient < 0)
    value = torch.where(taken, torch.where(possible, left, floor), added)
    floored = taken & ~(value > floor) & ~torch.isnan(value)
    return torch.where(floored, floor, value), floored


def _check_positives(positive: Tensor, negative: Tensor, tau_plus: float, aggregate: str) -> None:
    if positive.ndim != 2 or positive.shape[1] == 0:
        raise ValueError(f"positive must be [anchors, M], got shape {tuple(positive.shape)}")
    if negative.ndim != 2 or negative.shape[0] != positive.shape[0]:
        raise ValueError(
            f"negative must be [{positive.shape[0]}, N], got shape {tuple(negative.shape)}"
        )
    if not 0 < tau_plus < 1:
        raise ValueError(f"tau_plus must lie in (0, 1), got {tau_plus}")
    if aggregate not in ("loss", "group"):
        raise ValueError(f"aggregate must be 'loss' or 'group', got '{aggregate}'")
    none = torch.isneginf(positive).all(dim=1)
    if bool(none.any()):
        raise ValueError(f"anchor {first_row(none)} has no positive")
