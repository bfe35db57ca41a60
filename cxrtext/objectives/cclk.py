"""Conditional contrastive learning with kernel (CCL-K): z enters by a Gram matrix, not by sampling.

``K_ij = e^{s_ij}``; ``C = K W`` with ``W = (K_Z + λI)^{-1} K_Z`` is what K would be with x and y
drawn apart given z.  The system is solved, and C summed, in float64: W has entries of both signs,
and ``e^200`` overflows float32.  No gradient flows through W.  ``kernel`` is K_Z, [C, C], a Gram
matrix of the candidates' auxiliary or sensitive information, and ``ridge`` is λ, above 0; a score
of −inf adds nothing to any sum.  ``ValueError`` is raised for a kernel that is not finite as well.

Source: Tsai et al. 2022 (CCL-K), eq. 7-9 and proposition 2.2; the floor
is ours (docs/reference/objectives.md).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives import kernels
from cxrtext.objectives.conditional import check_kernel
from cxrtext.objectives.scores import candidate_columns, full_precision, log_sum, rows_of

LOG_FLOOR = math.log(1e-8)
"""Smallest ``log C_ii``."""


def cclk_weakly_supervised(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """WeaklySup-CCLK, ``−log( C_ii / (C_ii + Σ_{j≠i} K_ij) )``, eq. 7."""
    given = _checked(scores, kernel, ridge, positive)
    return cclk_terms(scores, *given, fair=False)[0]


def cclk_fair(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """Fair-CCLK, ``−log( K_ii / (K_ii + (b − 1) C_ii) )``; b − 1 is the row's count of negatives.

    Equation 8.
    """
    given = _checked(scores, kernel, ridge, positive)
    return cclk_terms(scores, *given, fair=True)[0]


def cclk_hard_negative(
    scores: Tensor,
    embeddings: Tensor,
    ridge: float,
    kernel: Callable[[Tensor], Tensor] = kernels.rbf,
    positive: Tensor | None = None,
) -> Tensor:
    """HardNeg-CCLK: :func:`cclk_fair` with the anchors' own embeddings as z, eq. 9.

    Args:
        embeddings: [C, D], row j the embedding of the anchor that candidate j is paired with; for
            A = C and the diagonal, of anchor j.  No gradient reaches them.
        kernel: Makes a Gram matrix of embeddings, one of ``kernels``.
    """
    return cclk_fair(scores, kernel(embeddings.detach()), ridge, positive)


def _checked(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The weights of C, and the columns of the positives."""
    column = candidate_columns(scores, positive)
    check_kernel(scores, kernel)
    return conditional_weights(kernel, ridge), column


def conditional_weights(kernel: Tensor, ridge: float) -> Tensor:
    """``W = (K_Z + λI)^{-1} K_Z``, [C, C], in float64 and without gradient.

    Not a number where the system has no solution: a kernel is positive semidefinite.
    """
    if not 0 < ridge < math.inf:
        raise ValueError(f"ridge must be above 0 and finite, got {ridge}")
    gram = kernel.detach().double()
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights: Tensor = torch.linalg.solve_ex(gram + ridge * eye, gram).result
    return weights


def cclk_terms(
    scores: Tensor, weights: Tensor, column: Tensor, *, fair: bool
) -> tuple[Tensor, Tensor]:
    """A CCL-K loss with ``weights`` W, unchecked, and which anchors are floored; each [A]."""
    dtype = full_precision(scores, "scores").dtype
    rows = rows_of(scores.double(), column)
    relative = rows.negatives.scatter(1, column[:, None], 0.0)
    top = relative.detach().amax(dim=1)
    # [A, C]: W_jp for candidate j and p the positive
    total = (torch.exp(relative - top[:, None]) * weights.T[column]).sum(dim=1)
    # log of C_ii over K_ii, with its floor
    floor = LOG_FLOOR - rows.positive
    possible = total > 0
    estimate = torch.where(possible, total, 1.0).log() + top
    floored = ~torch.isnan(total) & ~(possible & (estimate > floor))
    conditional = torch.where(floored, floor, estimate)
    exponent = rows.count.log() + conditional if fair else log_sum(rows.negatives) - conditional
    return F.softplus(exponent).to(dtype), floored
