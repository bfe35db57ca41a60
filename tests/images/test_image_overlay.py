"""Pictures for people."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import cxrtext.images
from cxrtext.images import encode_png, render_overlay, to_uint8


def test_nan_leaves_the_radiograph_untouched_and_heat_colors_it() -> None:
    image = np.full((1, 60, 80), 0.5, np.float32)
    heat = np.full((60, 80), np.nan, np.float32)
    heat[10:50, 20:60] = np.linspace(-1, 1, 40)
    before = heat.copy()
    picture = render_overlay(image, heat)
    pixels = np.asarray(picture).astype(int)
    assert (picture.mode, picture.size) == ("RGB", (80, 60))
    undefined = np.isnan(heat)
    assert (pixels[undefined] == 128).all()
    assert pixels[30, 20].tolist() == [128, 128, 128]
    # the hottest: 0.4 of the gray, 0.6 of pale yellow
    wanted = np.rint(0.4 * 128 + 0.6 * np.array([252, 255, 164]))
    assert np.abs(pixels[30, 59] - wanted).max() <= 1
    change = np.abs(pixels[30, 20:60] - 128).max(axis=-1)
    assert (change[5:20] <= change[25:40]).all()
    np.testing.assert_array_equal(heat, before)


def test_limits_fix_the_scale() -> None:
    image = np.zeros((1, 4, 4), np.float32)
    heat = np.full((4, 4), 0.5, np.float32)
    assert np.asarray(render_overlay(image, heat)).max() == 0
    half = np.asarray(render_overlay(image, heat, limits=(0, 1)))
    full = np.asarray(render_overlay(image, heat, limits=(0, 0.5), opacity=1))
    assert 0 < half.max() < full.max()
    assert full[0, 0].tolist() == [252, 255, 164]
    assert np.asarray(render_overlay(image, heat * np.nan)).max() == 0


def test_boxes_and_peak_are_drawn_in_place() -> None:
    image = np.full((1, 200, 200), 0.5, np.float32)
    heat = np.full((200, 200), np.nan, np.float32)
    pixels = np.asarray(render_overlay(image, heat, boxes=[(20, 30, 100, 60)], peak=(160, 160)))
    changed = (pixels != 128).any(axis=-1)
    ys, xs = np.nonzero(changed[:130, :140])
    assert (xs.min(), ys.min(), xs.max(), ys.max()) == (20, 30, 119, 89)
    assert not changed[40:80, 30:110].any()
    ys, xs = np.nonzero(changed[130:])
    assert abs(xs.mean() - 160) < 1
    assert abs(ys.mean() + 130 - 160) < 1
    outside = render_overlay(image, heat, boxes=[(-50, -50, 1000, 0)], peak=(-9, 900))
    assert outside.size == (200, 200)


def test_sizes_must_agree() -> None:
    with pytest.raises(ValueError, match="heat is"):
        render_overlay(np.zeros((1, 4, 4), np.float32), np.zeros((4, 5), np.float32))


def test_eight_bits() -> None:
    image = np.array([[[-1, 0, 0.5, 1, 2]]], np.float32)
    assert to_uint8(image).tolist() == [[0, 0, 128, 255, 255]]
    with pytest.raises(ValueError, match="NaN"):
        to_uint8(np.array([[np.nan]], np.float32))
    with pytest.raises(ValueError, match="not"):
        to_uint8(np.zeros((3, 4, 4), np.float32))


def test_png_round_trip() -> None:
    image = np.random.default_rng(0).random((1, 9, 7)).astype(np.float32)
    with Image.open(BytesIO(encode_png(image))) as decoded:
        np.testing.assert_array_equal(np.asarray(decoded), to_uint8(image))
    color = Image.new("RGB", (3, 2), (1, 2, 3))
    with Image.open(BytesIO(encode_png(color))) as decoded:
        assert decoded.getpixel((0, 0)) == (1, 2, 3)


def test_public_names() -> None:
    assert set(cxrtext.images.__all__) == {
        "Geometry",
        "Preprocessing",
        "ReaderPool",
        "encode_png",
        "read_image",
        "read_image_bytes",
        "render_overlay",
        "to_uint8",
    }
    assert all(hasattr(cxrtext.images, name) for name in cxrtext.images.__all__)
