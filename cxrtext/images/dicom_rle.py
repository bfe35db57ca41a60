"""RLE frames of DICOM: checked here, decoded by pylibjpeg-rle.

That decoder drops surplus samples and, where a run overruns, panics; the check costs about as
much as the decoding and rules out both.

Source: DICOM PS3.5 annex G.
"""

import struct
from itertools import pairwise

from cxrtext.errors import ImageError
from cxrtext.images.dicom_header import PixelFormat

_HEADER = 64


def decompress_rle(data: bytes, pixels: PixelFormat) -> bytes:
    """Decode one RLE frame.

    Args:
        data: The frame.
        pixels: What the header tells; the frame must agree.

    Returns:
        Raw little-endian samples, colours in planes.

    Raises:
        ImageError: When segments are missing, or do not decode to the header's size.
    """
    import rle.utils

    wanted = pixels.samples * pixels.allocated // 8
    if pixels.allocated < 8 or len(data) < _HEADER:
        raise ImageError("its RLE data is cut off; copy or export the file again")
    count, *offsets = struct.unpack("<16L", data[:_HEADER])
    places = [*offsets[:wanted], len(data)]
    if count != wanted or places[0] != _HEADER or sorted(places) != places:
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
        control = data[place]
        if control < 128:
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
