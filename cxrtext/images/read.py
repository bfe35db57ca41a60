"""Read any image file: PNG, JPEG or DICOM, detected from the content."""

from pathlib import Path

from cxrtext.errors import ImageError
from cxrtext.images.dicom import decode_dicom
from cxrtext.images.dicom.file import is_dicom, looks_headless
from cxrtext.images.gray import Floats, Gray
from cxrtext.images.raster import JPEG_START, PNG_START, decode_raster
from cxrtext.images.source import named_errors, stored_bytes


def read_image(path: Path, *, frame: int | None = None) -> Floats:
    """Read a radiograph as gray values, black 0 and white 1, bone bright and air dark.

    The kind of file is detected from its content, not its name.  In DICOM the modality and the
    value-of-interest transformation are applied (the first VOI LUT or window; without one, from
    the 0.5th to the 99.5th percentile) and MONOCHROME1 is inverted; overlays are ignored.  PNG and
    JPEG are read as they are, color made gray.

    Args:
        frame: Which frame, from 0; optional unless the file holds several.

    Returns:
        [1, H, W] float32 in [0, 1], all finite.

    Raises:
        ImageError: The file cannot be read; one line that names it, the fault and what to do.
    """
    return read_image_bytes(stored_bytes(path), str(path), frame=frame)


def read_image_bytes(data: bytes, name: str, *, frame: int | None = None) -> Floats:
    """Read an image that was sent rather than stored; see `read_image`."""
    gray = decode_image(data, name, frame=frame)
    with named_errors(name):
        return gray.floats()


def decode_image(
    data: bytes, name: str, *, frame: int | None = None, least: int | None = None
) -> Gray:
    """Decode an image up to where 8 bits or floats can be made of it; see `read_image`.

    With ``least``, a codec that can (JPEG 2000) may halve both sides, repeatedly, while the
    shorter one keeps at least that many pixels.
    """
    with named_errors(name):
        return _decode(bytes(data), frame, least)


def _decode(data: bytes, frame: int | None, least: int | None) -> Gray:
    if not data:
        raise ImageError("is empty; copy or export the file again")
    if is_dicom(data):
        return decode_dicom(data, frame, least)
    if data.startswith((PNG_START, JPEG_START)):
        if frame not in (None, 0):
            raise ImageError("holds 1 frame; leave frame out or pass frame=0")
        return decode_raster(data)
    if looks_headless(data):
        raise ImageError(
            "is DICOM data without its file header, so its encoding is unknown; "
            "export it as a DICOM Part 10 file"
        )
    raise ImageError("is not a PNG, JPEG or DICOM file; convert it to one of these")
