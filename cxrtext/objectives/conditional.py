"""Contrastive losses with a kernel of metadata, and alignment and uniformity.

N is the number of candidates in a row, with the positive, and ``w_i`` is the row of the kernel's
Gram matrix for the anchor's positive.

In CCL-K, z enters by its Gram matrix K_Z, not by sampling: with ``K_ij = e^{s_ij}`` and
``W = (K_Z + λI)^{-1} K_Z``, ``C = K W`` is what K would be if x and y were drawn independently
given z.  The system is solved, and C summed, in float64: W has entries of both signs, and ``e^200``
overflows float32.  No gradient flows through W.  ``ridge`` is λ, above 0; a score of −inf adds
nothing to any sum.

Sources: Dufumier et al. 2021 (conditional alignment and uniformity), eq. 1, 2 and 4; Wang and Isola
2020 (alignment and uniformity), section 4; Tsai et al. 2022 (CCL-K), eq. 7-9 and proposition 2.2;
the floor is ours (docs/reference/objectives.md).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives import kernels
from cxrtext.objectives.scores import (
    candidate_columns,
    first_row,
    full_precision,
    log_sum,
    positive_columns,
    rows_of,
    surprisal,
)


def y_aware(scores: Tensor, kernel: Tensor, positive: Tensor | None = None) -> Tensor:
    """y-Aware InfoNCE, ``−(1/N) Σ_k (w_ik/Ẑ_i) log( e^{s_ik} / ((1/N) Σ_j e^{s_ij}) )``.

    It may be below 0.  A row's weights must sum to more than 0.
    """
    weights = _weights(scores, kernel, positive)
    check_shares(weights)
    return y_aware_terms(scores, weights)


def y_aware_terms(scores: Tensor, weights: Tensor) -> Tensor:
    """:func:`y_aware` with weights [A, C], 0 without a candidate, unchecked."""
    scores = full_precision(scores, "scores")
    count = (~torch.isneginf(scores)).sum(dim=1).to(scores.dtype)
    return (_shares(weights, scores) * surprisal(scores)).sum(dim=1) - count.log()


def conditional_alignment(scores: Tensor, kernel: Tensor, positive: Tensor | None = None) -> Tensor:
    """Conditional alignment, ``−(1/N) Σ_k (w_ik/Ẑ_i) s_ik``, [A]."""
    weights = _weights(scores, kernel, positive)
    check_shares(weights)
    return conditional_alignment_terms(scores, weights)


def conditional_alignment_terms(scores: Tensor, weights: Tensor) -> Tensor:
    """:func:`conditional_alignment` with weights [A, C], unchecked."""
    scores = full_precision(scores, "scores")
    return -(_shares(weights, scores) * torch.where(torch.isneginf(scores), 0.0, scores)).sum(dim=1)


def conditional_uniformity(
    scores: Tensor, kernel: Tensor, supremum: float = 1.0, positive: Tensor | None = None
) -> Tensor:
    """Conditional uniformity, ``log (1/N²) Σ_ij ((‖w‖∞ − w_ij)/(‖w‖∞ − Ẑ_i)) e^{s_ij}``.

    Args:
        supremum: ‖w‖∞, the kernel's largest possible value: 1 for RBF, Laplacian, cosine, δ and
            their products.

    Returns:
        A scalar, in nats.  A row is refused if the kernel is largest for all its candidates,
        because then none can be repelled.
    """
    weights = _weights(scores, kernel, positive)
    if not 0 < supremum < math.inf:
        raise ValueError(f"supremum must be above 0 and finite, got {supremum}")
    check_repulsion(weights, (~torch.isneginf(scores)).sum(dim=1), supremum)
    return conditional_uniformity_terms(scores, weights, supremum)


def conditional_uniformity_terms(scores: Tensor, weights: Tensor, supremum: float = 1.0) -> Tensor:
    """:func:`conditional_uniformity` with weights [A, C], unchecked."""
    scores = full_precision(scores, "scores")
    present = ~torch.isneginf(scores)
    count = present.sum(dim=1).to(weights.dtype)
    room = supremum - weights.sum(dim=1) / count
    # Rounding may put cosines above 1: such a pair is not repelled.
    repulsion = torch.where(present, (supremum - weights).clamp(min=0.0), 0.0).log()
    logits = scores + (repulsion - (room * count).log()[:, None]).to(scores.dtype)
    return torch.logsumexp(logits.flatten(), dim=0) - math.log(len(scores))


def check_repulsion(weights: Tensor, candidates: Tensor | int, supremum: float = 1.0) -> None:
    """Refuse weights [A, C] above the supremum, or rows with the supremum as mean."""
    above = weights > supremum * (1 + 1e-5)
    if bool(above.any()):
        row = first_row(above)
        raise ValueError(
            f"the kernel of anchor {row} reaches {float(weights[row].max()):.6g}, above the "
            f"supremum {supremum}; pass supremum= of this kernel"
        )
    full = ~(supremum - weights.sum(dim=1) / candidates > 1e-6 * supremum)
    if bool(full.any()):
        raise ValueError(
            f"all candidates of anchor {first_row(full)} have its metadata (the mean kernel is the "
            "supremum), so that none can be repelled; use larger batches or a narrower kernel"
        )


def check_shares(weights: Tensor) -> None:
    """Refuse weights [A, C] if a row does not sum to more than 0."""
    bad = ~(weights.sum(dim=1) > 0)
    if bool(bad.any()):
        raise ValueError(
            f"the kernel's weights of anchor {first_row(bad)} do not sum to more than 0"
        )


def check_kernel(scores: Tensor, kernel: Tensor) -> None:
    """Refuse a kernel that is not [C, C] or not finite."""
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


def _weights(scores: Tensor, kernel: Tensor, positive: Tensor | None) -> Tensor:
    """Checked weights [A, C] in float64, 0 without a candidate."""
    columns = positive_columns(scores, positive)
    check_kernel(scores, kernel)
    return weights_of(kernel, columns).masked_fill(torch.isneginf(scores), 0.0)


def weights_of(kernel: Tensor, column: Tensor) -> Tensor:
    """The Gram matrix's rows for the anchors' positives, [A, C], without gradient, in float64."""
    return kernel.detach().double()[column]


def _shares(weights: Tensor, scores: Tensor) -> Tensor:
    """``w_ik / (N Ẑ_i)``; each row sums to 1."""
    return (weights / weights.sum(dim=1, keepdim=True)).to(scores.dtype)


def alignment_uniformity(
    x: Tensor, y: Tensor, alpha: float = 2.0, t: float = 2.0, weight: float = 1.0
) -> Tensor:
    """``E‖x − y‖^α + λ log E e^{−t‖x − x'‖²}``, a scalar.

    Uniformity is the mean over x and y of the uniformity of each, over pairs of distinct rows.
    Rows of x and y, [B, D], are unit vectors and each other's positives; α and t are above 0,
    ``weight`` is λ.
    """
    if x.ndim != 2 or x.shape != y.shape or len(x) < 2:
        raise ValueError(
            f"x and y must be [B, D] alike, with B at least 2, got {tuple(x.shape)} and "
            f"{tuple(y.shape)}"
        )
    if not (0 < alpha < math.inf and 0 < t < math.inf):
        raise ValueError(f"alpha and t must be above 0 and finite, got {alpha} and {t}")
    x, y = full_precision(x, "x"), full_precision(y, "y")
    alignment: Tensor = (x - y).norm(dim=1).pow(alpha).mean()
    return alignment + weight * (_uniformity(x, t) + _uniformity(y, t)) / 2


def _uniformity(x: Tensor, t: float) -> Tensor:
    # ‖x‖² + ‖x'‖² − 2⟨x, x'⟩ is off by 1e-7 for near vectors: too little to matter here.
    with torch.autocast(x.device.type, enabled=False):
        products = x @ x.T
    norms = products.diagonal()
    logits = -t * (norms[:, None] + norms - 2 * products)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    pairs = len(x) * (len(x) - 1)
    return torch.logsumexp(logits.masked_fill(itself, -torch.inf).flatten(), 0) - math.log(pairs)


LOG_FLOOR = math.log(1e-8)
"""Least ``log C_ii``."""


def cclk_weakly_supervised(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """WeaklySup-CCLK, ``−log( C_ii / (C_ii + Σ_{j≠i} K_ij) )``, eq. 7."""
    return cclk_terms(scores, *_solved(scores, kernel, ridge, positive), fair=False)[0]


def cclk_fair(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None = None
) -> Tensor:
    """Fair-CCLK, ``−log( K_ii / (K_ii + (b − 1) C_ii) )``, eq. 8; a row has b − 1 negatives."""
    return cclk_terms(scores, *_solved(scores, kernel, ridge, positive), fair=True)[0]


def cclk_hard_negative(
    scores: Tensor,
    embeddings: Tensor,
    ridge: float,
    kernel: Callable[[Tensor], Tensor] = kernels.rbf,
    positive: Tensor | None = None,
) -> Tensor:
    """HardNeg-CCLK: :func:`cclk_fair` with the anchors' own embeddings as z, eq. 9.

    Args:
        embeddings: [C, D]; row j is the embedding of the anchor paired with candidate j; for
            A = C and the diagonal, that is anchor j.  They get no gradient.
        kernel: Gives the Gram matrix of embeddings; one of ``kernels``.
    """
    return cclk_fair(scores, kernel(embeddings.detach()), ridge, positive)


def _solved(
    scores: Tensor, kernel: Tensor, ridge: float, positive: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The weights W, and the columns of the positives."""
    column = candidate_columns(scores, positive)
    check_kernel(scores, kernel)
    return conditional_weights(kernel, ridge), column


def conditional_weights(kernel: Tensor, ridge: float) -> Tensor:
    """``W = (K_Z + λI)^{-1} K_Z``, [C, C], in float64 and without gradient.

    NaN if the system has no solution, which cannot be with a positive semidefinite kernel.
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
    """A CCL-K loss with ``weights`` W, unchecked, and which anchors are floored; both [A]."""
    dtype = full_precision(scores, "scores").dtype
    rows = rows_of(scores.double(), column)
    relative = rows.negatives.scatter(1, column[:, None], 0.0)
    top = relative.detach().amax(dim=1)
    # [A, C]: W_jp for candidate j and the positive p
    total = (torch.exp(relative - top[:, None]) * weights.T[column]).sum(dim=1)
    # log of C_ii / K_ii, with its floor
    floor = LOG_FLOOR - rows.positive
    possible = total > 0
    estimate = torch.where(possible, total, 1.0).log() + top
    floored = ~torch.isnan(total) & ~(possible & (estimate > floor))
    conditional = torch.where(floored, floor, estimate)
    exponent = rows.count.log() + conditional if fair else log_sum(rows.negatives) - conditional
    return F.softplus(exponent).to(dtype), floored
