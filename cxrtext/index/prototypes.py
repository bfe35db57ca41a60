"""A few vectors an image that stand for its regions when candidates are looked for."""

import torch
import torch.nn.functional as F
from torch import Tensor

PROTOTYPES = 5
"""Vectors an image: the mean region and four cluster centres."""


def mean_region(regions: Tensor) -> Tensor:
    """The normalised mean of regions, [B, N, D] -> [B, D]."""
    return F.normalize(regions.mean(dim=1), dim=-1)


def prototypes(regions: Tensor, count: int = PROTOTYPES, rounds: int = 4) -> Tensor:
    """The mean region, and centres of a spherical k-means over the regions of each image.

    The first centre is the region farthest from the mean, each further one the region farthest
    from those before it, so the result is determined by the regions.

    Args:
        regions: [B, N, D], unit vectors.
        count: Vectors an image, at least 2.
        rounds: Rounds of k-means.

    Returns:
        [B, count, D], unit vectors; the mean first.
    """
    mean = mean_region(regions)
    nearest = torch.einsum("bnd,bd->bn", regions, mean)
    chosen = []
    for _ in range(count - 1):
        farthest = nearest.argmin(dim=1)  # [B]
        centre = regions[torch.arange(len(regions)), farthest]
        chosen.append(centre)
        nearest = torch.maximum(nearest, torch.einsum("bnd,bd->bn", regions, centre))
    centres = torch.stack(chosen, dim=1)  # [B, count - 1, D]
    for _ in range(rounds):
        owner = (regions @ centres.mT).argmax(dim=-1)  # [B, N]
        member = F.one_hot(owner, count - 1).to(regions.dtype)
        sums = member.mT @ regions
        centres = torch.where(member.sum(dim=1)[..., None] > 0, F.normalize(sums, dim=-1), centres)
    return torch.cat([mean[:, None], centres], dim=1)
