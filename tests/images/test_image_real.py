"""Every real radiograph and DICOM file reads right, or is refused for the right reason."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images import read_image, read_image_bytes

ROOT = os.environ.get("CXRTEXT_TEST_DATA")
pytestmark = [pytest.mark.data, pytest.mark.skipif(not ROOT, reason="CXRTEXT_TEST_DATA is not set")]
FOLDER = Path(ROOT or ".") / "dicom"

# name, shape, mean gray to two digits
READ = [
    ("cr_chest_mono1_15bit_j2k", (1955, 1841), 0.754),
    ("ct_j2k_pixelrep_mismatch", (512, 512), 0.248), ("ct_signed_rescale", (128, 128), 0.450),
    ("mr_explicit_big_endian", (64, 64), 0.443), ("mr_implicit_vr", (64, 64), 0.443),
    ("mr_jpeg_ls_lossless", (64, 64), 0.443), ("mr_rle", (64, 64), 0.443),
    ("mr_overlay_two_windows", (300, 484), 0.189),
    ("nm_jpeg2000_16bit_signed", (1024, 256), 0.194),
    ("nm_jpeg_extended_12bit", (1024, 256), 0.127),
    ("nm_jpeg_lossless_sv1", (1024, 256), 0.121),
    ("ot_voi_lut_sequence", (512, 512), 0.505), ("us_palette_color", (350, 800), 0.076),
]  # fmt: skip
FRAMES = [
    ("mr_multiframe_10", 10, (64, 64)),
    ("us_ybr_30frame_jpeg", 30, (240, 320)),
]
REFUSED = [
    ("bad_mr_truncated_pixels", "pixel data is cut off"),
    ("bad_no_file_meta", "without its file header"),
    ("bad_no_transfer_syntax", "names no transfer syntax"),
    ("bad_vr_numberofframes", "NumberOfFrames is not a whole number"),
    ("cr_chest_header_only_japanese", "holds no pixel data"),
    ("ot_deflated", "'Deflated Explicit VR Little Endian' that is not supported"),
    ("seg_1bit_3frame", "is an enhanced multi-frame object"),
    ("sr_no_image", "'Basic Text SR Storage', which has no image"),
]


def path(name: str) -> Path:
    return FOLDER / f"{name}.dcm"


def test_every_file_is_covered() -> None:
    names = {row[0] for table in (READ, FRAMES, REFUSED) for row in table}
    assert {file.stem for file in FOLDER.glob("*.dcm")} == names


@pytest.mark.parametrize(("name", "shape", "mean"), READ)
def test_read(name: str, shape: tuple[int, int], mean: float) -> None:
    image = read_image(path(name))
    assert image.shape == (1, *shape)
    assert image.dtype == np.float32
    assert 0 <= image.min() < 0.25
    assert 0.95 < image.max() <= 1
    assert float(image.mean()) == pytest.approx(mean, abs=0.001)


@pytest.mark.parametrize(("name", "frames", "shape"), FRAMES)
def test_frames(name: str, frames: int, shape: tuple[int, int]) -> None:
    with pytest.raises(ImageError, match=f"holds {frames} frames, and one picture is read"):
        read_image(path(name))
    first, last = (read_image(path(name), frame=index) for index in (0, frames - 1))
    assert first.shape == last.shape == (1, *shape)
    assert first.max() > 0.5
    assert not np.array_equal(first, last)


@pytest.mark.parametrize(("name", "reason"), REFUSED)
def test_refused(name: str, reason: str) -> None:
    with pytest.raises(ImageError) as caught:
        read_image(path(name))
    message = str(caught.value)
    assert message.startswith(f"{path(name)}: ")
    assert reason in message
    assert "\n" not in message
    assert message.isascii() or not str(path(name)).isascii()


ENDINGS = (".png", ".jpg", ".jpeg")
FOLDERS = {"cxr": 162, "cxr-images-only": 209, "grounding": 2}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_radiograph_is_read_as_it_is_and_none_without_its_second_half(folder: str) -> None:
    found = (Path(ROOT or ".") / folder).rglob("*")
    paths = sorted(path for path in found if path.suffix.lower() in ENDINGS)
    assert len(paths) == FOLDERS[folder]
    for path in paths:
        with Image.open(path) as picture:
            wanted = np.asarray(picture.convert("L"), dtype=np.float32) / np.float32(255)
        # Color is weighed in floats here, and rounded to 8 bits by Pillow.
        np.testing.assert_allclose(read_image(path)[0], wanted, atol=0.6 / 255, err_msg=path.name)
        data = path.read_bytes()
        end = b"\xff\xd9" if path.suffix.lower() != ".png" else b""
        for half in (data[: len(data) // 2], data[: len(data) // 2] + end):
            with pytest.raises(ImageError, match="cut off"):
                read_image_bytes(half, path.name)
