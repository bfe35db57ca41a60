"""Region–sentence scores, and their soft maximum."""

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def region_scores(regions: Tensor, texts: Tensor) -> Tensor:
    """Score every region against every sentence.

    Args:
        regions: [B, N, D].
        texts: [S, D].

    Returns:
        [S, B, N], the grounding maps, in [−1, 1].
    """
    B, N, D = regions.shape
    with without_autocast(regions):
        products = full_precision(texts) @ full_precision(regions).reshape(B * N, D).T
        return products.view(len(texts), B, N)


def lse(region_scores: Tensor, lam: float) -> Tensor:
    """Soft maximum over regions, ``(1/λ) log( (1/N) Σ_n exp(λ h_n) )``.

    Args:
        region_scores: [..., N].
        lam: λ, above 0; large is nearer the maximum, small nearer the mean.

    Returns:
        [...], between the mean and the maximum of the regions.

    Raises:
        ValueError: ``lam`` is not above 0.

    Source: METHOD section 3.
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
