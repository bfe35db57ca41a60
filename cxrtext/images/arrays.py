"""Array types, the one limit on an image's size, and grey from colour."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cxrtext.errors import ImageError

Floats = npt.NDArray[np.float32]
Samples = npt.NDArray[Any]

MAX_PIXELS = 100_000_000


def check_size(height: int, width: int) -> None:
    """Refuse an empty image and one of more than 100 million pixels, before it is decoded.

    Raises:
        ImageError: When the image is outside the limits.
    """
    if height < 1 or width < 1:
        raise ImageError(f"is {width} x {height} pixels; send an image that is not empty")
    if height * width > MAX_PIXELS:
        raise ImageError(
            f"is {width} x {height} pixels, more than {MAX_PIXELS // 1_000_000} million; "
            "make the image smaller"
        )


def luma(rgb: Samples) -> Floats:
    """Weigh red, green and blue into grey, [..., 3] -> [...], in the units given.

    Source: ITU-R BT.601, the Y of YCbCr.
    """
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return np.asarray(rgb.astype(np.float32) @ weights, dtype=np.float32)
