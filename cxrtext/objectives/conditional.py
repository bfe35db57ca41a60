"""Contrast with metadata: y-Aware InfoNCE, conditional alignment and conditional uniformity.

N is the number of candidates of a row, the positive included, and ``w_i`` is the row of the
kernel's Gram matrix that belongs to the anchor's positive.
"""

import math

import torch
from torch import Tensor

from cxrtext.objectives.rows import first_row, full_precision, positive_columns, surprisal


def y_aware(scores: Tensor, kernel: Tensor, positive: Tensor | None = None) -> Tensor:
    """y-Aware InfoNCE, ``−(1/N) Σ_k (w_ik/Ẑ_i) log( e^{s_ik} / ((1/N) Σ_j e^{s_ij}) )``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        kernel: [C, C], a Gram matrix of the candidates' metadata, from ``kernels``.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats; it can be below 0.

    Raises:
        ValueError: The shapes do not fit, the kernel has a NaN, or a row's weights sum to 0 or
            less.

    Source: Dufumier et al. 2021 (conditional alignment and uniformity), eq. 1.
    """
    weights, scores = _rows(scores, kernel, positive)
    shares = _shares(weights).to(scores.dtype)
    count = (~torch.isneginf(scores)).sum(dim=1).to(scores.dtype)
    return (shares * surprisal(scores)).sum(dim=1) - count.log()


def conditional_alignment(scores: Tensor, kernel: Tensor, positive: Tensor | None = None) -> Tensor:
    """Conditional alignment, ``−(1/N) Σ_k (w_ik/Ẑ_i) s_ik``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        kernel: [C, C], a Gram matrix of the candidates' metadata, from ``kernels``.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor.

    Raises:
        ValueError: The shapes do not fit, the kernel has a NaN, or a row's weights sum to 0 or
            less.

    Source: Dufumier et al. 2021 (conditional alignment and uniformity), eq. 2.
    """
    weights, scores = _rows(scores, kernel, positive)
    known = torch.where(torch.isneginf(scores), 0.0, scores)
    return -(_shares(weights).to(scores.dtype) * known).sum(dim=1)


def conditional_uniformity(
    scores: Tensor, kernel: Tensor, supremum: float = 1.0, positive: Tensor | None = None
) -> Tensor:
    """Conditional uniformity, ``log (1/N²) Σ_ij ((‖w‖∞ − w_ij)/(‖w‖∞ − Ẑ_i)) e^{s_ij}``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        kernel: [C, C], a Gram matrix of the candidates' metadata, from ``kernels``.
        supremum: ‖w‖∞, the largest value that the kernel can take: 1 for RBF, Laplacian, cosine, δ
            and their products.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        A scalar, in nats.

    Raises:
        ValueError: The shapes do not fit, the kernel has a NaN or a value above the supremum, or
            all candidates of a row are as like the anchor as can be, so that none is repelled.

    Source: Dufumier et al. 2021 (conditional alignment and uniformity), eq. 4.
    """
    weights, scores = _rows(scores, kernel, positive)
    if not 0 < supremum < math.inf:
        raise ValueError(f"supremum must be above 0 and finite, got {supremum}")
    above = weights > supremum * (1 + 1e-5)
    if bool(above.any()):
        row = first_row(above)
        raise ValueError(
            f"the kernel of anchor {row} reaches {float(weights[row].max()):.6g}, above the "
            f"supremum {supremum}; pass supremum= of this kernel"
        )
    present = ~torch.isneginf(scores)
    count = present.sum(dim=1).to(weights.dtype)
    room = supremum - weights.sum(dim=1) / count
    full = ~(room > 1e-6 * supremum)
    if bool(full.any()):
        raise ValueError(
            f"all candidates of anchor {first_row(full)} have its metadata (the mean kernel is the "
            "supremum), so that none can be repelled; use larger batches or a narrower kernel"
        )
    # Cosines may exceed 1 by rounding: such a pair is not repelled.
    repulsion = torch.where(present, (supremum - weights).clamp(min=0.0), 0.0).log()
    logits = scores + (repulsion - (room * count).log()[:, None]).to(scores.dtype)
    return torch.logsumexp(logits.flatten(), dim=0) - math.log(len(scores))


def gram_rows(scores: Tensor, kernel: Tensor, positive: Tensor | None) -> Tensor:
    """The Gram matrix's rows of the anchors' positives, [A, C], without gradient, in float64.

    Raises:
        ValueError: The shapes do not fit, or the kernel is not finite.
    """
    columns = positive_columns(scores, positive)
    candidates = scores.shape[1]
    if kernel.shape != (candidates, candidates):
        raise ValueError(
            f"kernel must be [{candidates}, {candidates}], one row and column a candidate, got "
            f"shape {tuple(kernel.shape)}"
        )
    bad = ~torch.isfinite(kernel)
    if bool(bad.any()):
        raise ValueError(
            f"kernel is not finite in row {first_row(bad)}; leave out candidates with missing "
            "metadata, or fill them"
        )
    return kernel.detach().double()[columns]


def _rows(scores: Tensor, kernel: Tensor, positive: Tensor | None) -> tuple[Tensor, Tensor]:
    """The weights [A, C], 0 where there is no candidate, and the scores."""
    weights = gram_rows(scores, kernel, positive)
    scores = full_precision(scores, "scores")
    return weights.masked_fill(torch.isneginf(scores), 0.0), scores


def _shares(weights: Tensor) -> Tensor:
    """``w_ik / (N Ẑ_i)``, rows that sum to 1."""
    total = weights.sum(dim=1, keepdim=True)
    bad = ~(total > 0)
    if bool(bad.any()):
        raise ValueError(
            f"the kernel's weights of anchor {first_row(bad)} do not sum to more than 0"
        )
    return weights / total
