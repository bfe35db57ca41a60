"""Regions as an index keeps them: packed (see :mod:`cxrtext.models.quantised`), pooled or not."""

import math

import torch.nn.functional as F
from torch import Tensor

from cxrtext.models.quantised import STORAGES, pack, unpack

__all__ = ["STORAGES", "pack", "pooled", "unpack"]


def pooled(regions: Tensor, pool: int) -> Tensor:
    """Regions [B, N, D] of a square grid, each block of ``pool`` × ``pool`` as one unit vector.

    The last row and column of blocks are smaller where the side is no multiple of ``pool``.
    """
    if pool == 1:
        return regions
    B, N, D = regions.shape
    side = math.isqrt(N)
    grid = regions.reshape(B, side, side, D).permute(0, 3, 1, 2)
    means = F.avg_pool2d(grid, pool, ceil_mode=True)
    return F.normalize(means.flatten(2).mT, dim=-1)
