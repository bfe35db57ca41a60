"""Augmentation of a batch on the device it lies on."""

import torch
from torch import Tensor


def random_crop(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Cut one window out of each image, at a place of its own.

    Args:
        images: [B, C, H, W].
        size: Side of the window, at most H and W.
        generator: Source of the places, on the CPU.

    Returns:
        [B, C, size, size].
    """
    height, width = images.shape[-2:]
    tops = torch.randint(height - size + 1, (len(images),), generator=generator).tolist()
    lefts = torch.randint(width - size + 1, (len(images),), generator=generator).tolist()
    return torch.stack(
        [
            image[:, top : top + size, left : left + size]
            for image, top, left in zip(images, tops, lefts, strict=True)
        ]
    )


def centre_crop(images: Tensor, size: int) -> Tensor:
    """Cut the middle window out of each image, [B, C, H, W] -> [B, C, size, size]."""
    top, left = ((extent - size) // 2 for extent in images.shape[-2:])
    return images[..., top : top + size, left : left + size]


def jitter(
    images: Tensor, brightness: float, contrast: float, generator: torch.Generator
) -> Tensor:
    """Change brightness and contrast of each image by a random amount of its own.

    ``(x − 1/2) · (1 + c) + 1/2 + b`` with c uniform in ±contrast and b in ±brightness.

    Args:
        images: [B, C, H, W], in [0, 1].
        brightness: Largest shift.
        contrast: Largest relative change of contrast.
        generator: Source of the amounts, on the CPU.

    Returns:
        [B, C, H, W], clipped to [0, 1].
    """
    amounts = torch.rand(2, len(images), 1, 1, 1, generator=generator).to(images.device) * 2 - 1
    return ((images - 0.5) * (1 + contrast * amounts[0]) + 0.5 + brightness * amounts[1]).clamp(
        0.0, 1.0
    )
