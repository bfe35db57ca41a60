"""Positive-debiased loss: corrects for positives that are none.

Source: Troeshestova and Isachenko (distributional biases), eq. 12-14, 16 and section 2.3; the floor
is ours (docs/reference/objectives.md).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives.scores import first_row, full_precision, log_sum

Aggregate = Literal["loss", "group"]


def positive_debiased(
    positive: Tensor,
    negative: Tensor,
    self_score: Tensor | float,
    tau_plus: float,
    gamma_sq: Tensor | float,
    aggregate: Aggregate = "loss",
) -> Tensor:
    """Positive-debiased contrastive loss.

    ``−log( (P − τ⁻P⁻) / (P + (Nτ⁺ − τ⁻) P⁻) )`` with ``P⁻ = (1/N) Σ_n e^{s(x,u_n)}`` and
    ``P = (Σ_n e^{s(x,u_n)} + e^{s(x,v)} + e^{s(x,x)}) / (N + 2)``.  ``P − τ⁻P⁻`` is at least
    ``τ⁺ e^{−γ²}``, in numerator and denominator alike; no gradient flows through that γ².

    Args:
        positive: [A, M], scaled scores s(x, v) of the positives; −inf is none.
        negative: [A, N], scaled scores s(x, u) of the negatives; −inf is none and not counted.
        self_score: s(x, x), γ² where embeddings are normalized; [A] or one for all.
        tau_plus: τ⁺, the class probability, in (0, 1); τ⁻ = 1 − τ⁺.
        gamma_sq: γ², the largest possible score.
        aggregate: "loss" is the mean of the losses with each positive as v (loss-combination);
            "group" puts all M inside P, whose divisor is then N + M + 1 (pos-grouping).

    Returns:
        [A], in nats; 0 for an anchor without negatives.
    """
    _check(positive, negative, tau_plus, aggregate)
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
    """:func:`positive_debiased`, unchecked, and which anchors are floored; each [A]."""
    positive, negative = full_precision(positive, "positive"), full_precision(negative, "negative")
    own = torch.as_tensor(self_score, dtype=negative.dtype, device=negative.device)
    if own.ndim > 1 or (own.ndim == 1 and len(own) != len(negative)):
        raise ValueError(f"self_score must be a number or [{len(negative)}], got {own.shape}")
    own = own.expand(len(negative))[:, None, None].expand(-1, positive.shape[1], 1)
    # [A, K, inside]: the scores that P holds beside the negatives
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
    """``log( P − τ⁻P⁻ )`` with its floor, and where it is floored there.

    The negatives stand in P as well, so they are collected before anything is subtracted:
    ``P − τ⁻P⁻ = e^known + c Σ e^u`` with ``c = (Nτ⁺ − kτ⁻) / (N (N + k))``, k the size of the rest.
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


def _check(positive: Tensor, negative: Tensor, tau_plus: float, aggregate: str) -> None:
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
