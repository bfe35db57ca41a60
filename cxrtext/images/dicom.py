"""A DICOM file to grey values."""

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Floats, Samples, luma
from cxrtext.images.dicom_display import read_display
from cxrtext.images.dicom_file import DicomFile, read_file
from cxrtext.images.dicom_grey import Choice, render_grey
from cxrtext.images.dicom_header import PixelFormat, choose_frame, pixel_format
from cxrtext.images.dicom_samples import stored_values
from cxrtext.images.dicom_tables import read_palette


def decode_dicom(data: bytes, frame: int | None, window: Choice) -> Floats:
    """Decode one frame of a DICOM file.

    Args:
        data: The whole file.
        frame: Which frame, from 0; None where there is one only.
        window: Contrast, for greyscale; see `cxrtext.images.read_image`.

    Returns:
        [1, H, W], nominally in [0, 1].

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
        return _palette_grey(values, file, pixels)[np.newaxis]
    if pixels.colour:
        grey = luma(values) if rgb else values.astype(np.float32)
        return grey[np.newaxis] / np.float32(2**pixels.stored - 1)
    return _grey(values, file, pixels, index, window)[np.newaxis]


def _grey(
    values: Samples, file: DicomFile, pixels: PixelFormat, index: int, window: Choice
) -> Floats:
    display = read_display(file.dataset, pixels, index, little=file.little)
    return render_grey(values, pixels, display, window)


def _palette_grey(values: Samples, file: DicomFile, pixels: PixelFormat) -> Floats:
    tables = read_palette(file.dataset, little=file.little)
    axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.float64)
    colours = np.stack([table(axis) for table in tables], axis=-1)
    top = 255 if max(table.top for table in tables) <= 255 else 65535
    return np.asarray(luma(colours)[values - pixels.lowest] / np.float32(top), dtype=np.float32)
