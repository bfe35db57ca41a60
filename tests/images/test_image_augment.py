"""Views of images in training: windows, gray values."""

import pytest
import torch
from torch import Tensor

from cxrtext.images.augment import (
    Views,
    augment,
    change_gray,
    draw_views,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(count: int = 4, channels: int = 3, size: int = 12, seed: int = 0) -> Tensor:
    shape = (count, channels, size, size)
    return torch.randint(256, shape, generator=seeded(seed), dtype=torch.uint8)


def views(count: int, *, shift: float = 0.0) -> Views:
    values = (0, 0, shift, 0.0)
    return Views(*(torch.full((count,), value) for value in values))


def test_gray_values_change_by_image_and_are_clipped() -> None:
    drawn = draw_views(4, 3, 3, seeded(), brightness=0.1)
    changed = change_gray(torch.full((4, 1, 3, 3), 0.5), drawn)
    assert torch.allclose(changed[:, 0, 0, 0], 0.5 + drawn.brightness)
    assert drawn.brightness.abs().max() <= 0.1
    assert changed[:, 0, 0, 0].unique().numel() == 4
    assert augment(pictures(4, 1, 3), views(4, shift=0.9), 3).max() <= 1.0
    same = augment(pictures(4, 1, 3), views(4), 3)
    assert torch.allclose(same, pictures(4, 1, 3) / 255.0, atol=1e-6)


def check_both_sides(amounts: Tensor, most: float) -> None:
    assert -most <= amounts.min() < -0.99 * most
    assert 0.99 * most < amounts.max() <= most
    assert abs(float(amounts.mean())) < 0.04 * most


def test_amounts_go_to_both_sides_and_windows_everywhere() -> None:
    drawn = draw_views(4000, 11, 8, seeded(), brightness=0.2, contrast=0.3)
    largest = {"brightness": 0.2, "contrast": 0.3}
    for name, most in largest.items():
        check_both_sides(getattr(drawn, name), most)
    for places in (drawn.top, drawn.left):
        assert torch.bincount(places, minlength=4).tolist() == pytest.approx([1000] * 4, abs=120)


def test_part_of_a_batch_is_seen_as_in_the_whole() -> None:
    images = pictures(6, 1, 20)
    drawn = draw_views(6, 20, 16, seeded(2), contrast=0.2)
    whole = augment(images, drawn, 16)
    assert torch.equal(augment(images[2:4], drawn[2:4], 16), whole[2:4])
