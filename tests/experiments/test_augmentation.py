"""Views of SimCLR, beside PIL, SciPy and colorsys."""

import colorsys

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from scipy.ndimage import gaussian_filter, map_coordinates
from torch import Tensor

from cxrtext.experiments.augmentation import (
    SimclrSpec,
    blurred,
    draw_simclr,
    jitter_colors,
    resized_crop,
    simclr,
)
from tests.images.test_image_augment import check_both_sides, pictures, seeded

STILL = SimclrSpec(scale=(1, 1), ratio=(1, 1), flip=0, jitter=0, gray=0)


def seen(images: Tensor, spec: SimclrSpec, seed: int = 0) -> Tensor:
    draws = draw_simclr(len(images), spec, seeded(seed))
    return simclr(images, draws, spec)


@pytest.mark.parametrize("channels", [1, 3])
def test_nothing_changes_where_nothing_is_asked_for(channels: int) -> None:
    images = pictures(channels=channels)
    assert torch.allclose(seen(images, STILL), images / 255, atol=1e-6)


def test_a_step_can_be_repeated_and_divided() -> None:
    images, spec = pictures(150), SimclrSpec(blur=0.5)
    draws = draw_simclr(150, spec, seeded(3))
    whole = simclr(images, draws, spec)
    assert torch.equal(whole, simclr(images, draws, spec))
    parts = [simclr(images[r], draws[r], spec) for r in (slice(0, 50), slice(50, 150))]
    assert torch.allclose(torch.cat(parts), whole, atol=1e-6)
    assert not torch.allclose(whole, seen(images, spec, seed=4), atol=1e-2)


def test_colours_are_drawn_to_both_sides() -> None:
    spec = SimclrSpec(jitter=1.0, brightness=0.8, contrast=0.6, saturation=0.4, hue=0.2)
    values = draw_simclr(4000, spec, seeded()).values
    for row, center, most in ((5, 1, 0.8), (6, 1, 0.6), (7, 1, 0.4), (8, 0, 0.2)):
        check_both_sides(values[row] - center, most)


def test_crop_and_flip_against_scipy() -> None:
    images, spec = pictures(5, size=9).float(), SimclrSpec(flip=0.5)
    windows = draw_simclr(5, spec, seeded(1)).values[:5]
    found = resized_crop(images, windows)
    assert set(windows[4].tolist()) == {-1.0, 1.0}
    centers = (np.arange(9) + 0.5) / 9
    for image, out, window in zip(images, found, windows.T.tolist(), strict=True):
        left, top, width, height, side = window
        columns, rows = (left + centers[:: int(side)] * width, top + centers * height)
        places = np.stack(np.meshgrid(rows, columns, indexing="ij")) * 9 - 0.5
        for channel, seen_as in zip(image, out, strict=True):
            expected = map_coordinates(channel.numpy(), places, order=1, mode="nearest")
            np.testing.assert_allclose(seen_as, expected, atol=1e-2)


