"""Pictures as the routes send them."""

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from cxrtext.images import encode_png, render_overlay
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from cxrtext.service import Grounding


def draw_image(pixels: Pixels, side: int) -> bytes:
    """An image as PNG, its longest side at most so long; a smaller one is not enlarged."""
    picture = Image.fromarray(pixels)
    picture.thumbnail(
        (side, side), Image.Resampling.BOX if side < 512 else Image.Resampling.LANCZOS
    )
    return encode_png(picture)


def draw_overlay(pixels: Pixels, found: "Grounding") -> bytes:
    """A heatmap over an image as PNG, in original size."""
    picture = render_overlay(
        np.divide(pixels[np.newaxis], np.float32(255), dtype=np.float32),
        found.map(),
        limits=found.limits,
        boxes=[box.bbox for box in found.boxes],
        peak=found.peak,
    )
    return encode_png(picture)
