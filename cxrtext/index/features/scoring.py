"""What an index keeps of an image's regions, and the model's exact scores of them.

Regions are packed (see :mod:`cxrtext.models.regions`); scores need not keep or compute every bag.
"""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.features.bounds import sketch
from cxrtext.index.features.language import Language
from cxrtext.models import ImageTextModel
from cxrtext.models.regions import pack, unpack
from cxrtext.models.similarity import LinearQuery, lse, region_scores

PIECE_BYTES = 4 * 2**20
"""Regions in float32 to work on at once.  With what is computed from them they fit a processor's
cache; larger pieces wait for memory (up to twenty times as long on two cores)."""


def images_a_piece(N: int, D: int) -> int:
    """How many images with N regions of D numbers to work on at once."""
    return max(1, PIECE_BYTES // (4 * N * D))


@torch.inference_mode()
def packed_scores(model: ImageTextModel, packed: NDArray[Any], texts: Tensor) -> Tensor:
    """:func:`exact_scores` of packed regions, rows of a vector file."""
    step = images_a_piece(packed.shape[1], model.spec.dimension)
    parts = [
        exact_scores(model, unpack(packed[start : start + step]), texts)
        for start in range(0, len(packed), step)
    ]
    return torch.cat(parts, dim=1) if parts else torch.empty(len(texts), 0)


@torch.inference_mode()
def exact_scores(model: ImageTextModel, regions: Tensor, texts: Tensor) -> Tensor:
    """Scores of sentences with images, the same as ``model.scores``.

    With ``q = W r`` the similarity of two regions is ``r_nᵀ (WᵀW) r_c``.  So an image needs one
    product with WᵀW per sentence, where the queries of all regions would need one per region.

    Unpacked regions [B, N, D] and unit vectors [S, D] give [S, B], on the CPU.
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


def mean_region(regions: Tensor) -> Tensor:
    """The normalized mean of regions, [B, N, D] -> [B, D]."""
    return F.normalize(regions.mean(dim=1), dim=-1)


def image_rows(
    model: ImageTextModel, packed: NDArray[Any], language: Language
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    """Rows for every vector file of images, and the unpacked regions [B, N, D], from packed ones.

    Everything is derived from the packed regions, not from the computed ones, so that deriving it
    again gives the same, and bounds hold for what is scored.
    """
    step = images_a_piece(packed.shape[1], model.spec.dimension)
    parts = [
        _image_rows(model, packed[start : start + step], language)
        for start in range(0, len(packed), step)
    ]
    rows = {name: np.concatenate([part[name] for part, _ in parts]) for name in parts[0][0]}
    return rows, torch.cat([regions for _, regions in parts])


@torch.inference_mode()
def _image_rows(
    model: ImageTextModel, packed: NDArray[Any], language: Language
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    regions, texts = unpack(packed), language.inducing.to(model.device)
    there = regions.to(model.device)
    if model.spec.aggregator in ("nl", "lse+nl"):
        bags = model.bags(there).cpu()
        profiles = model.scores_of_bags(there, bags.to(model.device), texts)
    else:
        bags = torch.zeros_like(regions)
        profiles = model.scores(there, texts)
    sketches = [sketch(part, language.basis) for part in (regions, bags)]
    rows = {
        "regions": packed,
        "sketch": torch.stack(sketches, dim=1).numpy(),
        "profiles": profiles.T.cpu().half().numpy(),
        "means": mean_region(regions).numpy(),
    }
    return rows, regions


def packed_rows(
    model: ImageTextModel, regions: Tensor, language: Language, storage: str
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    """:func:`image_rows` of regions [B, N, D] fresh from the model."""
    return image_rows(model, pack(regions, storage), language)
