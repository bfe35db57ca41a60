"""Pictures as the routes send them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cxrtext.service import Grounding
    from cxrtext.service.answers import Image

MIN_SIDE = 32
MAX_SIDE = 4096
DEFAULT_SIDE = 1536


def draw_image(image: "Image", side: int) -> bytes:
    """An image [1, H, W] as PNG.

    Args:
        image: Grey values in [0, 1].
        side: Longest side of the picture; a smaller image is not enlarged.
    """
    from PIL import Image as Pillow

    from cxrtext.images import encode_png, to_uint8

    picture = Pillow.fromarray(to_uint8(image))
    picture.thumbnail(
        (side, side), Pillow.Resampling.BOX if side < 512 else Pillow.Resampling.LANCZOS
    )
    return encode_png(picture)


def draw_overlay(image: "Image", found: "Grounding") -> bytes:
    """A heatmap over an image [1, H, W] as PNG, in original size."""
    from cxrtext.images import encode_png, render_overlay

    picture = render_overlay(
        image,
        found.map(),
        limits=found.limits,
        boxes=[box.bbox for box in found.boxes],
        peak=found.peak,
    )
    return encode_png(picture)
