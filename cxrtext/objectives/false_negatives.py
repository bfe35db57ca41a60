"""InfoNCE after negatives that look like positives were removed, thinned out or weighted down."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives.contrastive import info_nce
from cxrtext.objectives.rows import (
    first_row,
    log_sum,
    log_weights,
    positive_columns,
    split_rows,
    without,
)


def same_labels(labels: Tensor, others: Tensor | None = None) -> Tensor:
    """Tell whose label sets meet; an empty set meets none, not even itself.

    Args:
        labels: [n, F]; 1 where a label holds.  All else (0, uncertain −1, blank NaN) does not.
        others: [m, F]; by default ``labels`` again.

    Returns:
        [n, m], boolean.

    Raises:
        ValueError: The shapes do not fit.

    Source: Wang et al. 2023 (sample-specific debiasing), table 1 (remove by labels).
    """
    others = labels if others is None else others
    if labels.ndim != 2 or others.ndim != 2 or labels.shape[1] != others.shape[1]:
        raise ValueError(
            f"labels must be [n, F] and [m, F], got {tuple(labels.shape)} and {tuple(others.shape)}"
        )
    # A sum of ones is above 0 in any precision, so autocast does no harm here.
    return (labels == 1).float() @ (others == 1).float().T > 0


def remove_by_text(similarity: Tensor, threshold: float) -> Tensor:
    """Tell which candidates' texts are too near the anchor's.

    Args:
        similarity: [A, C], cosines of the anchors' and the candidates' texts.
        threshold: Cosine above which a negative is removed, in [−1, 1].

    Returns:
        [A, C], boolean, for :func:`remove_negatives`.

    Raises:
        ValueError: The threshold lies outside its range, or a similarity is NaN.

    Source: Wang et al. 2023 (sample-specific debiasing), table 1 (remove by text similarity).
    """
    if not -1 <= threshold <= 1:
        raise ValueError(f"threshold must lie in [-1, 1], got {threshold}")
    _check_finite(similarity)
    return similarity > threshold


def remove_negatives(scores: Tensor, same: Tensor, positive: Tensor | None = None) -> Tensor:
    """InfoNCE without the negatives that ``same`` marks.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        same: [A, C], boolean, from :func:`same_labels` or :func:`remove_by_text`; the entry of the
            positive itself is not read.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats; 0 for a row of which every negative was removed.

    Raises:
        ValueError: The shapes do not fit, or a positive is −inf.

    Source: Wang et al. 2023 (sample-specific debiasing), table 1.
    """
    return info_nce(without(scores, same, positive), positive)


def resample_negatives(
    scores: Tensor,
    similarity: Tensor,
    keep: int,
    beta: float,
    generator: torch.Generator,
    positive: Tensor | None = None,
) -> Tensor:
    """InfoNCE on negatives drawn without replacement, probability ``∝ e^{−β·cos}``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        similarity: [A, C], cosines of the anchors' and the candidates' texts.
        keep: R, how many negatives a row keeps; a row that has fewer keeps all.
        beta: β, at least 0; 0 draws uniformly.
        generator: Draws the negatives; on any device.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, keep is below 1, β below 0, or a similarity NaN.

    Source: Wang et al. 2023 (sample-specific debiasing), table 1; β and R are METHOD section 4's.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    column = positive_columns(scores, positive)[:, None]
    logits = _repulsion(scores, similarity, beta)
    uniform = torch.rand(scores.shape, generator=generator, device=generator.device)
    # The largest of logits + Gumbel noise are a draw without replacement ∝ e^logits.
    noise = -torch.log(-torch.log(uniform.clamp(min=1e-30, max=1 - 1e-7)))
    keys = logits + noise.to(logits.device)
    keys = keys.masked_fill(torch.isneginf(scores), -torch.inf).scatter(1, column, -torch.inf)
    kept = keys.topk(min(keep, keys.shape[1]), dim=1).indices
    dropped = torch.ones_like(scores, dtype=torch.bool).scatter(1, kept, value=False)
    return remove_negatives(scores, dropped, positive)


def reweight_negatives(
    scores: Tensor, similarity: Tensor, beta: float, positive: Tensor | None = None
) -> Tensor:
    """InfoNCE with negatives weighted ``∝ e^{−β·cos}``, the weights of a row having mean 1.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        similarity: [A, C], cosines of the anchors' and the candidates' texts; no gradient reaches
            them.
        beta: β, at least 0; 0 is InfoNCE.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, β is below 0, or a similarity is NaN.

    Source: Wang et al. 2023 (sample-specific debiasing), table 1; weights are METHOD section 4's.
    """
    negatives = split_rows(scores, positive).negatives
    logits = _repulsion(scores, similarity, beta).to(negatives.dtype)
    return F.softplus(log_sum(negatives + log_weights(logits, ~torch.isneginf(negatives))))


def _repulsion(scores: Tensor, similarity: Tensor, beta: float) -> Tensor:
    """``−β·cos``, at least in float32."""
    if similarity.shape != scores.shape:
        raise ValueError(
            f"similarity must be {tuple(scores.shape)}, got shape {tuple(similarity.shape)}"
        )
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be at least 0 and finite, got {beta}")
    _check_finite(similarity)
    return -beta * similarity.detach().to(torch.promote_types(similarity.dtype, torch.float32))


def _check_finite(similarity: Tensor) -> None:
    bad = ~torch.isfinite(similarity)
    if bool(bad.any()):
        raise ValueError(f"similarity is not finite in row {first_row(bad)}")
