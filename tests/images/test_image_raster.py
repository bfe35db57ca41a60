"""PNG and JPEG."""

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images import read_image_bytes


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def read(image: Image.Image, kind: str = "PNG", **options: Any) -> npt.NDArray[np.float32]:
    result = read_image_bytes(encoded(image, kind, **options), "x")
    assert result.dtype == np.float32
    assert result.shape[0] == 1
    grey: npt.NDArray[np.float32] = result[0]
    return grey


GREY = np.array([[0, 51, 102], [153, 204, 255]], np.uint8)


def test_eight_bit_grey() -> None:
    np.testing.assert_allclose(read(Image.fromarray(GREY)), GREY / 255, atol=1e-7)
    bilevel = read(Image.fromarray(GREY).convert("1", dither=Image.Dither.NONE))
    assert bilevel.tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    ("peak", "top"), [(1023, 1023), (1024, 4095), (4095, 4095), (16383, 16383), (65535, 65535)]
)
def test_sixteen_bit_is_scaled_by_the_detector_that_fits(peak: int, top: int) -> None:
    values = np.array([[0, peak // 2, peak]], np.uint16)
    np.testing.assert_allclose(read(Image.fromarray(values)), values / top, atol=1e-6)


def test_colour_becomes_luma() -> None:
    rgb = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    wanted = [[0.299, 0.587, 0.114, 1]]
    image = Image.fromarray(rgb)
    np.testing.assert_allclose(read(image), wanted, atol=1e-6)
    np.testing.assert_allclose(
        read(image.convert("P", palette=Image.Palette.ADAPTIVE)), wanted, atol=1e-6
    )


def test_transparent_is_black() -> None:
    rgba = np.array([[[255, 255, 255, 255], [255, 255, 255, 0], [255, 255, 255, 51]]], np.uint8)
    np.testing.assert_allclose(read(Image.fromarray(rgba)), [[1, 0, 0.2]], atol=1e-6)
    grey_alpha = Image.fromarray(rgba).convert("LA")
    np.testing.assert_allclose(read(grey_alpha), [[1, 0, 0.2]], atol=1e-6)
    palette = Image.fromarray(GREY).convert("P")
    np.testing.assert_allclose(read(palette, transparency=255)[1], [0.6, 0.8, 0], atol=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg(mode: str, progressive: bool) -> None:
    gradient = np.add.outer(np.arange(32), np.arange(40)).astype(np.uint8) * 3
    result = read(
        Image.fromarray(gradient).convert(mode), "JPEG", quality=95, progressive=progressive
    )
    np.testing.assert_allclose(result, gradient / 255, atol=0.03)


def test_orientation_noted_by_a_camera_is_applied() -> None:
    noted = Image.Exif()
    noted[0x0112] = 6
    upright = read(Image.fromarray(GREY), exif=noted)
    np.testing.assert_allclose(upright, np.rot90(GREY, -1) / 255, atol=1e-7)


def refused(data: bytes, **options: Any) -> str:
    with pytest.raises(ImageError) as caught:
        read_image_bytes(data, "x", **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated(kind: str, share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    assert "damaged" in refused(data[: int(share * len(data))])


def png_header(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize("side", [10_001, 13_000, 50_000, 2**31 - 1])
def test_bombs_are_refused_by_their_header(side: int) -> None:
    assert "more than 100 million" in refused(png_header(side, side))
    jpeg = bytearray(encoded(Image.fromarray(GREY), "JPEG"))
    place = jpeg.index(b"\xff\xc0") + 5
    jpeg[place : place + 4] = struct.pack(">HH", min(side, 65535), min(side, 65535))
    assert "more than 100 million" in refused(bytes(jpeg))


def test_frames_and_windows_are_for_dicom() -> None:
    data = encoded(Image.fromarray(GREY))
    assert read_image_bytes(data, "x", frame=0).shape == (1, 2, 3)
    assert refused(data, frame=1) == "x: holds 1 frame; leave frame out or pass frame=0"
    assert "leave window out" in refused(data, window=0)


def test_other_formats_are_not_opened() -> None:
    for kind in ("GIF", "BMP", "TIFF"):
        assert "no PNG, JPEG or DICOM" in refused(encoded(Image.fromarray(GREY), kind))
