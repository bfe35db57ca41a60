"""What a compressed image says of its own size, read before any decoder sees it."""

import struct
from dataclasses import dataclass

from cxrtext.errors import ImageError

_NO_LENGTH = {0x01, *range(0xD0, 0xD9)}
_NOT_A_FRAME = {0xC4, 0xC8, 0xCC}
_DAMAGED = "the compressed image is damaged; copy or export the file again"
_LARGE = 2**24
_DENSEST = 4096
_J2K_START = b"\xff\x4f\xff\x51"


@dataclass(frozen=True, slots=True)
class Codestream:
    """Size and kind of samples of one compressed image.

    Args:
        height: Rows.
        width: Columns.
        components: Samples a pixel.
        precision: Bits a sample.
        signed: Whether samples are signed (JPEG 2000 only).
        luma_first: True and False where a JPEG itself tells YCbCr from RGB; None where not.
    """

    height: int
    width: int
    components: int
    precision: int
    signed: bool = False
    luma_first: bool | None = None


def check_end(data: bytes) -> None:
    """Refuse a JPEG, JPEG-LS or JPEG 2000 stream that lacks its end marker.

    Decoders fill what is missing with grey and say nothing.  Padding after the marker is allowed.

    Raises:
        ImageError: When the end is missing.
    """
    if not data.rstrip(b"\x00\xff").endswith(b"\xff\xd9"):
        raise ImageError("the compressed image is cut off; copy or export the file again")


def check_density(height: int, width: int, size: int) -> None:
    """Refuse a large picture in a few bytes: a blank one, made to keep a decoder busy.

    JPEG-LS and JPEG 2000 have no least size.  Pictures as large as a detector's pass: they are
    decoded within a second whatever they hold.

    Args:
        height: Rows.
        width: Columns.
        size: Bytes of the compressed image.

    Raises:
        ImageError: When it is.
    """
    if height * width > max(_LARGE, _DENSEST * size):
        raise ImageError(
            f"holds {width} x {height} pixels in {size} bytes, which can be no radiograph; "
            "export the file uncompressed"
        )


def read_jpeg(data: bytes) -> Codestream:
    """Find the frame header (SOF) of a JPEG or JPEG-LS stream.

    Raises:
        ImageError: When there is none.
    """
    jfif = False
    place = 2
    if data[:2] != b"\xff\xd8":
        raise ImageError(_DAMAGED)
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF or marker in _NO_LENGTH:
            place += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(data[place + 2 : place + 4], "big")
        segment = data[place + 4 : place + 2 + length]
        if marker == 0xE0 and segment.startswith(b"JFIF"):
            jfif = True
        if marker == 0xF7 or (0xC0 <= marker <= 0xCF and marker not in _NOT_A_FRAME):
            return _frame_header(segment, jfif)
        if marker in (0xDA, 0xD9) or length < 2:
            break
        place += 2 + length
    raise ImageError(_DAMAGED)


def _frame_header(segment: bytes, jfif: bool) -> Codestream:
    if len(segment) < 6 or len(segment) < 6 + 3 * segment[5]:
        raise ImageError(_DAMAGED)
    precision, height, width, components = struct.unpack(">BHHB", segment[:6])
    names = segment[6 : 6 + 3 * components : 3]
    luma_first = False if names in (b"RGB", b"rgb") else (True if jfif else None)
    return Codestream(height, width, components, precision, luma_first=luma_first)


def bare_jpeg2000(data: bytes) -> bytes:
    """Cut away the JP2 boxes that some writers put around a codestream, against the standard.

    Raises:
        ImageError: When there is no codestream within.
    """
    start = data.find(_J2K_START, 0, 4096)
    if start < 0:
        raise ImageError(_DAMAGED)
    return data[start:]


def read_jpeg2000(data: bytes) -> Codestream:
    """Read the SIZ segment of a bare JPEG 2000 codestream.

    Raises:
        ImageError: When it is damaged, or its components differ in size or depth.
    """
    if not data.startswith(_J2K_START) or len(data) < 42:
        raise ImageError(_DAMAGED)
    x1, y1, x0, y0 = struct.unpack(">4I", data[8:24])
    components = int.from_bytes(data[40:42], "big")
    described = data[42 : 42 + 3 * components]
    if not 1 <= components <= 4 or len(described) < 3 * components:
        raise ImageError(_DAMAGED)
    first = described[:3]
    if described != first * components or first[1:] != b"\x01\x01":
        raise ImageError("its colour channels differ in size; export the file uncompressed")
    return Codestream(
        y1 - y0, x1 - x0, components, (first[0] & 0x7F) + 1, signed=bool(first[0] & 0x80)
    )
