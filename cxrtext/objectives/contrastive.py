"""InfoNCE and the debiased contrastive loss, one loss an anchor.

``scores`` is [A, C]: anchors in rows, candidates in columns, already multiplied by γ².  An entry of
−inf is no candidate and is not counted.  Everything is computed in log space, so that the losses
stay finite and accurate for |score| up to 200 in float32.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def _positive_scores(scores: Tensor, positive: Tensor | None) -> tuple[Tensor, Tensor]:
    """The scores of the positives [A], and ``scores`` with them turned into −inf [A, C]."""
    if scores.ndim != 2:
        raise ValueError(f"scores must be [anchors, candidates], got shape {tuple(scores.shape)}")
    anchors, candidates = scores.shape
    if positive is None:
        if anchors > candidates:
            raise ValueError(
                f"{anchors} anchors and {candidates} candidates have no diagonal of positives; "
                "pass positive=, the column of each row's positive"
            )
        positive = torch.arange(anchors, device=scores.device)
    if positive.shape != (anchors,):
        raise ValueError(f"positive must be [{anchors}], got shape {tuple(positive.shape)}")
    column = positive[:, None]
    chosen = scores.gather(1, column).squeeze(1)
    return chosen, scores.scatter(1, column, -torch.inf)


def _log_sum(values: Tensor) -> Tensor:
    """``log Σ exp`` over the last dimension; −inf with a zero gradient for a row of −inf."""
    empty = torch.isneginf(values).all(dim=-1, keepdim=True)
    total = torch.logsumexp(values.masked_fill(empty, 0.0), dim=-1)
    return total.masked_fill(empty.squeeze(-1), -torch.inf)


def info_nce(scores: Tensor, positive: Tensor | None = None) -> Tensor:
    """InfoNCE, ``−log( pos / (pos + neg) )``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit.

    Source: Wang et al. 2023 (sample-specific debiasing), eq. 3.
    """
    chosen, negatives = _positive_scores(scores, positive)
    return F.softplus(_log_sum(negatives) - chosen)


@dataclass(frozen=True, slots=True)
class _Correction:
    """``log(N g)`` before the floor, the floor, and where the floor holds; each [A]."""

    estimate: Tensor
    floor: Tensor
    floored: Tensor


def _corrected_negatives(
    negatives: Tensor, in_class: Tensor, eta: Tensor | float, gamma_sq: Tensor | float
) -> _Correction:
    eta = torch.as_tensor(eta, dtype=negatives.dtype, device=negatives.device)
    if not bool(((eta >= 0) & (eta < 1)).all()):
        raise ValueError("eta must lie in [0, 1)")
    gamma = torch.as_tensor(gamma_sq, dtype=negatives.dtype, device=negatives.device).detach()
    count = (~torch.isneginf(negatives)).sum(dim=1).to(negatives.dtype)
    floor = count.log() - gamma
    marginal = _log_sum(negatives)
    # log of (N η pos) / neg: the part of the negatives that the correction takes away
    taken = count.log() + torch.log(eta) + in_class - marginal
    possible = (taken < 0) & torch.isfinite(marginal)
    # log(1 − e^taken) without cancellation; the inner where keeps NaN out of the gradient
    rest = torch.log(-torch.expm1(torch.where(possible, taken, -1.0)))
    estimate = torch.where(possible, marginal + rest - torch.log1p(-eta), -torch.inf)
    return _Correction(estimate, floor, estimate <= floor)


def debiased(
    scores: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    extra: Tensor | None = None,
    positive: Tensor | None = None,
) -> Tensor:
    """Debiased contrastive loss with one class probability an anchor: DCL-η, DCL-η_LM.

    ``−log( pos / (pos + N g) )``, ``N g = max( (neg − N η pos) / (1 − η), N e^{−γ²} )``.  The floor
    assumes that no score is below −γ²; no gradient flows through its γ².

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        eta: Class probability of each anchor [A], or one for all; in [0, 1).
        gamma_sq: γ², the largest possible score.
        extra: [A, M], scaled scores of extra positives; ``pos`` inside g is then their mean.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, or eta lies outside [0, 1).

    Source: Wang et al. 2023 (sample-specific debiasing), eq. 6-8 and figure 5.
    """
    chosen, negatives = _positive_scores(scores, positive)
    correction = _corrected_negatives(negatives, _mean_positive(chosen, extra), eta, gamma_sq)
    bounded = torch.where(correction.floored, correction.floor, correction.estimate)
    return F.softplus(bounded - chosen)


def debiased_floored(
    scores: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    extra: Tensor | None = None,
    positive: Tensor | None = None,
) -> Tensor:
    """Tell for which anchors the floor of :func:`debiased` holds; its arguments.

    Returns:
        [A], boolean; its mean is worth logging, since a floored anchor learns from no negative.
    """
    chosen, negatives = _positive_scores(scores.detach(), positive)
    extra = None if extra is None else extra.detach()
    return _corrected_negatives(negatives, _mean_positive(chosen, extra), eta, gamma_sq).floored


def _mean_positive(chosen: Tensor, extra: Tensor | None) -> Tensor:
    """``log`` of the mean of ``e^score`` over the extra positives, or the positive itself."""
    if extra is None:
        return chosen
    if extra.ndim != 2 or extra.shape[0] != chosen.shape[0] or extra.shape[1] == 0:
        raise ValueError(f"extra must be [{chosen.shape[0]}, M], got shape {tuple(extra.shape)}")
    return torch.logsumexp(extra, dim=1) - torch.log(extra.new_tensor(extra.shape[1]))
