"""DICOM files: header, pixels and display.

Everything in here raises :class:`ImageError` where a file is damaged, cut off, not supported or
too large; its text does not name the file.  Memory and time are bounded whatever a file claims.
"""

import struct

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.dicom.display import render_gray
from cxrtext.images.dicom.header import PALETTE, PixelFormat, choose_frame, pixel_format
from cxrtext.images.dicom.orientation import read_placement, upright
from cxrtext.images.dicom.pixels import DicomFile, read_file, stored_values
from cxrtext.images.gray import Gray, Samples, luma


def decode_dicom(data: bytes, frame: int | None, least: int | None = None) -> Gray:
    """Decode one frame, as `cxrtext.images.read.decode_image`."""
    file = read_file(data)
    pixels = pixel_format(file.dataset)
    index = choose_frame(pixels.frames, frame)
    placement = read_placement(file.dataset, pixels.rows, pixels.columns)
    if placement.stretched:
        least = None
    return upright(_shown(file, pixels, index, least), placement)


def _shown(file: DicomFile, pixels: PixelFormat, index: int, least: int | None) -> Gray:
    values, rgb = stored_values(file, pixels, index, least)
    if pixels.photometric == PALETTE:
        return _colored(values, file)
    if not pixels.color:
        return render_gray(values, pixels, file.dataset, little=file.little)
    if values.dtype == np.uint8 and pixels.stored == 8 and not rgb:
        return Gray(values)
    gray = luma(values) if rgb else values.astype(np.float32)
    return Gray(gray / np.float32(2**pixels.stored - 1))


def _colored(values: Samples, file: DicomFile) -> Gray:
    from pydicom.pixels.processing import apply_color_lut

    try:
        colors = apply_color_lut(values, file.dataset)
    except (ValueError, TypeError, AttributeError, IndexError, struct.error):
        raise ImageError("its palette is missing or damaged; export it as grayscale") from None
    return Gray(luma(colors) / np.float32(np.iinfo(colors.dtype).max))
