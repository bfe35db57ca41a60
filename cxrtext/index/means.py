"""One vector an image, by which images are compared with each other."""

import torch.nn.functional as F
from torch import Tensor


def mean_region(regions: Tensor) -> Tensor:
    """The normalised mean of regions, [B, N, D] -> [B, D]."""
    return F.normalize(regions.mean(dim=1), dim=-1)
