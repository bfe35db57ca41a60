"""What an index derives from the regions of an image, and how it is read back."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.prototypes import mean_region, prototypes
from cxrtext.index.quantised import pack, pooled, unpack
from cxrtext.index.sketch import sketch
from cxrtext.models import ImageTextModel


@torch.inference_mode()
def image_rows(
    model: ImageTextModel, packed: NDArray[Any], basis: Tensor
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    """Rows of every vector file of images, from regions as they are kept.

    Everything is derived from the kept regions, not from the computed ones, so that it is the
    same whenever it is derived again, and bounds hold for what is scored.

    Args:
        model: The model.
        packed: Rows of regions, from :func:`cxrtext.index.quantised.pack`.
        basis: [D, m], of the sketches.

    Returns:
        The rows by file, and the kept regions, [B, N, D].
    """
    regions = unpack(packed)
    if model.spec.aggregator in ("nl", "lse+nl"):
        bags = model.bags(regions.to(model.device)).cpu()
    else:
        bags = torch.zeros_like(regions)
    both = torch.stack([sketch(regions, basis), sketch(bags, basis)], dim=1)
    rows = {
        "regions": packed,
        "sketch": both.numpy(),
        "prototypes": prototypes(regions).half().numpy(),
        "means": mean_region(regions).numpy(),
    }
    return rows, regions


def packed_rows(
    model: ImageTextModel, regions: Tensor, basis: Tensor, storage: str, pool: int = 1
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    """:func:`image_rows` of regions [B, N, D] fresh from the model."""
    return image_rows(model, pack(pooled(regions, pool), storage), basis)
