"""Preparation for the encoder, and the maps back."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from cxrtext.images import Geometry, Preprocessing

SIZES = [(512, 512), (600, 900), (1955, 1841), (37, 50), (3, 1), (1, 40), (700, 513)]
PLAIN = Preprocessing(resize=512, crop=480, mean=0.0, std=1.0)


def noise(height: int, width: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(5).random((1, height, width)).astype(np.float32)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_prepare_is_resize_then_crop(height: int, width: int) -> None:
    image = noise(height, width)
    short = min(height, width)
    tall, wide = 512 * height // short, 512 * width // short
    gray = Image.fromarray(np.rint(image[0] * 255).astype(np.uint8))
    resized = np.asarray(gray.resize((wide, tall), Image.Resampling.BILINEAR), np.int16)
    top, left = (tall - 512) // 2, (wide - 512) // 2
    wanted = resized[top : top + 512, left : left + 512]
    square = PLAIN.square(image)
    assert square.shape == (1, 512, 512)
    assert square.dtype == np.uint8
    assert abs(square[0] - wanted).max() <= 1  # fixed-point weights of another place
    prepared = PLAIN.prepare(image)
    assert prepared.dtype == np.float32
    np.testing.assert_array_equal(prepared, square[:, 16:-16, 16:-16] / np.float32(255))


@pytest.mark.parametrize(
    "values",
    [
        {"resize": 10, "crop": 11}, {"crop": 0}, {"resize": 10**9}, {"std": 0},
        {"mean": float("nan")}, {"resize": 512.5},
    ],
)  # fmt: skip
def test_impossible_parameters(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Preprocessing(**values)  # type: ignore[arg-type]


def test_box_and_point_by_hand() -> None:
    # 1000 x 2000 -> 500 x 1000; square at x = 250; crop of 400 starts at x = 300, y = 50
    geometry = Geometry(1000, 2000, Preprocessing(resize=500, crop=400))
    assert geometry.resized == (500, 1000)
    assert geometry.crop_origin == (300, 50)
    assert geometry.crop_box == (600, 100, 1400, 900)
    assert geometry.points_to_original([50, 50]).tolist() == [700, 200]
    boxes = [[700, 200, 100, 50], [500, 0, 400, 400], [0, 0, 100, 100]]
    cells = geometry.boxes_to_cells(boxes, (400, 400))  # of one pixel of the crop
    assert cells.tolist() == [[50, 50, 50, 25], [0, 0, 150, 150], [0, 0, 0, 0]]


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_a_map_is_torchs_interpolation_at_each_pixels_place_in_the_crop(
    height: int, width: int
) -> None:
    geometry = PLAIN.geometry(height, width)
    grid = np.random.default_rng(2).standard_normal((15, 12)).astype(np.float32)
    centers = np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), axis=-1)
    places = geometry.points_to_crop(centers)
    wanted = torch.nn.functional.grid_sample(  # whose crop goes from -1 to 1
        torch.from_numpy(grid.astype(float))[None, None],
        torch.from_numpy(places / 240 - 1)[None],
        padding_mode="border",
        align_corners=False,
    )[0, 0].numpy()
    wanted[((places < 0) | (places >= 480)).any(axis=-1)] = np.nan
    full = geometry.map_to_original(grid)
    assert full.dtype == np.float32
    np.testing.assert_allclose(full, wanted, atol=1e-5)


FITS = [
    Preprocessing(48, 40, 0, 1, "bicubic", "center"),
    Preprocessing(48, 41, 0, 1, "bilinear", "center"),
    Preprocessing(48, 40, 0, 1, "lanczos", "stretch"),
    Preprocessing(48, 41, 0, 1, "box", "stretch"),
    Preprocessing(48, 40, 0, 1, "nearest", "crop"),
]


@pytest.mark.parametrize("wanted", FITS)
@pytest.mark.parametrize(("height", "width"), [(61, 83), (97, 58), (49, 48), (30, 301)])
def test_center_and_stretch_are_what_pillow_makes_of_the_whole_image(
    wanted: Preprocessing, height: int, width: int
) -> None:
    gray = np.rint(noise(height, width)[0] * 255).astype(np.uint8)
    short = min(height, width)
    tall, wide = 48 * height // short, 48 * width // short
    if wanted.fit == "stretch":
        tall = wide = 48
    resample = Image.Resampling[wanted.resample.upper()]
    resized = np.asarray(Image.fromarray(gray).resize((wide, tall), resample))
    crop = wanted.crop
    top, left = (tall - crop) // 2, (wide - crop) // 2  # one rounding
    if wanted.fit == "crop":
        top, left = (tall - 48) // 2 + 4, (wide - 48) // 2 + 4
    kept = resized[top : top + crop, left : left + crop] / np.float32(255)
    np.testing.assert_array_equal(wanted.prepare(gray[np.newaxis])[0], kept)
    geometry = wanted.geometry(height, width)
    assert geometry.crop_origin == (left, top)
    corners = np.array([[0, 0], [crop, crop], [crop / 2, 3.5]])
    original = (corners + np.array([left, top])) * (width / wide, height / tall)
    np.testing.assert_allclose(geometry.points_to_original(corners), original)
    np.testing.assert_allclose(geometry.points_to_crop(original), corners, atol=1e-9)
    box = geometry.boxes_of_cells([0.0, 0.0, 1.0, 1.0], (1, 1))
    np.testing.assert_allclose(box[2:], (crop * width / wide, crop * height / tall))
    filled = geometry.map_to_original(np.ones((3, 3), np.float32))
    assert np.isnan(filled).any() == (wanted.fit != "stretch" or crop < 48)


def test_cells_and_boxes_of_a_grid_that_lies_further_left_and_up() -> None:
    geometry = Preprocessing(64, 64, offset=7.5).geometry(64, 64)
    assert geometry.grid_shift == 7.5 / 64
    assert geometry.center_of_cell(0, 2, (4, 4)) == (32.5, 0.5)
    inner, whole, corner = geometry.boxes_of_cells(
        [[1, 1, 1, 2], [0, 0, 4, 4], [3, 0, 1, 1]], (4, 4)
    )
    assert inner.tolist() == [8.5, 8.5, 16, 32]
    assert whole.tolist() == [0, 0, 64, 64]
    assert corner.tolist() == [40.5, 0, 23.5, 8.5]
    assert geometry.boxes_to_cells(inner, (4, 4)).tolist() == [1, 1, 1, 2]
    lit = np.zeros((4, 4))
    lit[1, 2] = 1
    full = geometry.map_to_original(lit)
    assert divmod(int(full.argmax()), 64) == (16, 32)


@pytest.mark.parametrize(("height", "width"), [(90, 60), (60, 90), (50, 50)])
def test_padding_puts_black_beside_the_shorter_side(height: int, width: int) -> None:
    wanted = Preprocessing(30, 30, 0.0, 1.0, "lanczos", "pad")
    square = wanted.square(np.full((1, height, width), 200, dtype=np.uint8))[0]
    geometry = wanted.geometry(height, width)
    corners = geometry.points_to_crop([[0, 0], [width, height]])
    (left, top), (right, bottom) = np.round(corners).astype(int)
    inside = np.zeros((30, 30), dtype=bool)
    inside[top:bottom, left:right] = True
    assert (square == np.where(inside, 200, 0)).all()
    assert max(right - left, bottom - top) == 30
    np.testing.assert_allclose(geometry.points_to_original(corners), [[0, 0], [width, height]])
