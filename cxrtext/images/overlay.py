"""Draw a heatmap, boxes and a peak on a radiograph."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from cxrtext.images.gray import Bytes, Floats, eight_bit

Box = Sequence[float]

# "inferno" of matplotlib (CC0) at nine evenly spaced places: lightness rises evenly with heat.
_INFERNO = "000004 1f0c48 550f6d 88226a ba3655 e35933 f98c0a f9c932 fcffa4"
_COLORS = np.array([list(bytes.fromhex(color)) for color in _INFERNO.split()], dtype=np.float32)
_BOX_COLOR = (64, 224, 255)
_SHADOW = (0, 0, 0)
_OPACITY = 0.6  # the greatest share of color


def to_uint8(image: Floats) -> npt.NDArray[np.uint8]:
    """Round gray values, [1, H, W] or [H, W] in [0, 1], to 8 bits, [H, W], and clip others."""
    gray = image[0] if image.ndim == 3 and image.shape[0] == 1 else image
    if gray.ndim != 2:
        raise ValueError(f"an image is [1, H, W] or [H, W], not {list(image.shape)}")
    return eight_bit(gray)


def encode_png(image: Floats | Image.Image) -> bytes:
    """Encode a picture, or gray values [1, H, W] in [0, 1], as an 8-bit PNG."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(to_uint8(image))
    buffer = BytesIO()
    picture.save(buffer, format="PNG", compress_level=3)
    return buffer.getvalue()


def shrunk(pixels: Bytes, side: int) -> Bytes:
    """Shrink an image [H, W] until its longest side is at most ``side``; never enlarge it."""
    if max(pixels.shape) <= side:
        return pixels
    picture = Image.fromarray(pixels)
    kind = Image.Resampling.BOX if side < 512 else Image.Resampling.LANCZOS
    picture.thumbnail((side, side), kind)
    return np.asarray(picture)


def render_overlay(
    image: Floats,
    heat: Floats,
    *,
    limits: tuple[float, float] | None = None,
    boxes: Sequence[Box] = (),
    peak: tuple[float, float] | None = None,
) -> Image.Image:
    """Blend a heatmap over a radiograph.

    Color and opacity rise with heat, so that cool regions stay readable; where heat is NaN the
    radiograph is untouched.

    Args:
        image: [1, H, W] in [0, 1].
        heat: [H, W], NaN where undefined.
        limits: Heat that is drawn fully transparent, and heat drawn at full opacity.  None takes
            the least and the greatest heat; constant heat is then not drawn.
        boxes: (x, y, width, height) each, in original pixels.
        peak: (x, y) in original pixels, marked by a ring.

    Returns:
        An RGB picture of the image's size.
    """
    gray = to_uint8(image)
    if heat.shape != gray.shape:
        raise ValueError(f"heat is {list(heat.shape)}, the image {list(gray.shape)}")
    picture = Image.fromarray(_blend(gray, _level(heat, limits)))
    draw = ImageDraw.Draw(picture)
    line = max(2, round(max(gray.shape) / 400))
    for x, y, width, height in boxes:
        corners = (x, y, x + max(width, 1) - 1, y + max(height, 1) - 1)
        draw.rectangle(corners, outline=_SHADOW, width=line + 2)
        draw.rectangle(corners, outline=_BOX_COLOR, width=line)
    if peak is not None:
        rings = (_SHADOW, 5 * line + 1, line + 2), (_BOX_COLOR, 5 * line, line)
        for color, radius, width in rings:
            ring = peak[0] - radius, peak[1] - radius, peak[0] + radius, peak[1] + radius
            draw.ellipse(ring, outline=color, width=width)
    return picture


def _level(heat: Floats, limits: tuple[float, float] | None) -> Floats:
    """Scale heat to [0, 1]; 0 where undefined."""
    defined = np.isfinite(heat)
    if not defined.any():
        return np.zeros(heat.shape, dtype=np.float32)
    low, high = limits or (float(heat[defined].min()), float(heat[defined].max()))
    if not high > low:
        return np.zeros(heat.shape, dtype=np.float32)
    return np.where(defined, np.clip((heat - low) / (high - low), 0, 1), 0).astype(np.float32)


def _blend(gray: npt.NDArray[np.uint8], level: Floats) -> npt.NDArray[np.uint8]:
    # 8-bit colors have no more than 256 steps.
    steps = np.linspace(0, 1, 256)
    places = np.linspace(0, 1, len(_COLORS))
    colors = np.stack([np.interp(steps, places, channel) for channel in _COLORS.T], axis=-1)
    index = np.rint(level * 255).astype(np.uint8)
    alpha = (_OPACITY * steps**1.5).astype(np.float32)[index][..., np.newaxis]
    # gray and alpha have one value a pixel, color has three
    mixed = gray[..., np.newaxis] * (1 - alpha) + colors.astype(np.float32)[index] * alpha
    return np.rint(mixed).astype(np.uint8)
