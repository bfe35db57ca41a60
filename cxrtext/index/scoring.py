"""The model's own scores of kept regions, without keeping or computing every bag."""

import math
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.models import ImageTextModel
from cxrtext.models.quantised import unpack
from cxrtext.models.similarity import region_scores
from cxrtext.models.similarity_query import LinearQuery
from cxrtext.models.similarity_regions import lse

PIECE_BYTES = 4 * 2**20
"""Regions in float32 that are worked on at once: with what is computed from them they stay in a
processor's cache, where larger pieces wait for memory (up to twenty times as long on two cores)."""


def images_a_piece(N: int, D: int) -> int:
    """Images of N regions in D numbers that are worked on at once."""
    return max(1, PIECE_BYTES // (4 * N * D))


@torch.inference_mode()
def packed_scores(model: ImageTextModel, packed: NDArray[Any], texts: Tensor) -> Tensor:
    """:func:`exact_scores` of regions as they are kept, rows of a vector file."""
    step = images_a_piece(packed.shape[1], model.spec.dimension)
    parts = [
        exact_scores(model, unpack(packed[start : start + step]), texts)
        for start in range(0, len(packed), step)
    ]
    return torch.cat(parts, dim=1) if parts else torch.empty(len(texts), 0)


@torch.inference_mode()
def exact_scores(model: ImageTextModel, regions: Tensor, texts: Tensor) -> Tensor:
    """Scores of sentences with images, as ``model.scores`` gives them.

    With ``q = W r`` the likeness of two regions is ``r_nᵀ (WᵀW) r_c``, so that an image needs one
    product with WᵀW a sentence where the queries of all regions would take one a region.

    Args:
        model: The model.
        regions: [B, N, D], as they are kept.
        texts: [S, D], unit vectors.

    Returns:
        [S, B], on the CPU.
    """
    regions, texts = regions.to(model.device), texts.to(model.device).float()
    N = regions.shape[1]
    bagged = model.spec.aggregator in ("nl", "lse+nl")
    linear = model.query is None or isinstance(model.query, LinearQuery)
    if not bagged or not linear or len(texts) >= N // 2:
        return model.scores(regions, texts).cpu()
    scores = region_scores(regions, texts)  # [S, B, N]
    critical = scores.argmax(dim=-1).T  # [B, S]
    chosen = regions.gather(1, critical[..., None].expand(-1, -1, regions.shape[-1]))
    if isinstance(model.query, LinearQuery):
        chosen = chosen @ (model.query.weight.T @ model.query.weight)
    weights = (chosen @ regions.mT / math.sqrt(chosen.shape[-1])).softmax(dim=-1)  # [B, S, N]
    bags = weights @ regions  # [B, S, D]
    non_local: Tensor = (bags * texts).sum(dim=-1).T
    non_local = non_local / bags.norm(dim=-1).T.clamp_min(1e-12)
    if model.spec.aggregator == "lse+nl":
        non_local = (lse(scores, model.spec.lam) + non_local) / 2
    return non_local.cpu()
