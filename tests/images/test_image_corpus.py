"""Every real radiograph reads as Pillow alone reads it, and none without its second half."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images import read_image, read_image_bytes

ROOT = os.environ.get("CXRTEXT_TEST_DATA")
pytestmark = [pytest.mark.data, pytest.mark.skipif(not ROOT, reason="CXRTEXT_TEST_DATA is not set")]
ENDINGS = (".png", ".jpg", ".jpeg")
FOLDERS = {"cxr": 162, "cxr-images-only": 209, "grounding": 2}


def images(folder: str) -> list[Path]:
    found = (Path(ROOT or ".") / folder).rglob("*")
    return sorted(path for path in found if path.suffix.lower() in ENDINGS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_radiograph_is_read_as_it_is(folder: str) -> None:
    paths = images(folder)
    assert len(paths) == FOLDERS[folder]
    for path in paths:
        with Image.open(path) as picture:
            wanted = np.asarray(picture.convert("L"), dtype=np.float32) / np.float32(255)
        # Color is weighed in floats here, and rounded to 8 bits by Pillow.
        np.testing.assert_allclose(read_image(path)[0], wanted, atol=0.6 / 255, err_msg=path.name)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_radiograph_is_read_without_its_second_half(folder: str) -> None:
    for path in images(folder):
        data = path.read_bytes()
        end = b"\xff\xd9" if path.suffix.lower() != ".png" else b""
        for half in (data[: len(data) // 2], data[: len(data) // 2] + end):
            with pytest.raises(ImageError, match="cut off"):
                read_image_bytes(half, path.name)
