"""Augment a batch on its own device.

The random amounts are drawn on the CPU (:func:`draw_views`), apart from the pixels: a step can be
repeated, and a process with a part of a batch applies its part of the draws.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Views:
    """How to crop and shade each of B images."""

    top: Tensor  # [B], first row of the window, in pixels
    left: Tensor  # [B], first column of the window
    brightness: Tensor  # [B], added to the gray values
    contrast: Tensor  # [B], relative change

    def __getitem__(self, rows: slice) -> "Views":
        return Views(*(getattr(self, name)[rows] for name in self.__slots__))


def draw_views(
    count: int,
    size: int,
    crop: int,
    generator: torch.Generator,
    *,
    brightness: float = 0.0,
    contrast: float = 0.0,
) -> Views:
    """Draw uniformly the places of a window of ``crop`` pixels a side, and the amounts."""
    places = torch.randint(size - crop + 1, (2, count), generator=generator)
    amounts = torch.rand(2, count, generator=generator) * 2 - 1
    return Views(
        top=places[0],
        left=places[1],
        brightness=amounts[0] * brightness,
        contrast=amounts[1] * contrast,
    )


def augment(images: Tensor, views: Views, crop: int) -> Tensor:
    """Cut and shade images, 8-bit [B, 1, R, R] -> float32 [B, 1, crop, crop] in [0, 1]."""
    return change_gray(crops(images, views, crop).float().div_(255.0), views)


def crops(images: Tensor, views: Views, crop: int) -> Tensor:
    """Cut one window out of each image, [B, C, H, W] -> [B, C, crop, crop]."""
    if images.device.type == "cpu":  # copying rows is faster than gathering pixels
        places = zip(images, views.top.tolist(), views.left.tolist(), strict=True)
        return torch.stack([i[:, y : y + crop, x : x + crop] for i, y, x in places])
    window = torch.arange(crop, device=images.device)
    first = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[:, None, None]
    top = views.top.to(images.device, non_blocking=True)[:, None, None, None]
    left = views.left.to(images.device, non_blocking=True)[:, None, None, None]
    return images[first, channel, top + window[:, None], left + window]


def sampled(images: Tensor, affine: list[Tensor], size: tuple[int, int]) -> Tensor:
    """Sample images bilinearly, [B, C, H, W] -> [B, C, *size], float32, in the same units.

    ``affine`` are the entries, [B] each, of the 2 x 3 map from the result to the image, in
    coordinates from −1 to 1.  Beyond its edge an image repeats the edge.
    """
    maps = torch.stack(affine, dim=-1).view(-1, 2, 3).to(images.device)
    grid = F.affine_grid(maps, [*images.shape[:2], *size], align_corners=False)
    return F.grid_sample(
        images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False
    )


def change_gray(images: Tensor, views: Views) -> Tensor:
    """Change contrast and brightness of images, [B, C, H, W] in [0, 1], in place.

    ``(x − 1/2) · (1 + c) + 1/2 + b``, clipped to [0, 1].
    """
    amounts = torch.stack([1 + views.contrast, views.brightness]).to(images.device)
    gain, shift = amounts.view(2, -1, 1, 1, 1)
    return images.sub_(0.5).mul_(gain).add_(0.5 + shift).clamp_(0.0, 1.0)


def center_crop(images: Tensor, size: int) -> Tensor:
    """Cut the middle window out of each image, [B, C, H, W] -> [B, C, size, size]."""
    top, left = ((extent - size) // 2 for extent in images.shape[-2:])
    return images[..., top : top + size, left : left + size]
