"""Conditional contrastive learning with kernel (CCL-K): z enters by a Gram matrix, not by sampling.

``K_ij = e^{s_ij}``; ``C = K W`` with ``W = (K_Z + λI)^{-1} K_Z`` is what K would be with x and y
drawn apart given z.  The system is solved, and C summed, in float64: W has entries of both signs,
and ``e^200`` overflows float32.  No gradient flows through W.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives import kernels
from cxrtext.objectives.conditional import gram_rows
from cxrtext.objectives.rows import full_precision, log_sum, positive_columns, split_rows

LOG_FLOOR = math.log(1e-8)
"""Least ``log C_ii``."""


def cclk_weakly_supervised(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """WeaklySup-CCLK, ``−log( C_ii / (C_ii + Σ_{j≠i} K_ij) )``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ²; −inf adds nothing to any sum.
        kernel: [C, C], K_Z, a Gram matrix of the candidates' auxiliary information.
        ridge: λ, above 0.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, a positive is −inf, the kernel has a NaN, or the ridge
            is not above 0.

    Source: Tsai et al. 2022 (CCL-K), eq. 7 and proposition 2.2; the floor is METHOD section 4's.
    """
    given = _conditional(scores, kernel, ridge, positive)
    return F.softplus(given.negatives - given.conditional).to(given.dtype)


def cclk_fair(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """Fair-CCLK, ``−log( K_ii / (K_ii + (b − 1) C_ii) )``; b − 1 is the row's count of negatives.

    Args:
        scores: [A, C], anchors in rows, scaled by γ²; −inf adds nothing to any sum.
        kernel: [C, C], K_Z, a Gram matrix of the candidates' sensitive information.
        ridge: λ, above 0.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, a positive is −inf, the kernel has a NaN, or the ridge
            is not above 0.

    Source: Tsai et al. 2022 (CCL-K), eq. 8 and proposition 2.2; the floor is METHOD section 4's.
    """
    given = _conditional(scores, kernel, ridge, positive)
    return F.softplus(given.log_count + given.conditional).to(given.dtype)


def cclk_hard_negative(
    scores: Tensor,
    embeddings: Tensor,
    ridge: float,
    kernel: Callable[[Tensor], Tensor] = kernels.rbf,
    positive: Tensor | None = None,
) -> Tensor:
    """HardNeg-CCLK: :func:`cclk_fair` with the anchors' own embeddings as z.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        embeddings: [C, D], row j the embedding of the anchor that candidate j is paired with; for
            A = C and the diagonal, of anchor j.  No gradient reaches them.
        ridge: λ, above 0.
        kernel: Makes a Gram matrix of embeddings, one of ``kernels``.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, a positive is −inf, an embedding is NaN, or the ridge is
            not above 0.

    Source: Tsai et al. 2022 (CCL-K), eq. 9.
    """
    return cclk_fair(scores, kernel(embeddings.detach()), ridge, positive)


def cclk_floored(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """Tell for which anchors the floor of C_ii holds, in any CCL-K loss.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        kernel: [C, C], K_Z; for hard negatives, the Gram matrix of the embeddings.
        ridge: λ, above 0.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], boolean; its mean is worth logging: C_ii has no gradient there.

    Raises:
        ValueError: As the losses do.
    """
    return _conditional(scores.detach(), kernel, ridge, positive).floored


@dataclass(frozen=True, slots=True)
class _Conditional:
    """Each [A], float64: ``log`` of C_ii, of the negatives' sum and count, over K_ii; floored."""

    conditional: Tensor
    negatives: Tensor
    log_count: Tensor
    floored: Tensor
    dtype: torch.dtype


def conditional_weights(kernel: Tensor, ridge: float) -> Tensor:
    """``(K_Z + λI)^{-1} K_Z``, [C, C], in float64 and without gradient.

    Args:
        kernel: [C, C], a finite Gram matrix.
        ridge: λ, above 0.

    Raises:
        ValueError: The ridge is not above 0.
    """
    if not 0 < ridge < math.inf:
        raise ValueError(f"ridge must be above 0 and finite, got {ridge}")
    gram = kernel.detach().double()
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights: Tensor = torch.linalg.solve(gram + ridge * eye, gram)
    return weights


def _conditional(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None
) -> _Conditional:
    columns = positive_columns(scores, positive)
    gram_rows(scores, kernel, positive)  # checks the kernel
    dtype = full_precision(scores, "scores").dtype
    rows = split_rows(scores.double(), positive)
    relative = rows.negatives.scatter(1, columns[:, None], 0.0)
    weights = conditional_weights(kernel, ridge).T[columns]  # [A, C]: W_jp for j, p the positive
    top = relative.detach().amax(dim=1)
    total = (torch.exp(relative - top[:, None]) * weights).sum(dim=1)
    floor = LOG_FLOOR - rows.positive
    possible = total > 0
    estimate = torch.where(possible, total, 1.0).log() + top
    floored = ~torch.isnan(total) & ~(possible & (estimate > floor))
    return _Conditional(
        conditional=torch.where(floored, floor, estimate),
        negatives=log_sum(rows.negatives),
        log_count=rows.count.log(),
        floored=floored,
        dtype=dtype,
    )
