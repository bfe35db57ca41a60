"""One decoded picture as floats and as 8 bits, and PNG by the quick decoder."""

from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images import raster, read_image_bytes
from cxrtext.images.gray import Gray, count, eight_bit, look_up


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64])
def test_look_up_and_count_in_pieces(kind: type[Any]) -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 200, (321, 507)).astype(kind)[:, ::3]
    table = rng.random(200).astype(np.float32)
    np.testing.assert_array_equal(look_up(table, places), table[places])
    np.testing.assert_array_equal(count(places, 200), np.bincount(places.ravel(), minlength=200))


def test_both_forms_agree() -> None:
    rng = np.random.default_rng(1)
    table = rng.uniform(-0.2, 1.2, 300).astype(np.float32)
    places = rng.integers(0, 300, (40, 50)).astype(np.uint16)
    for gray in (Gray(places, table), Gray(table[places]), Gray(places.astype(np.uint8))):
        floats = gray.floats()
        assert floats.dtype == np.float32
        assert floats.shape == gray.bytes().shape == (1, 40, 50)
        assert 0 <= floats.min() <= floats.max() <= 1
        np.testing.assert_array_equal(gray.bytes(), eight_bit(floats))
    np.testing.assert_array_equal(Gray(places, table).floats(), Gray(table[places]).floats())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    levels = np.array([[0.0, bad]], np.float32)
    with pytest.raises(ImageError, match="no numbers"):
        Gray(levels)
    with pytest.raises(ImageError, match="no numbers"):
        Gray(np.zeros((1, 1), np.uint8), levels[0])


def png(pixels: npt.NDArray[Any], **options: Any) -> bytes:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", **options)
    return buffer.getvalue()


@pytest.mark.parametrize("depth", [np.uint8, np.uint16])
def test_the_quick_png_decoder_gives_what_pillow_gives(
    depth: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(2).integers(0, np.iinfo(depth).max, (33, 47)).astype(depth)
    data = png(noise)
    assert raster._by_libpng(data, 33, 47) is not None
    quick = read_image_bytes(data, "x")
    monkeypatch.setattr(raster, "_by_libpng", lambda *_: None)
    np.testing.assert_array_equal(quick, read_image_bytes(data, "x"))


def test_only_plain_gray_in_order_takes_the_quick_decoder() -> None:
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    noted = Image.Exif()
    noted[0x0112] = 6
    others = [
        png(gray, transparency=3),
        png(gray, exif=noted),
        png(np.stack([gray] * 3, axis=-1)),
        png(gray)[:-30],
        png(gray).replace(b"IDAT", b"JDAT"),
    ]
    assert all(raster._by_libpng(data, 3, 4) is None for data in others)
    assert raster._by_libpng(png(gray), 4, 3) is None
    assert read_image_bytes(others[1], "x").shape == (1, 4, 3)
