"""Bounds of a score from a few numbers per region, which prove what need not be scored.

The sentences of an archive span few directions.  With A [D, m] an orthonormal basis of these, a
region–sentence score is ``⟨r, t⟩ = ⟨Aᵀr, Aᵀt⟩ + ⟨r⊥, t⊥⟩``.  The last part is at most
``‖r⊥‖ ‖t⊥‖``, which is small for a sentence like those indexed.  The sketch of a region, or of a
bag, is ``Aᵀr`` and ``‖r⊥‖``.  It gives an interval for every region score, and so for the soft
maximum, which grows with each of its terms, for the regions that can be the critical one, and for
the score of the bag.  A sentence unlike those indexed has wide bounds: they still hold, but more
images are scored.
"""

import math

import torch
from torch import Tensor

MAX_DIRECTIONS = 16
RESIDUAL = 0.02  # mean ‖t⊥‖ of the sentences at which no more directions are taken

SLACK = 1e-3
"""The error of float16 in a sketch of unit vectors (2⁻¹¹), doubled for sums in float32."""


def sentence_basis(sentences: Tensor, most: int = MAX_DIRECTIONS) -> Tensor:
    """Orthonormal directions [D, m] that S ≥ 1 sentences [S, D] span, most important first."""
    directions: Tensor = torch.linalg.svd(sentences.double(), full_matrices=False).Vh
    basis = directions[:most].T.contiguous()
    for m in range(1, basis.shape[1]):
        if float(residual(sentences.double(), basis[:, :m]).mean()) <= RESIDUAL:
            basis = basis[:, :m].contiguous()
            break
    return basis.float()


def residual(vectors: Tensor, basis: Tensor) -> Tensor:
    """Length of the part of vectors [..., D] outside a basis."""
    rest: Tensor = torch.linalg.vector_norm(vectors - (vectors @ basis) @ basis.T, dim=-1)
    return rest


def sketch(vectors: Tensor, basis: Tensor) -> Tensor:
    """Coordinates and rests of vectors [..., N, D], as [..., m + 1, N] in float16."""
    return torch.cat([vectors @ basis, residual(vectors, basis)[..., None]], dim=-1).mT.half()


class Bounds:
    """Bounds of the scores of sentences with images; what is the same for all images is kept.

    Args:
        texts: [S, D], unit vectors.
        basis: [D, m].
        upper: Whether they are upper bounds; else lower.
    """

    def __init__(
        self, texts: Tensor, basis: Tensor, similarity: str, lam: float, *, upper: bool
    ) -> None:
        outside = residual(texts, basis)[:, None] * 1.001  # the rest is rounded to float16, too
        self._outside = outside
        self._to_high = torch.cat([texts @ basis, outside], dim=1)[None]  # [1, S, m + 1]
        self._similarity, self._lam, self._is_upper = similarity, lam, upper

    def __call__(self, sketches: Tensor) -> Tensor:
        """Bounds [S, B] from sketches [B, 2, m + 1, N] of the regions and of their bags."""
        high, low = self._ends(sketches[:, 0])
        mine = high if self._is_upper else low
        parts: list[Tensor] = []
        if self._similarity in ("lse", "lse+nl"):
            soft = torch.logsumexp(mine * self._lam, dim=-1) - math.log(mine.shape[-1])
            parts.append(soft / self._lam)
        if self._similarity == "max":
            parts.append(mine.amax(dim=-1))
        if self._similarity in ("nl", "lse+nl"):
            never = high < low.amax(dim=-1, keepdim=True) - 2 * SLACK
            parts.append(self._of_bags(sketches[:, 1], never))
        mean = parts[0] if len(parts) == 1 else (parts[0] + parts[1]) / 2
        return mean.T + (SLACK if self._is_upper else -SLACK)

    def _ends(self, sketches: Tensor) -> tuple[Tensor, Tensor]:
        """Upper and lower ends [B, S, N] of the scores of vectors, without the slack.

        The rests are the last row of [B, m + 1, N], so the lower ends need no second product.
        """
        high = torch.bmm(self._to_high.expand(len(sketches), -1, -1), sketches)
        return high, torch.addcmul(high, self._outside, sketches[:, -1:], value=-2)

    def _of_bags(self, sketches: Tensor, never: Tensor) -> Tensor:
        """The end [B, S] of the scores of bags, except those whose region is never critical."""
        high, low = self._ends(sketches)
        if self._is_upper:
            return high.masked_fill_(never, -math.inf).amax(dim=-1)
        return low.masked_fill_(never, math.inf).amin(dim=-1)
