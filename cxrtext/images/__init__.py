"""Reading radiographs, preparing them for the encoder, and drawing on them."""

from cxrtext.images.overlay import encode_png, render_overlay, to_uint8
from cxrtext.images.preprocessing import Geometry, Preprocessing
from cxrtext.images.read import read_image, read_image_bytes
from cxrtext.images.reader_pool import ReaderPool

__all__ = [
    "Geometry",
    "Preprocessing",
    "ReaderPool",
    "encode_png",
    "read_image",
    "read_image_bytes",
    "render_overlay",
    "to_uint8",
]
