"""Regions as they are kept: in float16, or in 8 bits with a scale a region."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

STORAGES = ("float16", "int8")
LEVELS = 127

SCALE_BYTES = 2
"""Of the scale of a region that is kept in 8 bits."""


def pack(regions: Tensor, storage: str) -> NDArray[Any]:
    """Regions [B, N, D] as rows of a file.

    Args:
        regions: Unit vectors.
        storage: "float16", or "int8", which takes half the room and moves a score by about 0.001.

    Returns:
        [B, N, D] float16, or [B, N, D + 2] int8, the last two being the scale's bytes.
    """
    if storage == "float16":
        return regions.cpu().half().numpy()
    # The scale is rounded before it divides, so that both sides use the same one.
    scales = (regions.abs().amax(dim=-1, keepdim=True) / LEVELS).clamp_min(1e-6).half().cpu()
    levels = (regions.cpu() / scales.float()).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    return np.concatenate([levels.numpy(), scales.numpy().view(np.int8)], axis=-1)


def unpack(rows: NDArray[Any]) -> Tensor:
    """Regions [B, N, D] in float32, of rows that :func:`pack` gave."""
    whole = torch.from_numpy(np.array(rows))
    if rows.dtype == np.float16:
        return whole.float()
    scales = whole[..., -SCALE_BYTES:].contiguous().view(torch.float16).float()
    return whole[..., :-SCALE_BYTES].float().mul_(scales)
