"""Alignment and uniformity on the unit sphere, directly."""

import math

import torch
from torch import Tensor

from cxrtext.objectives.rows import full_precision


def alignment_uniformity(
    x: Tensor, y: Tensor, alpha: float = 2.0, t: float = 2.0, weight: float = 1.0
) -> Tensor:
    """``E‖x − y‖^α + λ log E e^{−t‖x − x'‖²}``.

    Uniformity is the mean of that of x and that of y, each over pairs of distinct rows.

    Args:
        x: [B, D], unit vectors.
        y: [B, D], unit vectors: the positives of x, row by row.
        alpha: α, above 0.
        t: The uniformity's t, above 0.
        weight: λ, the weight of uniformity.

    Returns:
        A scalar.

    Raises:
        ValueError: The shapes do not fit, there are fewer than two rows, or alpha or t is not
            above 0.

    Source: Wang and Isola 2020 (alignment and uniformity), section 4.
    """
    if x.ndim != 2 or x.shape != y.shape or len(x) < 2:
        raise ValueError(
            f"x and y must be [B, D] alike, with B at least 2, got {tuple(x.shape)} and "
            f"{tuple(y.shape)}"
        )
    if not (0 < alpha < math.inf and 0 < t < math.inf):
        raise ValueError(f"alpha and t must be above 0 and finite, got {alpha} and {t}")
    x, y = full_precision(x, "x"), full_precision(y, "y")
    alignment: Tensor = (x - y).norm(dim=1).pow(alpha).mean()
    return alignment + weight * (_uniformity(x, t) + _uniformity(y, t)) / 2


def _uniformity(x: Tensor, t: float) -> Tensor:
    # ‖x‖² + ‖x'‖² − 2⟨x, x'⟩ errs by 1e-7 for near vectors, which e^{−t‖x − x'‖²} does not feel.
    with torch.autocast(x.device.type, enabled=False):
        products = x @ x.T
    norms = products.diagonal()
    logits = -t * (norms[:, None] + norms - 2 * products)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    pairs = len(x) * (len(x) - 1)
    return torch.logsumexp(logits.masked_fill(itself, -torch.inf).flatten(), 0) - math.log(pairs)
