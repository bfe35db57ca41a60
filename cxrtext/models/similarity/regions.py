"""Region–sentence scores, their soft maximum, and score matrices in tiles.

Tiles keep the memory of a score matrix [S, B] from growing with S · B · N.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

PLAIN_BYTES = 32 * 2**20
"""Largest [S, B, N] of region scores that autograd may keep between forward and backward; above it
scores are computed in tiles, and once more in the backward pass."""

TILE_BYTES = 4 * 2**20
"""Size of one tile's region scores on a CPU: they stay in its cache."""
DEVICE_TILE_BYTES = 64 * 2**20
"""The same on other devices, where few large products are better than many small ones."""
Score = Callable[..., Tensor]
"""Takes tensors of images [b, N, ...] and texts [s, D], and gives [s, b]."""


def region_scores(regions: Tensor, texts: Tensor) -> Tensor:
    """Score every region against every sentence: the grounding maps [S, B, N], in [−1, 1]."""
    B, N, D = regions.shape
    with without_autocast(regions):
        products = full_precision(texts) @ full_precision(regions).reshape(B * N, D).T
        return products.view(len(texts), B, N)


def lse(region_scores: Tensor, lam: float) -> Tensor:
    """Soft maximum over regions, ``(1/λ) log( (1/N) Σ_n exp(λ h_n) )``.

    Of [..., N], between the mean and the maximum; λ, above 0, is nearer the maximum where large.
    """
    check_lam(lam)
    return lse_of_scaled(lam * region_scores, lam)


def lse_of_scaled(scaled: Tensor, lam: float) -> Tensor:
    """:func:`lse` of scores [..., N] that have been multiplied by λ."""
    return (torch.logsumexp(scaled, dim=-1) - math.log(scaled.shape[-1])) / lam


def check_lam(lam: float) -> None:
    """Raise ``ValueError`` unless λ is above 0."""
    if not lam > 0:
        raise ValueError(f"lam must be above 0, got {lam}")


def full_precision(tensor: Tensor) -> Tensor:
    """Bring half precision to float32, and leave float32 and float64."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def without_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off, where it is on, for the device of a tensor."""
    kind = tensor.device.type
    on = torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if on else nullcontext()


def in_tiles(score: Score, images: Sequence[Tensor], texts: Tensor) -> Tensor:
    """Apply a function of images and sentences to a tile of them at a time, where they are many.

    A score depends on its own image and its own sentence alone, so tiles change nothing but the
    memory.  It is about ``TILE_BYTES`` times a small number in forward and backward, beside the
    inputs, the scores and their gradients: where gradients are asked for, a tile keeps nothing but
    its inputs, and the backward pass computes it again.  ``images`` have one row an image, the
    first of them [B, N, D].
    """
    first = images[0]
    sentence_bytes = first.shape[1] * max(first.element_size(), 4)  # of one image's region scores
    keeps = torch.is_grad_enabled()  # the query map may learn where the embeddings do not
    tile_bytes = TILE_BYTES if first.device.type == "cpu" else DEVICE_TILE_BYTES
    if len(first) * len(texts) * sentence_bytes <= (PLAIN_BYTES if keeps else tile_bytes):
        return score(*images, texts)
    most_sentences = max(1, tile_bytes // sentence_bytes)
    most_images = max(1, most_sentences // max(1, len(texts)))
    # Splits, not slices: the gradient of a split is joined once, not added up in full size.
    groups = list(zip(*(x.split(most_images) for x in images), strict=True))
    rows = [
        torch.cat([_score_tile(score, keeps, *group, part) for group in groups], dim=1)
        for part in texts.split(most_sentences)
    ]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def _score_tile(score: Score, keeps: bool, *inputs: Tensor) -> Tensor:
    if not keeps:
        return score(*inputs)
    scores: Tensor = checkpoint(score, *inputs, use_reentrant=False)
    return scores
