"""PNG and JPEG, as floats and as 8 bits, and PNG by the quick decoder."""

import zlib
from typing import Any

import imagecodecs
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images.gray import Gray
from tests.images.conftest import encoded, gray, jpeg_of_size, png_chunk, png_head, refused


def read(
    image: npt.NDArray[Any] | Image.Image, kind: str = "PNG", **options: Any
) -> npt.NDArray[np.float32]:
    return gray(encoded(image, kind, **options))


GRAY = np.array([[0, 51, 102], [153, 204, 255]], np.uint8)


def test_eight_bit_gray() -> None:
    np.testing.assert_allclose(read(GRAY), GRAY / 255, atol=1e-7)
    bilevel = read(Image.fromarray(GRAY).convert("1", dither=Image.Dither.NONE))
    assert bilevel.tolist() == [[0, 0, 0], [1, 1, 1]]


def sixteen_bits(top: int) -> npt.NDArray[np.uint16]:
    """A picture whose values reach from 0 to ``top``, as a detector of so many levels has."""
    noise = np.random.default_rng(top).normal(0, 0.02, (200, 300))
    rows, columns = np.mgrid[:200, :300]
    picture = 0.5 + 0.4 * np.sin(columns / 40) * np.cos(rows / 30) + noise
    values: npt.NDArray[np.uint16] = np.rint(np.clip(picture, 0, 1) * top).astype(np.uint16)
    return values


@pytest.mark.parametrize("top", [1000, 4095, 16383, 65535])
def test_sixteen_bits_are_read_alike_whatever_range_the_writer_used(top: int) -> None:
    values = sixteen_bits(top)
    low, high = np.quantile(values, [0.005, 0.995])
    wanted = np.clip((values - low) / (high - low), 0, 1)
    np.testing.assert_allclose(read(values), wanted, atol=3 / top)


def test_a_marker_does_not_make_the_picture_black() -> None:
    values = sixteen_bits(4095)
    marked = values.copy()
    marked[:4, :150] = 65535  # 1 % of the pixels
    np.testing.assert_allclose(read(marked)[4:], read(values)[4:], atol=0.02)
    assert (read(marked)[:4, :150] == 1).all()


def test_sixteen_bits_of_color_and_transparency() -> None:
    """Pillow keeps 8 of 16 bits of color, which leaves 4 of a 12-bit picture."""
    values = sixteen_bits(4095)
    plain = read(values)
    color = gray(bytes(imagecodecs.png_encode(np.stack([values] * 3, axis=-1))))
    np.testing.assert_allclose(color, plain, atol=0.001)
    opacity = np.full_like(values, 65535)
    opacity[:100] = 0
    shown = gray(bytes(imagecodecs.png_encode(np.stack([values, opacity], axis=-1))))
    assert shown[:100].max() == 0
    assert shown[100:].mean() > 0.4


def test_color_becomes_luma() -> None:
    rgb = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    wanted = [[0.299, 0.587, 0.114, 1]]
    image = Image.fromarray(rgb)
    for shown in (image, image.convert("P", palette=Image.Palette.ADAPTIVE)):
        np.testing.assert_allclose(read(shown), wanted, atol=1e-6)


def test_transparent_is_black() -> None:
    rgba = np.array([[[255, 255, 255, 255], [255, 255, 255, 0], [255, 255, 255, 51]]], np.uint8)
    for image in (Image.fromarray(rgba), Image.fromarray(rgba).convert("LA")):
        np.testing.assert_allclose(read(image), [[1, 0, 0.2]], atol=1e-6)
    for mode in ("P", "L"):
        image = Image.fromarray(GRAY).convert(mode)
        np.testing.assert_allclose(read(image, transparency=255)[1], [0.6, 0.8, 0], atol=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg(mode: str, progressive: bool) -> None:
    gradient = np.add.outer(np.arange(32), np.arange(40)).astype(np.uint8) * 3
    image = Image.fromarray(gradient).convert(mode)
    result = read(image, "JPEG", quality=95, progressive=progressive)
    np.testing.assert_allclose(result, gradient / 255, atol=0.03)


def test_an_unusual_jpeg_is_not_called_damaged() -> None:
    deep = np.tile(np.arange(64, dtype=np.uint16) * 60, (64, 1))
    for lossless in (False, True):
        data = bytes(imagecodecs.jpeg8_encode(deep, lossless=lossless, bitspersample=12))
        assert "JPEG of an unusual kind" in refused(data)


def test_orientation_noted_by_a_camera_is_applied() -> None:
    noted = Image.Exif()
    noted[0x0112] = 6
    plain = read(GRAY, "JPEG", quality=100)
    np.testing.assert_array_equal(read(GRAY, "JPEG", quality=100, exif=noted), np.rot90(plain, -1))


@pytest.mark.parametrize("side", [10_001, 50_000])
def test_bombs_are_refused_by_their_header(side: int) -> None:
    assert "more than 100 million" in refused(png_head(side, side))
    assert "more than 65535 a side" in refused(png_head(1, 2**31 - side))
    jpeg = jpeg_of_size(encoded(GRAY, "JPEG"), b"\xff\xc0", *[min(side, 65535)] * 2)
    assert "more than 100 million" in refused(jpeg)


def test_frames_are_for_dicom_and_other_formats_are_not_opened() -> None:
    data = encoded(GRAY)
    assert gray(data, frame=0).shape == (2, 3)
    assert refused(data, frame=1) == "holds 1 frame; leave frame out or pass frame=0"
    for kind in ("GIF", "BMP", "TIFF"):
        assert "not a PNG, JPEG or DICOM" in refused(encoded(GRAY, kind))


def test_neighbors_that_change_without_their_checksum_are_noticed() -> None:
    rows = bytearray(b"".join(b"\0" + bytes(range(40, 72)) for _ in range(8)))
    changed = bytearray(rows)
    for place, by in ((50, -1), (51, 2), (52, -1)):
        changed[place] += by
    assert zlib.adler32(changed) == zlib.adler32(rows)

    data = png_chunk(b"IDAT", zlib.compress(rows, 0))
    whole = png_head(8, 32) + data + png_chunk(b"IEND", b"")
    assert gray(whole).shape == (8, 32)
    damaged = png_chunk(b"IDAT", zlib.compress(changed, 0))[:-4] + data[-4:]
    assert "is damaged or cut off" in refused(whole.replace(data, damaged))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    levels = np.array([[0.0, bad]], np.float32)
    with pytest.raises(ImageError, match="not numbers"):
        Gray(levels)
    with pytest.raises(ImageError, match="not numbers"):
        Gray(np.zeros((1, 1), np.uint8), levels[0])
