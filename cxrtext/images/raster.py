"""PNG and JPEG files, and pictures that lie in memory."""

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image, ImageOps

from cxrtext.errors import ImageError
from cxrtext.images.gray import Floats, Gray, Samples, check_size, count, luma, stretched
from cxrtext.images.jpeg import DAMAGED, FedJpeg, check_density, check_whole, read_jpeg, read_scans

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PLAIN_GRAY = b"\x08\0\0\0\0"  # depth, color type, compression, filter and interlace of its IHDR
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2))
_ADAM7 = (*_PASSES, (0, 1, 1, 2))
"""First column and row, and steps, of each pass of an interlaced PNG."""

_PIECE_BYTES, _STEP_BYTES = 2**16, 2**20
_STRIP = 2**18
_MAX_PIXELS_A_BYTE = 64
"""Of a large PNG; radiographs have less than ten, and a blank picture of 8 bits a thousand."""
_UNREADABLE = "is damaged or cut off; copy or export the file again"


def decode_raster(data: bytes) -> Gray:
    """Decode a PNG or a JPEG to gray.

    Transparent parts are black.  The orientation that a camera noted is applied.

    Returns:
        8-bit values over 255; 16-bit values, of which a PNG does not tell the range that its
        writer used, from the 0.5th to the 99.5th percentile, as DICOM without a window.
    """
    height, width = _size(data)
    check_size(height, width)
    if data.startswith(PNG_START):
        check_density(height, width, len(data), _MAX_PIXELS_A_BYTE)
    try:
        if not data.startswith(PNG_START):
            return _gray(_jpeg(data))
        if (values := _by_libpng(data, height, width)) is not None:
            return values
        _check_image_data(data)
        return _gray(_upright(BytesIO(data), "PNG"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise ImageError(_UNREADABLE) from None


def gray_of(picture: Samples | Image.Image) -> Gray:
    """Make gray of an array or a Pillow image, as of a file with its pixels (ImageError).

    An array is [H, W] or [H, W, 3], of uint8 or uint16, or floats in [0, 1], black 0.
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
    if not (low >= 0 and high <= 1):  # of a NaN neither is true
        raise ImageError(f"is from {low:g} to {high:g}; give floats in [0, 1], or uint8 or uint16")
    return Gray((picture if len(shape) == 2 else luma(picture)).astype(np.float32))


def _upright(source: BytesIO, kind: str) -> Image.Image:
    with Image.open(source, formats=(kind,)) as image:
        image.load()
        ImageOps.exif_transpose(image, in_place=True)  # else it copies
    return image


def _jpeg(data: bytes) -> Image.Image:
    """Decode a JPEG, of which no part may be missing."""
    scans = read_scans(data)
    if not scans.plain:
        image = _upright(BytesIO(data), "JPEG")
        check_whole(
            data,
            scans,
            np.asarray(image),
            lambda continued: np.asarray(_upright(BytesIO(continued), "JPEG")),
        )
        return image
    source = FedJpeg(data, scans)
    image = _upright(source, "JPEG")
    if source.left_over:
        raise ImageError(DAMAGED)
    return image


def _size(data: bytes) -> tuple[int, int]:
    if data.startswith(PNG_START):
        if len(data) < 33 or data[12:16] != b"IHDR":
            raise ImageError("the PNG is damaged; copy or export the file again")
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    stream = read_jpeg(data)
    return stream.height, stream.width


def _by_libpng(data: bytes, height: int, width: int) -> Gray | None:
    """Decode a PNG of plain gray or of 16 bits; None for others: Pillow has the last word.

    libpng takes a seventh less time for plain gray than Pillow, which keeps 8 of 16 bits of color.
    """
    depth, color = data[24], data[25]
    plain = data[24:29] == _PLAIN_GRAY and b"tRNS" not in data
    if not (plain or (depth == 16 and color in (0, 2, 4, 6))) or b"eXIf" in data:
        return None
    import imagecodecs

    try:
        values = np.asarray(imagecodecs.png_decode(data))
    except (RuntimeError, ValueError):
        if not plain and color:  # of which Pillow would keep 8 bits, and so another contrast
            raise ImageError(_UNREADABLE) from None
        return None
    if values.shape[:2] != (height, width) or values.dtype != (np.uint8 if plain else np.uint16):
        return None
    return _of_depth(values if values.ndim == 2 else _opaque_gray(values))


def _opaque_gray(values: Samples) -> Samples:
    """Make gray of 16-bit samples, [H, W, C], of which an even number ends with the opacity."""
    channels = values.shape[-1]
    gray = luma(values[..., :3]) if channels > 2 else values[..., 0].astype(np.float32)
    if channels % 2 == 0:
        gray *= values[..., -1].astype(np.float32) / np.float32(65535)
    return np.clip(np.rint(gray), 0, 65535).astype(np.uint16)


def _check_image_data(data: bytes) -> None:
    """Refuse a PNG whose rows are missing or damaged, which Pillow leaves black."""
    inflater = zlib.decompressobj()
    wanted = _image_bytes(data)
    place, found, sound = len(PNG_START), 0, True
    while found <= wanted and not inflater.eof and place + 8 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        if data[place + 4 : place + 8] == b"IDAT":
            found += _inflated_bytes(inflater, data[place + 8 : place + 8 + length], wanted - found)
            end = place + 8 + length
            sound &= zlib.crc32(data[place + 4 : end]) == int.from_bytes(data[end : end + 4], "big")
        place += 12 + length
    # Of rows without more after them, the checksum of the inflated data was compared as well; alone
    # it passes neighbors that change by -1, 2, -1.
    if found < wanted or not sound or (found == wanted and not inflater.eof):
        raise ImageError(_UNREADABLE)


def _inflated_bytes(inflater: "zlib._Decompress", packed: bytes, wanted: int) -> int:
    """Inflate some more, a little at a time, until there is more than is wanted; count it."""
    found = 0
    for start in range(0, len(packed), _PIECE_BYTES):
        piece = packed[start : start + _PIECE_BYTES]
        while piece and found <= wanted:
            try:
                found += len(inflater.decompress(piece, _STEP_BYTES))
            except zlib.error:
                raise ImageError(_UNREADABLE) from None
            piece = inflater.unconsumed_tail
    return found


def _image_bytes(data: bytes) -> int:
    """Count the bytes of a PNG's rows, each of which starts with the number of its filter."""
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    bits = depth * _CHANNELS.get(color, 1)
    total = 0
    for left, top, across, down in _ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total


def _gray(image: Image.Image) -> Gray:
    if image.mode.startswith("I"):
        return _of_depth(np.asarray(image))
    if image.mode in ("1", "L") and "transparency" not in image.info:
        return _of_depth(np.asarray(image.convert("L") if image.mode == "1" else image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return Gray(_in_strips(image.convert("RGBA")))
    return Gray(_in_strips(image.convert("RGB")))


def _in_strips(image: Image.Image) -> Floats:
    """Weigh colors into gray values, [H, W], some rows at a time: floats take much memory."""
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
