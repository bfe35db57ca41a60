"""Several frames, color, palettes and the compressed transfer syntaxes."""

import numpy as np
import numpy.typing as npt
import pytest
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import JPEGBaseline8Bit, JPEGLSLossless

from cxrtext.errors import ImageError
from cxrtext.images import read_image_bytes
from tests.images.conftest import assert_same, encoded, gray, make_dicom, refused, wrapped

WINDOW = {"WindowCenter": 128, "WindowWidth": 256}


def picture(kind: str = "u2", top: int = 4095) -> npt.NDArray[np.uint16]:
    """A 40 x 48 gradient with noise."""
    noise = np.random.default_rng(1).random((40, 48)) * 0.1
    gradient = np.add.outer(np.arange(40), np.arange(48)) / 86
    return np.rint((0.9 * gradient + noise) * top).astype(kind)


def test_a_jpeg_of_color_is_read_whichever_way_it_says_what_its_samples_are() -> None:
    planes = [picture("u1", top) for top in (255, 120, 200)]
    color = np.stack([planes[0], planes[1][::-1], planes[2][:, ::-1]], axis=-1)
    wanted = color @ np.array([0.299, 0.587, 0.114]) / 255
    jfif = encoded(color, "JPEG", quality=98, subsampling=0)
    end = 4 + int.from_bytes(jfif[4:6], "big")
    adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\0\0\0\0\x01"
    rgb = encoded(color, "JPEG", quality=98, keep_rgb=True)
    bare = jfif[:2] + jfif[end:]
    for frame, photometric in (
        (jfif, "YBR_FULL_422"),
        (bare, "YBR_FULL_422"),
        (bare[:2] + adobe + bare[2:], "YBR_FULL_422"),
        (jfif, "RGB"),
        (rgb, "RGB"),
    ):
        plain = make_dicom(color, photometric=photometric)
        found = gray(wrapped(plain, [frame], JPEGBaseline8Bit))
        assert np.abs(found - wanted).mean() < 0.01


@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2.4.53", "1.2.840.10008.1.2.4.55"])
def test_progressive_jpeg(syntax: str) -> None:
    values = picture("u1", 255)
    plain = make_dicom(values, **WINDOW)
    frame = encoded(values, "JPEG", quality=95, progressive=True)
    near = gray(wrapped(plain, [frame], syntax))
    assert np.abs(near - gray(plain)).max() < 0.05


def test_frame_must_be_named_where_there_are_several() -> None:
    frames = np.stack([np.full((2, 3), 50 * i, np.uint8) for i in range(4)])
    data = make_dicom(frames, **WINDOW)
    with pytest.raises(ImageError, match=r"^x: holds 4 frames, and one picture is read.*frame=3"):
        read_image_bytes(data, "x")
    for wrong in (4, -1):
        assert refused(data, frame=wrong) == "holds 4 frames; pass frame=0 to frame=3"
    for index in range(4):
        result = gray(data, frame=index)
        assert result.shape == (2, 3)
        np.testing.assert_allclose(result, 50 * index / 255, atol=1e-6)
    single = make_dicom(frames[1], **WINDOW)
    np.testing.assert_array_equal(gray(single, frame=0), gray(single))
    assert "holds 1 frame; leave frame out" in refused(single, frame=1)


def test_fragmented_frames_are_put_together_by_their_offsets() -> None:
    frames = np.stack([picture("u1", 200), picture("u1", 100)])
    data = make_dicom(frames, syntax=JPEGLSLossless, **WINDOW)
    start = data.index(b"\xe0\x7f\x10\x00OB\x00\x00\xff\xff\xff\xff") + 12
    whole = list(generate_frames(data[start:-8], number_of_frames=2))
    pieces = encapsulate(whole, fragments_per_frame=3)
    fragmented = data[:start] + pieces + b"\xfe\xff\xdd\xe0\x00\x00\x00\x00"
    without = encapsulate(whole, fragments_per_frame=3, has_bot=False)
    ended = data[:start] + without + b"\xfe\xff\xdd\xe0\x00\x00\x00\x00"
    for index in range(2):
        assert_same(fragmented, data, frame=index)
        assert_same(ended, data, frame=index)  # each frame has an end marker
