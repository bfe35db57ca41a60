"""What an index derives from the regions of an image, and how it is read back."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.language import Language
from cxrtext.index.means import mean_region
from cxrtext.index.quantised import pack, pooled, unpack
from cxrtext.index.scoring import images_a_piece
from cxrtext.index.sketch import sketch
from cxrtext.models import ImageTextModel


def image_rows(
    model: ImageTextModel, packed: NDArray[Any], language: Language
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    """Rows of every vector file of images, from regions as they are kept.

    Everything is derived from the kept regions, not from the computed ones, so that it is the
    same whenever it is derived again, and bounds hold for what is scored.

    Args:
        model: The model.
        packed: Rows of regions, at least one, from :func:`cxrtext.models.quantised.pack`.
        language: What sketches and profiles are made by.

    Returns:
        The rows by file, and the kept regions, [B, N, D].
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
    regions = unpack(packed)
    if model.spec.aggregator in ("nl", "lse+nl"):
        bags = model.bags(regions.to(model.device)).cpu()
    else:
        bags = torch.zeros_like(regions)
    sketches = [sketch(part, language.basis) for part in (regions, bags)]
    rows = {
        "regions": packed,
        "sketch": torch.stack(sketches, dim=1).numpy(),
        "profiles": _profiles(model, regions, bags, language.landmarks).half().numpy(),
        "means": mean_region(regions).numpy(),
    }
    return rows, regions


def packed_rows(
    model: ImageTextModel, regions: Tensor, language: Language, storage: str, pool: int = 1
) -> tuple[dict[str, NDArray[Any]], Tensor]:
    """:func:`image_rows` of regions [B, N, D] fresh from the model."""
    return image_rows(model, pack(pooled(regions, pool), storage), language)


def _profiles(model: ImageTextModel, regions: Tensor, bags: Tensor, landmarks: Tensor) -> Tensor:
    """The model's scores at the landmarks, [B, n]."""
    texts, device = landmarks.to(model.device), model.device
    if model.spec.aggregator in ("nl", "lse+nl"):
        return model.scores_of_bags(regions.to(device), bags.to(device), texts).T.cpu()
    return model.scores(regions.to(device), texts).T.cpu()
