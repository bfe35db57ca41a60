"""PNG and JPEG files."""

from io import BytesIO

import numpy as np
from PIL import Image, ImageOps

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Floats, Samples, check_size, luma
from cxrtext.images.codestream import read_jpeg

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"

# A 16-bit PNG holds what a detector of 10, 12 or 14 bits gave as often as 16 bits.
_DETECTOR_BITS = (10, 12, 14, 16)


def decode_raster(data: bytes) -> Floats:
    """Decode a PNG or a JPEG to grey.

    Transparent parts are black.  The orientation that a camera noted is applied.

    Args:
        data: The whole file.

    Returns:
        [1, H, W] in [0, 1]: 8-bit values over 255; 16-bit values over the largest value of the
        shallowest detector (10, 12, 14, 16 bits) that could have given them.

    Raises:
        ImageError: When the file is damaged, cut off or too large.
    """
    check_size(*_size(data))
    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG")) as image:
            image.load()
            upright = ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise ImageError("is damaged or cut off; copy or export the file again") from None
    return _grey(upright)[np.newaxis]


def _size(data: bytes) -> tuple[int, int]:
    if data.startswith(PNG_START):
        if len(data) < 24 or data[12:16] != b"IHDR":
            raise ImageError("the PNG is damaged; copy or export the file again")
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    stream = read_jpeg(data)
    return stream.height, stream.width


def _grey(image: Image.Image) -> Floats:
    if image.mode.startswith("I"):
        return _sixteen_bit(np.asarray(image))
    if image.mode in ("1", "L"):
        # In one pass, which is twice as quick as a conversion and then a division.
        grey: Floats = np.divide(np.asarray(image.convert("L")), np.float32(255), dtype=np.float32)
        return grey
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        pixels = np.asarray(image.convert("RGBA"))
        return luma(pixels[..., :3]) * (pixels[..., 3].astype(np.float32) / np.float32(255**2))
    return luma(np.asarray(image.convert("RGB"))) / np.float32(255)


def _sixteen_bit(values: Samples) -> Floats:
    peak = int(values.max())
    bits = next(bits for bits in _DETECTOR_BITS if peak < 2**bits)
    return values.astype(np.float32) / np.float32(2**bits - 1)