def test_windows_are_of_the_area_and_ratio_asked_for() -> None:
    spec = SimclrSpec(scale=(0.2, 0.6), ratio=(0.5, 2.0), flip=0.3)
    left, top, width, height, side = draw_simclr(20_000, spec, seeded()).values[:5]
    assert bool((left >= 0).all() & (top >= 0).all())
    assert bool((left + width <= 1 + 1e-6).all() & (top + height <= 1 + 1e-6).all())
    area, ratio = width * height, width / height
    assert float(area.min()) >= 0.2 - 1e-5
    assert float(area.max()) <= 0.6 + 1e-5
    assert float(ratio.min()) >= 0.5 - 1e-5
    assert float(ratio.max()) <= 2 + 1e-5
    assert float((side < 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert float(ratio.log().mean()) == pytest.approx(0, abs=0.02)


def test_the_whole_image_where_no_window_fits() -> None:
    spec = SimclrSpec(scale=(1, 1), ratio=(2, 2), flip=0)
    values = draw_simclr(3, spec, torch.Generator()).values
    assert values[:4].tolist() == [[0] * 3, [0] * 3, [1] * 3, [1] * 3]


@pytest.mark.parametrize("turn", [-0.5, -0.23, 0.0, 0.07, 0.41])
def test_hue_against_colorsys(turn: float) -> None:
    images = pictures(2).float() / 255
    images[0, :, 0, 0] = 0.5  # gray has no hue
    images[0, :, 0, 1] = torch.tensor([1.0, 0.0, 0.0])
    images[0, :, 0, 2] = torch.tensor([0.3, 0.7, 0.7])
    amounts = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [turn, turn]])
    found = jitter_colors(images.clone(), amounts)
    for place in np.ndindex(2, 12, 12):
        n, y, x = place
        hue, saturation, value = colorsys.rgb_to_hsv(*images[n, :, y, x].tolist())
        expected = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
        assert found[n, :, y, x].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("factor", [0.4, 1.0, 1.6])
@pytest.mark.parametrize("part", ["Brightness", "Contrast", "Color"])
def test_brightness_contrast_and_saturation_against_pil(part: str, factor: float) -> None:
    images = pictures(3)
    row = ["Brightness", "Contrast", "Color"].index(part)
    amounts = torch.ones(4, 3)
    amounts[3] = 0
    amounts[row] = factor
    found = jitter_colors(images / 255, amounts, turn_hue=False) * 255
    for image, out in zip(images, found, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        expected = np.asarray(getattr(ImageEnhance, part)(picture).enhance(factor))
        assert np.abs(out.permute(1, 2, 0).numpy() - expected).max() <= 2  # PIL rounds


def test_grey_and_one_channel() -> None:
    images = pictures(4)
    gray = seen(images, SimclrSpec(scale=(1, 1), ratio=(1, 1), flip=0, jitter=0, gray=1))
    luma = np.asarray(Image.fromarray(images[0].permute(1, 2, 0).numpy()).convert("L"))
    assert torch.allclose(gray[:, 0], gray[:, 2])
    assert np.abs(gray[0, 0].numpy() * 255 - luma).max() <= 1
    one = images[:, :1]
    amounts = torch.tensor([[0.8], [1.3], [0.2], [0.4]]).expand(4, 4)
    colorless = amounts.clone()
    colorless[2], colorless[3] = 1, 0
    assert torch.equal(jitter_colors(one / 255, amounts), jitter_colors(one / 255, colorless))


def test_how_often_and_how_much() -> None:
    spec = SimclrSpec(jitter=0.8, brightness=0.4, hue=0.1, gray=0.2, blur=0.3)
    draws = draw_simclr(20_000, spec, seeded())
    brightness, hue, colored = draws.values[5], draws.values[8], draws.values[9]
    assert float((brightness == 1).float().mean()) == pytest.approx(0.2, abs=0.01)
    assert float((brightness - 1).abs().max()) == pytest.approx(0.4, abs=0.01)
    assert float(hue.abs().max()) == pytest.approx(0.1, abs=0.01)
    assert bool(((hue == 0) == (brightness == 1)).all())
    assert float(colored.mean()) == pytest.approx(0.8, abs=0.01)
    assert float((draws.sigma > 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(draws.sigma[draws.sigma > 0].min()) >= 0.1


def test_blur_against_scipy() -> None:
    images = pictures(3, size=7).float() / 255
    sigma = torch.tensor([0.0, 0.7, 1.5])
    found = blurred(images.clone(), sigma, 3)
    assert torch.equal(found[0], images[0])
    for image, out, s in zip(images[1:], found[1:], sigma[1:].tolist(), strict=True):
        expected = gaussian_filter(image.numpy(), s, mode="mirror", radius=1, axes=(1, 2))
        assert np.abs(out.numpy() - expected).max() < 1e-5
