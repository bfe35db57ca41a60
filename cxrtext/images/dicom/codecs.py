"""Decompressing one DICOM frame, each transfer syntax by one named decoder.

Not used, because they crash the interpreter on damaged frames or accept them: GDCM,
pylibjpeg-libjpeg, and the lossless JPEG decoders of imagecodecs other than ``jpeg8_decode``.

The decoder of RLE drops surplus samples and, where a run overruns, panics; the check of its
segments costs about as much as the decoding and rules out both.

Source of RLE: DICOM PS3.5 annex G.
"""

import struct
from io import BytesIO
from itertools import pairwise

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
    read_jpeg,
    read_jpeg2000,
    read_scans,
)

_RLE_HEADER_BYTES = 64


def decompress(data: bytes, syntax: str, pixels: PixelFormat) -> tuple[Samples, Codestream]:
    """Decode one JPEG, JPEG-LS or JPEG 2000 frame, which must agree with the header.

    Returns:
        [H, W] or [H, W, 3] as the decoder gives them, and what the frame says of itself.
    """
    check_end(data)
    if syntax in JPEG_2000:
        data = bare_jpeg2000(data)
        stream = read_jpeg2000(data)
        decode = _jpeg_2000
    else:
        stream = read_jpeg(data)
        decode = _jpeg if syntax in JPEG else _jpeg_ls
    _check_agreement(stream, pixels)
    check_density(stream.height, stream.width, len(data))
    scans = read_scans(data) if decode is _jpeg else None
    samples = decode(data, stream)
    if scans is not None:
        check_whole(data, scans, samples, lambda continued: _jpeg(continued, stream))
    if samples.shape != (pixels.rows, pixels.columns) + ((3,) if pixels.color else ()):
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
    if not 1 <= stream.precision <= 32:
        raise ImageError("its compressed image has an unusual depth; export the file again")


def _jpeg(data: bytes, stream: Codestream) -> Samples:
    import imagecodecs

    if stream.components == 1:
        return np.asarray(imagecodecs.jpeg8_decode(data))
    # The same space in and out leaves the samples as they are stored.
    return np.asarray(imagecodecs.jpeg8_decode(data, colorspace="RGB", outcolorspace="RGB"))


def _jpeg_ls(data: bytes, stream: Codestream) -> Samples:
    import jpeg_ls

    decoded, info = jpeg_ls.decode_pixel_data(data)
    flat = np.frombuffer(decoded, dtype="<u2" if stream.precision > 8 else "u1")
    size = (stream.height, stream.width)
    if stream.components == 1:
        return flat.reshape(size)
    if info["interleave_mode"] == 0:
        return np.moveaxis(flat.reshape(stream.components, *size), 0, -1)
    return flat.reshape(*size, stream.components)


def _jpeg_2000(data: bytes, stream: Codestream) -> Samples:
    # Pillow reduces colors deeper than 8 bits to 8, and cannot hold more than 16 bits.
    if stream.precision <= (8 if stream.components > 1 else 16):
        try:
            return _pillow_jpeg_2000(data, stream)
        except (OSError, ValueError, SyntaxError):
            pass  # the second decoder has the last word
    import openjpeg.utils

    return np.asarray(openjpeg.utils.decode(data))


def _pillow_jpeg_2000(data: bytes, stream: Codestream) -> Samples:
    """Decode with Pillow, and undo how it stretches values to 8 or 16 unsigned bits."""
    with Image.open(BytesIO(data), formats=("JPEG2000",)) as image:
        image.load()
        values = np.asarray(image).astype(np.int32)
    container = 8 if stream.precision <= 8 else 16
    if stream.signed:
        values -= 1 << (container - 1)
    return values >> (container - stream.precision)


def decompress_rle(data: bytes, pixels: PixelFormat) -> bytes:
    """Decode one RLE frame to raw little-endian samples, colors in planes."""
    import rle.utils

    wanted = pixels.samples * pixels.allocated // 8
    if pixels.allocated < 8 or len(data) < _RLE_HEADER_BYTES:
        raise ImageError("its RLE data is cut off; copy or export the file again")
    count, *offsets = struct.unpack("<16L", data[:_RLE_HEADER_BYTES])
    places = [*offsets[:wanted], len(data)]
    if count != wanted or places[0] != _RLE_HEADER_BYTES or sorted(places) != places:
        raise ImageError("its RLE data contradicts its header; export the file uncompressed")
    for start, stop in pairwise(places):
        _check_segment(data, start, stop, pixels.rows * pixels.columns)
    return bytes(
        rle.utils.decode_pixel_data(
            data,
            version=2,
            rows=pixels.rows,
            columns=pixels.columns,
            bits_allocated=pixels.allocated,
            byteorder="<",
        )
    )


def _check_segment(data: bytes, start: int, stop: int, wanted: int) -> None:
    """Count the bytes a segment decodes to; at most one byte of padding may follow."""
    place, decoded = start, 0
    while decoded < wanted and place < stop:
        if (control := data[place]) < 128:
            decoded += control + 1
            place += control + 2
        elif control > 128:
            decoded += 257 - control
            place += 2
        else:
            place += 1
    if decoded != wanted or not 0 <= stop - place <= 1:
        raise ImageError(
            "its RLE data has another size than its header tells, or is cut off; "
            "export the file again"
        )
