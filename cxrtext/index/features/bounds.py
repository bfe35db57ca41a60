"""Bounds of a score from a few numbers a region, which prove what need not be scored.

The sentences of an archive span few directions.  With A [D, m] an orthonormal basis of these, a
region–sentence score is ``⟨r, t⟩ = ⟨Aᵀr, Aᵀt⟩ + ⟨r⊥, t⊥⟩`` and the last part is at most
``‖r⊥‖ ‖t⊥‖``, which is small for a sentence like those indexed.  The sketch of a region is
``Aᵀr`` and ``‖r⊥‖``; so it is for each bag.  From them every region score is known within an
interval, and with it the soft maximum, which grows with each of its terms, the regions that can be
the critical one, and the score of the bag.  A sentence unlike those indexed has wide bounds: they
still hold, and only more images are scored.
"""

import math

import torch
from torch import Tensor

MAX_DIRECTIONS = 16
RESIDUAL = 0.02  # mean ‖t⊥‖ of the sentences at which no further direction is taken

SLACK = 1e-3
"""What float16 costs a sketch of unit vectors (2⁻¹¹), and as much again for sums in float32."""


def sentence_basis(sentences: Tensor, most: int = MAX_DIRECTIONS) -> Tensor:
    """Directions that sentences span, [D, m], orthonormal, by falling importance.

    Args:
        sentences: [S, D], unit vectors, S at least 1.
    """
    directions: Tensor = torch.linalg.svd(sentences.double(), full_matrices=False).Vh
    basis = directions[:most].T.contiguous()
    for m in range(1, basis.shape[1]):
        if float(residual(sentences.double(), basis[:, :m]).mean()) <= RESIDUAL:
            basis = basis[:, :m].contiguous()
            break
    return basis.float()


def residual(vectors: Tensor, basis: Tensor) -> Tensor:
    """Length of what a basis leaves of vectors [..., D]."""
    rest: Tensor = torch.linalg.vector_norm(vectors - (vectors @ basis) @ basis.T, dim=-1)
    return rest


def sketch(vectors: Tensor, basis: Tensor) -> Tensor:
    """Coordinates and rests of vectors [..., N, D], as [..., m + 1, N] in float16."""
    parts = [vectors @ basis, residual(vectors, basis)[..., None]]
    return torch.cat(parts, dim=-1).mT.half()


def bounds(
    sketches: Tensor, texts: Tensor, basis: Tensor, similarity: str, lam: float, *, upper: bool
) -> Tensor:
    """Upper or lower bounds of the scores of sentences with images, [S, B].

    Args:
        sketches: [B, 2, m + 1, N], of the regions and of their bags, in float32.
        texts: [S, D], unit vectors.
        basis: [D, m].
        upper: Whether nothing is above them; else nothing is below.
    """
    S = len(texts)
    inside = texts @ basis
    outside = residual(texts, basis)[:, None] * 1.001  # the rest is rounded to float16, too
    weights = torch.cat([torch.cat([inside, outside], 1), torch.cat([inside, -outside], 1)])
    # One product gives both ends of every region's and every bag's interval, but for the slack.
    ends = torch.matmul(weights, sketches)  # [B, 2, 2 S, N]
    high, low = ends[:, 0, :S], ends[:, 0, S:]
    mine = high if upper else low
    found: list[Tensor] = []
    if similarity in ("lse", "lse+nl"):
        soft = torch.logsumexp(mine * lam, dim=-1) - math.log(mine.shape[-1])
        found.append(soft / lam)
    if similarity == "max":
        found.append(mine.amax(dim=-1))
    if similarity in ("nl", "lse+nl"):
        critical = high >= low.amax(dim=-1, keepdim=True) - 2 * SLACK
        if upper:
            found.append(torch.where(critical, ends[:, 1, :S], -math.inf).amax(dim=-1))
        else:
            found.append(torch.where(critical, ends[:, 1, S:], math.inf).amin(dim=-1))
    mean = found[0] if len(found) == 1 else (found[0] + found[1]) / 2
    return mean.T + (SLACK if upper else -SLACK)
