"""PNG and JPEG files."""

from io import BytesIO

import numpy as np
from PIL import Image, ImageOps

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Samples, check_size, luma
from cxrtext.images.codestream import read_jpeg
from cxrtext.images.grey import Grey

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"

# A 16-bit PNG holds what a detector of 10, 12 or 14 bits gave as often as 16 bits.
_DETECTOR_BITS = (10, 12, 14, 16)

# Depth, colour type, compression, filter and interlace of a PNG's IHDR.
_PLAIN_GREY = (b"\x08\0\0\0\0", b"\x10\0\0\0\0")


def decode_raster(data: bytes) -> Grey:
    """Decode a PNG or a JPEG to grey.

    Transparent parts are black.  The orientation that a camera noted is applied.

    Args:
        data: The whole file.

    Returns:
        8-bit values over 255; 16-bit values over the largest value of the shallowest detector
        (10, 12, 14, 16 bits) that could have given them.

    Raises:
        ImageError: When the file is damaged, cut off or too large.
    """
    height, width = _size(data)
    check_size(height, width)
    values = _plain_png(data, height, width)
    if values is not None:
        return _of_depth(values)
    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG")) as image:
            image.load()
            ImageOps.exif_transpose(image, in_place=True)  # else it copies
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise ImageError("is damaged or cut off; copy or export the file again") from None
    return _grey(image)


def _size(data: bytes) -> tuple[int, int]:
    if data.startswith(PNG_START):
        if len(data) < 24 or data[12:16] != b"IHDR":
            raise ImageError("the PNG is damaged; copy or export the file again")
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    stream = read_jpeg(data)
    return stream.height, stream.width


def _plain_png(data: bytes, height: int, width: int) -> Samples | None:
    """Decode a PNG of plain grey; libpng takes a seventh less time for it than Pillow.

    Returns:
        [H, W] of 8 or 16 bits; None where the file is something else or not in order, of which
        Pillow has the last word.
    """
    plain = data.startswith(PNG_START) and data[24:29] in _PLAIN_GREY
    if not plain or b"tRNS" in data or b"eXIf" in data:
        return None
    import imagecodecs

    try:
        values = np.asarray(imagecodecs.png_decode(data))
    except (RuntimeError, ValueError):
        return None
    return values if values.shape == (height, width) else None


def _grey(image: Image.Image) -> Grey:
    if image.mode.startswith("I"):
        return _of_depth(np.asarray(image))
    if image.mode in ("1", "L"):
        return _of_depth(np.asarray(image.convert("L") if image.mode == "1" else image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        pixels = np.asarray(image.convert("RGBA"))
        opaque = pixels[..., 3].astype(np.float32) / np.float32(255**2)
        return Grey(luma(pixels[..., :3]) * opaque)
    return Grey(luma(np.asarray(image.convert("RGB"))) / np.float32(255))


def _of_depth(values: Samples) -> Grey:
    if values.dtype == np.uint8:
        return Grey(values)
    peak = int(values.max())
    bits = next(bits for bits in _DETECTOR_BITS if peak < 2**bits)
    levels = np.divide(np.arange(2**bits), np.float32(2**bits - 1), dtype=np.float32)
    return Grey(values, levels)
