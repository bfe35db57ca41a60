"""Reading radiographs, preparing them for the encoder, and drawing on them."""

from cxrtext.images.dicom_view import ImageHeader, read_header
from cxrtext.images.geometry import Geometry
from cxrtext.images.isolated import ReaderPool
from cxrtext.images.overlay import encode_png, render_overlay, to_uint8
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.images.read import read_image, read_image_bytes

__all__ = [
    "Geometry",
    "ImageHeader",
    "Preprocessing",
    "ReaderPool",
    "encode_png",
    "read_header",
    "read_image",
    "read_image_bytes",
    "render_overlay",
    "to_uint8",
]
