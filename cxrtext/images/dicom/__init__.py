"""DICOM files: header, pixels and display.

Everything in here raises :class:`ImageError` for a file that is damaged, cut off, not supported or
too large; the message does not name the file.  Memory and time are bounded whatever a file claims.
"""

import struct
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.dicom.display import render_gray
from cxrtext.images.dicom.file import BIG_ENDIAN
from cxrtext.images.dicom.header import PALETTE, choose_frame, pixel_format
from cxrtext.images.dicom.orientation import read_placement, upright
from cxrtext.images.dicom.pixels import read_file, stored_values
from cxrtext.images.gray import Gray, Samples, luma

if TYPE_CHECKING:
    from pydicom.dataset import Dataset


def decode_dicom(data: bytes, frame: int | None, least: int | None = None) -> Gray:
    """Decode one frame; see `cxrtext.images.read.decode_image`."""
    syntax, dataset, value = read_file(data)
    pixels = pixel_format(dataset)
    index = choose_frame(pixels.frames, frame)
    placement = read_placement(dataset, pixels.rows, pixels.columns)
    least = None if placement.stretched else least
    values, rgb = stored_values(syntax, dataset, value, pixels, index, least)
    if pixels.photometric == PALETTE:
        gray = _colored(values, dataset)
    elif not pixels.color:
        gray = render_gray(values, pixels, dataset, little=syntax != BIG_ENDIAN)
    elif values.dtype == np.uint8 and pixels.stored == 8 and not rgb:
        gray = Gray(values)
    else:
        shades = luma(values) if rgb else values.astype(np.float32)
        gray = Gray(shades / np.float32(2**pixels.stored - 1))
    return upright(gray, placement)


def _colored(values: Samples, dataset: "Dataset") -> Gray:
    from pydicom.pixels.processing import apply_color_lut

    try:
        colors = apply_color_lut(values, dataset)
    except (ValueError, TypeError, AttributeError, IndexError, struct.error):
        raise ImageError("its palette is missing or damaged; export it as grayscale") from None
    return Gray(luma(colors) / np.float32(np.iinfo(colors.dtype).max))
