"""Reading radiographs, preparing them for the encoder, and drawing on them."""

from cxrtext.images.geometry import Geometry
from cxrtext.images.overlay import encode_png, render_overlay, to_uint8
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.read import read_image, read_image_bytes

__all__ = [
    "Geometry",
    "Preprocessing",
    "encode_png",
    "read_image",
    "read_image_bytes",
    "render_overlay",
    "to_uint8",
]
