"""A DICOM file to grey values."""

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Samples, luma
from cxrtext.images.dicom_display import read_display
from cxrtext.images.dicom_file import DicomFile, read_file
from cxrtext.images.dicom_grey import Choice, render_grey
from cxrtext.images.dicom_header import PixelFormat, choose_frame, pixel_format
from cxrtext.images.dicom_samples import places_of, stored_values
from cxrtext.images.dicom_tables import read_palette
from cxrtext.images.grey import Grey


def decode_dicom(data: bytes, frame: int | None, window: Choice) -> Grey:
    """Decode one frame of a DICOM file.

    Args:
        data: The whole file.
        frame: Which frame, from 0; None where there is one only.
        window: Contrast, for greyscale; see `cxrtext.images.read_image`.

    Returns:
        Grey values, nominally in [0, 1].

    Raises:
        ImageError: When the file is damaged, cut off, not supported or too large.
    """
    file = read_file(data)
    pixels = pixel_format(file.dataset)
    index = choose_frame(pixels.frames, frame)
    if window is not None and not pixels.photometric.startswith("MONOCHROME"):
        raise ImageError("is a colour image, so it has no window; leave window out")
    values, rgb = stored_values(file, pixels, index)
    if pixels.photometric == "PALETTE COLOR":
        return _palette_grey(values, file, pixels)
    if pixels.colour:
        if values.dtype == np.uint8 and pixels.stored == 8 and not rgb:
            return Grey(values)
        grey = luma(values) if rgb else values.astype(np.float32)
        return Grey(grey / np.float32(2**pixels.stored - 1))
    return _grey(values, file, pixels, index, window)


def _grey(
    values: Samples, file: DicomFile, pixels: PixelFormat, index: int, window: Choice
) -> Grey:
    display = read_display(file.dataset, pixels, index, little=file.little)
    return render_grey(values, pixels, display, window)


def _palette_grey(values: Samples, file: DicomFile, pixels: PixelFormat) -> Grey:
    tables = read_palette(file.dataset, little=file.little)
    axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.float64)
    colours = np.stack([table(axis) for table in tables], axis=-1)
    top = 255 if max(table.top for table in tables) <= 255 else 65535
    return Grey(places_of(values, pixels), luma(colours) / np.float32(top))
