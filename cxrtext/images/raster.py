"""PNG and JPEG files, and pictures in memory."""

import struct

import numpy as np
from PIL import Image, ImageOps

from cxrtext.errors import ImageError
from cxrtext.images.gray import Floats, Gray, Samples, check_size, count, luma, stretched
from cxrtext.images.jpeg import check_density, decode_jpeg, read_jpeg
from cxrtext.images.limits import MAX_PIXELS_A_PNG_BYTE

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"

_STRIP = 2**18


def decode_raster(data: bytes) -> Gray:
    """Decode a PNG or a JPEG to gray.

    Transparent parts become black.  The orientation that a camera noted in a JPEG is applied.

    Returns:
        8-bit values over 255; 16-bit values from the 0.5th to the 99.5th percentile, as for DICOM
        without a window, because a PNG does not say which range its writer used.
    """
    if data.startswith(PNG_START):
        return _png(data)
    jpeg = read_jpeg(data)
    check_size(jpeg.height, jpeg.width)
    check_density(jpeg.height, jpeg.width, len(data))
    if jpeg.precision != 8 or jpeg.lossless or not jpeg.pieces:  # 12 bits, lossless, JPEG-LS
        raise ImageError("is a JPEG of an unusual kind; save it as a baseline JPEG or a PNG")
    image = decode_jpeg(data, jpeg)
    ImageOps.exif_transpose(image, in_place=True)  # else it copies
    return _gray(image)


def _png(data: bytes) -> Gray:
    """Decode a PNG with libpng: palettes and small depths become 8 bits, opacity comes last."""
    import imagecodecs

    if len(data) < 33 or data[12:16] != b"IHDR":
        raise ImageError("the PNG is damaged; copy or export the file again")
    width, height = struct.unpack(">2I", data[16:24])
    check_size(height, width)
    check_density(height, width, len(data), MAX_PIXELS_A_PNG_BYTE)
    try:
        values = np.asarray(imagecodecs.png_decode(data))
    except (RuntimeError, ValueError):
        raise ImageError("is damaged or cut off; copy or export the file again") from None
    if values.dtype == np.uint16:
        return _of_depth(values if values.ndim == 2 else _opaque_gray(values))
    return _gray(Image.fromarray(values))


def gray_of(picture: Samples | Image.Image) -> Gray:
    """Make an array or a Pillow image gray, as a file with its pixels would be (ImageError).

    An array is [H, W] or [H, W, 3] of uint8, uint16, or floats in [0, 1], black 0.
    """
    if isinstance(picture, Image.Image):
        check_size(picture.height, picture.width)
        if picture.mode not in ("F", "I"):
            return _gray(ImageOps.exif_transpose(picture))
        picture = np.asarray(picture)
    shape, kind = list(picture.shape), picture.dtype
    if len(shape) not in (2, 3) or shape[2:] not in ([], [3]):
        raise ImageError(f"is {shape}; an image is [H, W] or [H, W, 3]")
    check_size(*shape[:2])
    if kind == np.uint8:
        return _gray(Image.fromarray(picture))
    if kind == np.uint16:
        return _of_depth(picture if len(shape) == 2 else _opaque_gray(picture))
    if kind.kind != "f":
        raise ImageError(f"is {kind}; give uint8, uint16, or floats in [0, 1]")
    low, high = float(picture.min()), float(picture.max())
    if not (low >= 0 and high <= 1):  # neither holds for a NaN
        raise ImageError(f"is from {low:g} to {high:g}; give floats in [0, 1], or uint8 or uint16")
    return Gray((picture if len(shape) == 2 else luma(picture)).astype(np.float32))


def _opaque_gray(values: Samples) -> Samples:
    """Make 16-bit samples gray, [H, W, C]; with an even C, the last is the opacity."""
    channels = values.shape[-1]
    gray = luma(values[..., :3]) if channels > 2 else values[..., 0].astype(np.float32)
    if channels % 2 == 0:
        gray *= values[..., -1].astype(np.float32) / np.float32(65535)
    return np.clip(np.rint(gray), 0, 65535).astype(np.uint16)


def _gray(image: Image.Image) -> Gray:
    if image.mode.startswith("I"):
        return _of_depth(np.asarray(image))
    if image.mode in ("1", "L") and "transparency" not in image.info:
        return _of_depth(np.asarray(image.convert("L") if image.mode == "1" else image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return Gray(_in_strips(image.convert("RGBA")))
    return Gray(_in_strips(image.convert("RGB")))


def _in_strips(image: Image.Image) -> Floats:
    """Weigh colors into gray values, [H, W], a few rows at a time: floats take much memory."""
    pixels = np.asarray(image)
    gray = np.empty(pixels.shape[:2], dtype=np.float32)
    step = max(1, _STRIP // pixels.shape[1])
    for start in range(0, len(pixels), step):
        strip = pixels[start : start + step]
        if strip.shape[-1] == 3:
            gray[start : start + step] = luma(strip) / np.float32(255)
        else:
            opaque = strip[..., 3].astype(np.float32) / np.float32(255**2)
            gray[start : start + step] = luma(strip[..., :3]) * opaque
    return gray


def _of_depth(values: Samples) -> Gray:
    if values.dtype == np.uint8:
        return Gray(values)
    places = np.asarray(values, dtype=np.uint16)
    levels = stretched(np.arange(2**16, dtype=np.float64), count(places, 2**16))
    return Gray(places, levels.astype(np.float32))
