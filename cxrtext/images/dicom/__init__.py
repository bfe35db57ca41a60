"""DICOM files: header, pixels and display.

Everything in here raises :class:`ImageError` where a file is damaged, cut off, not supported or
too large; its text does not name the file.  Memory and time are bounded whatever a file claims.
"""

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.dicom.display import Choice, read_display, read_palette, render_gray
from cxrtext.images.dicom.header import PixelFormat, choose_frame, pixel_format
from cxrtext.images.dicom.orientation import read_placement, upright
from cxrtext.images.dicom.pixels import DicomFile, places_of, read_file, stored_values
from cxrtext.images.gray import Gray, Samples, luma


def decode_dicom(data: bytes, frame: int | None, window: Choice, least: int | None = None) -> Gray:
    """Decode one frame; ``frame`` and ``window`` are those of `cxrtext.images.read_image`.

    Where ``least`` is given, the codec may halve both sides, but to no fewer pixels than that.
    """
    file = read_file(data)
    pixels = pixel_format(file.dataset)
    index = choose_frame(pixels.frames, frame)
    if window is not None and not pixels.photometric.startswith("MONOCHROME"):
        raise ImageError("is a color image, so it has no window; leave window out")
    placement = read_placement(file.dataset, pixels.rows, pixels.columns)
    if placement.stretched:
        least = None
    return upright(_shown(file, pixels, index, window, least), placement)


def _shown(
    file: DicomFile, pixels: PixelFormat, index: int, window: Choice, least: int | None
) -> Gray:
    values, rgb = stored_values(file, pixels, index, least)
    if pixels.photometric == "PALETTE COLOR":
        return _palette_gray(values, file, pixels)
    if pixels.color:
        if values.dtype == np.uint8 and pixels.stored == 8 and not rgb:
            return Gray(values)
        gray = luma(values) if rgb else values.astype(np.float32)
        return Gray(gray / np.float32(2**pixels.stored - 1))
    display = read_display(file.dataset, pixels, index, little=file.little)
    return render_gray(values, pixels, display, window)


def _palette_gray(values: Samples, file: DicomFile, pixels: PixelFormat) -> Gray:
    tables = read_palette(file.dataset, little=file.little)
    axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.float64)
    colors = np.stack([table(axis) for table in tables], axis=-1)
    top = 255 if max(table.top for table in tables) <= 255 else 65535
    return Gray(places_of(values, pixels), luma(colors) / np.float32(top))
