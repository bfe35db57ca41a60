"""Decompress one DICOM frame; each transfer syntax has one decoder.

GDCM, pylibjpeg-libjpeg, and imagecodecs' lossless JPEG and HTJ2K decoders other than
``jpeg8_decode`` and ``jpeg2k_decode`` are not used: they crash the interpreter on damaged frames,
or accept them.
"""

from contextlib import suppress
from dataclasses import replace
from io import BytesIO

import numpy as np
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images.dicom.file import JPEG, JPEG_2000
from cxrtext.images.dicom.header import PixelFormat
from cxrtext.images.gray import Samples
from cxrtext.images.jpeg import (
    Codestream,
    bare_jpeg2000,
    check_density,
    check_end,
    check_whole,
    decode_jpeg,
    read_jpeg,
    read_jpeg2000,
)

_RLE_SIZE = (
    "its RLE data has another size than its header tells, or is cut off; export the file again"
)


def decompress(
    data: bytes, syntax: str, pixels: PixelFormat, least: int | None = None
) -> tuple[Samples, Codestream]:
    """Decode one JPEG, JPEG-LS or JPEG 2000 frame, which must agree with the header.

    Args:
        least: JPEG 2000 may come out with its sides halved, quartered and so on, but none shorter
            than this; None decodes the whole frame.

    Returns:
        [H, W] or [H, W, 3] from the decoder, and what the frame says about itself.
    """
    check_end(data)
    if syntax in JPEG_2000:
        data = bare_jpeg2000(data)
    stream = read_jpeg2000(data) if syntax in JPEG_2000 else read_jpeg(data)
    _check_agreement(stream, pixels)
    check_density(stream.height, stream.width, len(data))
    halved = 0
    if syntax in JPEG_2000:
        shorter = min(stream.height, stream.width)
        while least and halved < stream.levels and shorter >> (halved + 1) >= least:
            halved += 1
        samples, halved = _jpeg_2000(data, stream, halved)
    elif syntax in JPEG:
        samples, stream = _jpeg(data, stream)
    else:
        import imagecodecs

        samples = np.asarray(imagecodecs.jpegls_decode(data))
    size = tuple(-(-side // 2**halved) for side in (pixels.rows, pixels.columns))
    if samples.shape != (*size, *((3,) if pixels.color else ())):
        raise ImageError("decodes to another size than its header tells; export the file again")
    return samples, stream


def _check_agreement(stream: Codestream, pixels: PixelFormat) -> None:
    if (stream.height, stream.width) != (pixels.rows, pixels.columns):
        raise ImageError(
            "its compressed image has another size than its header tells; export the file again"
        )
    if stream.components != pixels.samples:
        raise ImageError(
            "its compressed image has other colors than its header tells; export the file again"
        )
    if not 1 <= stream.precision <= 16:
        raise ImageError("its compressed image has an unusual depth; export the file again")


def _jpeg(data: bytes, stream: Codestream) -> tuple[Samples, Codestream]:
    if stream.precision == 8 and not stream.lossless:
        image = decode_jpeg(data, stream, raw=stream.luma_first is not False)
        if image.info.get("adobe_transform") == 1:  # Pillow has made it RGB
            stream = replace(stream, luma_first=False)
        return np.asarray(image), stream
    samples = _jpeg8(data, stream)
    check_whole(data, stream, samples, lambda continued: _jpeg8(continued, stream))
    return samples, stream


def _jpeg8(data: bytes, stream: Codestream) -> Samples:
    import imagecodecs

    if stream.components == 1:
        return np.asarray(imagecodecs.jpeg8_decode(data))
    # The same space in and out leaves the samples as they are stored.
    return np.asarray(imagecodecs.jpeg8_decode(data, colorspace="RGB", outcolorspace="RGB"))


def _jpeg_2000(data: bytes, stream: Codestream, halved: int) -> tuple[Samples, int]:
    """Decode, and say how often the sides were halved: for some sizes Pillow manages fewer."""
    if stream.components == 1 or stream.precision <= 8:  # Pillow reduces deeper colors to 8 bits
        for times in range(halved, 0, -1):
            with suppress(OSError, ValueError, SyntaxError):
                return _halved_jpeg_2000(data, stream, times), times
    import imagecodecs

    return np.asarray(imagecodecs.jpeg2k_decode(data)), 0


def _halved_jpeg_2000(data: bytes, stream: Codestream, halved: int) -> Samples:
    """Decode with Pillow, and undo its stretching of values to 8 or 16 unsigned bits."""
    with Image.open(BytesIO(data), formats=("JPEG2000",)) as image:
        image.reduce = halved  # type: ignore[method-assign, assignment]
        image.load()
        values = np.asarray(image).astype(np.int32)
    container = 8 if stream.precision <= 8 else 16
    if stream.signed:
        values -= 1 << (container - 1)
    return values >> (container - stream.precision)


def decompress_rle(data: bytes, pixels: PixelFormat) -> Samples:
    """Decode one RLE frame to little-endian storage cells, colors in planes."""
    import imagecodecs

    kind = np.dtype(f"<u{pixels.allocated // 8}")
    try:
        cells = np.frombuffer(imagecodecs.dicomrle_decode(data, kind), kind)
    except (RuntimeError, ValueError):
        raise ImageError(_RLE_SIZE) from None
    if cells.size != pixels.samples * pixels.rows * pixels.columns:
        raise ImageError(_RLE_SIZE)
    return cells
