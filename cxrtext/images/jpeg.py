"""JPEG, JPEG-LS and JPEG 2000: the size they state, and whether a JPEG is complete.

Sizes are read before any decoder sees the data.  libjpeg fills missing data with gray and only
counts a warning, which neither Pillow nor imagecodecs passes on.  So a JPEG is decoded without its
end marker, or twice, the second time with other bytes added where the data of each scan end: they
are ignored if the scan is whole, and become picture if it is not.

Source: ITU-T T.81, annexes B, F, G and H.
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images.gray import Samples
from cxrtext.images.limits import ALWAYS_DECODED, MAX_PIXELS_A_BYTE, MAX_SCANS

CUT = "the compressed image is cut off; copy or export the file again"
DAMAGED = "the compressed image is damaged; copy or export the file again"

_J2K_START = b"\xff\x4f\xff\x51"

_PROGRESSIVE, _LOSSLESS, _LS, _SCAN, _END = 0xC2, 0xC3, 0xF7, 0xDA, 0xD9
_FRAMES = {0xC0, 0xC1, _PROGRESSIVE, _LOSSLESS, _LS}
_OTHER_FRAMES = {*range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)}
_MARKER = re.compile(rb"\xff+([^\xff])", re.DOTALL)
# Starting each with one plain byte makes them twenty times as quick.
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")
_SAME_DIFFERENCES = 16
_FILL = bytes((37 * n * n + 91 * n + 5) % 251 for n in range(64))
"""Stands in for missing data: any bytes but 0xFF."""
_ONES = b"\xff\0" * 8  # what libjpeg reads ahead
_LAST_BYTES = 8


@dataclass(frozen=True, slots=True)
class Codestream:
    """Size and kind of samples of one compressed image."""

    height: int
    width: int
    components: int
    precision: int
    signed: bool = False  # whether samples are signed (JPEG 2000 only)
    levels: int = 0  # how often both sides can be halved (JPEG 2000 only)
    # True for YCbCr and False for RGB, if the JPEG itself says; otherwise None.
    luma_first: bool | None = None
    lossless: bool = False  # JPEG only
    predictor: int = 0  # of a lossless JPEG
    scans: int = 0  # of a JPEG
    # of a JPEG, (start, stop) of its entropy-coded data, also split at restart markers
    pieces: tuple[tuple[int, int], ...] = ()


def check_end(data: bytes) -> None:
    """Refuse a JPEG, JPEG-LS or JPEG 2000 stream without its end marker.

    Decoders silently fill missing data with gray.  Padding after the marker is allowed.
    """
    if not data.rstrip(b"\x00\xff").endswith(b"\xff\xd9"):
        raise ImageError(CUT)


def check_density(height: int, width: int, size: int, most: int = MAX_PIXELS_A_BYTE) -> None:
    """Refuse a large picture in a few bytes: a blank one, made to keep a decoder busy.

    JPEG-LS and JPEG 2000 have no minimum size.
    """
    if height * width > max(ALWAYS_DECODED, most * size):
        raise ImageError(
            f"holds {width} x {height} pixels in {size} bytes, too few for a radiograph; "
            "export the file uncompressed"
        )


def read_jpeg(data: bytes) -> Codestream:
    """Read all markers of a JPEG, and check that they make a picture.

    The markers of a JPEG-LS are read up to its frame header.
    """
    stream, frame, names, jfif = None, 0, b"", False
    scans, predictor, missing = 0, 0, set[tuple[int, str]]()
    pieces: list[tuple[int, int]] = []
    for marker, body, place in _segments(data):
        jfif |= marker == 0xE0 and body.startswith(b"JFIF")
        if marker in _OTHER_FRAMES:
            raise ImageError("is a JPEG of an unusual kind; save it as a baseline JPEG or a PNG")
        if marker in _FRAMES:
            if stream or len(body) < 6 or len(body) != 6 + 3 * body[5]:
                raise ImageError(DAMAGED)
            precision, height, width, components = struct.unpack(">BHHB", body[:6])
            frame, names = marker, body[6::3]
            luma_first = False if names in (b"RGB", b"rgb") else (True if jfif else None)
            stream = Codestream(height, width, components, precision, luma_first=luma_first)
            if marker == _LS:
                return stream
            missing = {(name, kind) for name in names for kind in ("DC", "AC")}
        elif marker == _SCAN:
            scans += 1
            if not stream or scans > MAX_SCANS:
                raise ImageError(DAMAGED)
            complete, predictor = _scan_header(body, names, progressive=frame == _PROGRESSIVE)
            missing -= complete
            pieces += _pieces(data, place)
    if not stream:
        raise ImageError(DAMAGED)
    if missing:
        raise ImageError(CUT)
    return replace(
        stream,
        lossless=frame == _LOSSLESS,
        predictor=predictor,
        scans=scans,
        pieces=tuple(pieces),
    )


def _segments(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield each marker before the end marker, its segment, and the place after it."""
    place = 2
    if data[:2] != b"\xff\xd8":
        raise ImageError(DAMAGED)
    while True:
        if (start := _MARKER.match(data, place)) is None:
            raise ImageError(DAMAGED if data[place:].strip(b"\xff") else CUT)
        marker, place = start.group(1)[0], start.end()
        if marker == _END:
            return
        if marker == 0 or 0xD0 <= marker <= 0xD8:
            raise ImageError(DAMAGED)
        if marker == 0x01:  # has no segment
            continue
        if (length := int.from_bytes(data[place : place + 2], "big")) < 2:
            raise ImageError(DAMAGED)
        if place + length > len(data):
            raise ImageError(CUT)
        body, place = data[place + 2 : place + length], place + length
        yield marker, body, place
        if marker == _SCAN:
            place = _after_scan(data, place)


def _after_scan(data: bytes, place: int) -> int:
    if (end := _NEXT_MARKER.search(data, place)) is None:
        raise ImageError(CUT)
    return end.start()


def _pieces(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Find the entropy-coded data of a scan; restart markers count from 0 to 7."""
    end = _after_scan(data, start)
    for number, restart in enumerate(_RESTART.finditer(data, start, end)):
        if restart.group()[-1] & 7 != number % 8:
            raise ImageError(DAMAGED)
        yield start, restart.start()
        start = restart.end()
    yield start, end


def _scan_header(body: bytes, names: bytes, *, progressive: bool) -> tuple[set[Any], int]:
    """The coefficients that a scan completes, and its first one, or predictor."""
    count = body[0] if body else 0
    wanted = body[1 : 1 + 2 * count : 2]
    if not count or len(body) != 4 + 2 * count or not set(wanted) <= set(names):
        raise ImageError(DAMAGED)
    first, last, bits = body[-3:]
    kinds = ["DC", "AC"]
    if progressive:
        kinds = [] if bits & 15 else ["DC"] * (first == 0) + ["AC"] * (last == 63)
    return {(name, kind) for name in wanted for kind in kinds}, first


def bare_jpeg2000(data: bytes) -> bytes:
    """Strip the JP2 boxes that some writers put around a codestream, against the standard."""
    if (start := data.find(_J2K_START, 0, 4096)) < 0:
        raise ImageError(DAMAGED)
    return data[start:]


def read_jpeg2000(data: bytes) -> Codestream:
    """Read the SIZ segment of a bare JPEG 2000 codestream."""
    if not data.startswith(_J2K_START) or len(data) < 42:
        raise ImageError(DAMAGED)
    x1, y1, x0, y0 = struct.unpack(">4I", data[8:24])
    components = int.from_bytes(data[40:42], "big")
    described = data[42 : 42 + 3 * components]
    if not 1 <= components <= 4 or len(described) < 3 * components:
        raise ImageError(DAMAGED)
    first = described[:3]
    if described != first * components or first[1:] != b"\x01\x01":
        raise ImageError("its color channels differ in size; export the file uncompressed")
    return Codestream(
        y1 - y0,
        x1 - x0,
        components,
        (first[0] & 0x7F) + 1,
        signed=bool(first[0] & 0x80),
        # If the picture does not begin at 0, its halves are rounded differently.
        levels=0 if x0 or y0 else _levels(data),
    )


def _levels(data: bytes) -> int:
    """Read a codestream's number of wavelet decompositions (COD)."""
    place = 2
    while place + 10 <= len(data) and data[place] == 0xFF and data[place + 1] != 0x90:
        if data[place + 1] == 0x52:
            return min(data[place + 9], 32)
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return 0


def decode_jpeg(data: bytes, jpeg: Codestream, *, raw: bool = False) -> Image.Image:
    """Decode a complete JPEG of 8 bits.

    ``raw`` leaves three samples as they are stored, unless an Adobe marker says what they are.
    """
    source = FedJpeg(data, jpeg) if jpeg.scans == 1 else BytesIO(data)
    image = _decoded(source, raw=raw)
    if isinstance(source, FedJpeg) and source.left_over:
        raise ImageError(DAMAGED)
    if len(jpeg.pieces) > 1:
        samples = np.asarray(image)
        check_whole(
            data, jpeg, samples, lambda other: np.asarray(_decoded(BytesIO(other), raw=raw))
        )
    return image


def _decoded(source: BytesIO, *, raw: bool) -> Image.Image:
    try:
        with Image.open(source, formats=("JPEG",)) as image:
            if raw and image.mode == "RGB" and "adobe_transform" not in image.info:
                image.draft("YCbCr", image.size)
            image.load()
        return image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise ImageError("is damaged or cut off; copy or export the file again") from None


def check_whole(
    data: bytes, jpeg: Codestream, samples: Samples, decode: Callable[[bytes], Samples]
) -> None:
    """Refuse a JPEG with a scan, or a part between two restart markers, that is cut off.

    A picture in one piece is decoded once more only if it ends the way libjpeg fills; any other is
    always decoded twice.

    Args:
        samples: The decoded JPEG, [H, W] or [H, W, C].
    """
    plane = samples.reshape(*samples.shape[:2], -1)[..., 0]
    if len(jpeg.pieces) == 1 and not _ends_filled(jpeg, plane):
        return
    if not np.array_equal(decode(_continued(data, jpeg)), samples):
        raise ImageError(CUT)


def _ends_filled(jpeg: Codestream, plane: Samples) -> bool:
    """Whether the last pixels look like libjpeg's filling: mid-gray, or equal differences."""
    if not jpeg.lossless:
        return int(plane[-1, -1]) == 1 << (jpeg.precision - 1)
    last = plane[-1, -_SAME_DIFFERENCES:].astype(np.int64)
    differences = np.mod(np.diff(last), 1 << jpeg.precision)
    return jpeg.predictor != 1 or not np.diff(differences).any()


def _continued(data: bytes, jpeg: Codestream) -> bytes:
    """Add other bytes to the data of each scan, before each restart marker too."""
    parts, place = [], 0
    for _, stop in jpeg.pieces:
        stop -= len(data[place:stop]) - len(data[place:stop].rstrip(b"\xff"))
        parts += [data[place:stop], _FILL]
        place = stop
    return b"".join([*parts, data[place:]])


class FedJpeg(BytesIO):
    """A JPEG of one scan, fed to Pillow so that too few and too many data show.

    The last bytes are read separately: a picture complete before them has data left over.  Ones
    follow, which are no code; the end marker, where libjpeg would start to fill, does not.
    """

    def __init__(self, data: bytes, jpeg: Codestream) -> None:
        start, stop = jpeg.pieces[-1]
        whole = data[:stop].rstrip(b"\xff")
        super().__init__(whole + _ONES)
        self._edge = max(start, len(whole.rstrip(b"\0")) - _LAST_BYTES)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as usual, but stop at the edge before the last bytes."""
        place = self.tell()
        if place < self._edge and (size is None or size < 0 or place + size > self._edge):
            size = self._edge - place
        return super().read(size)

    @property
    def left_over(self) -> bool:
        """Whether the last bytes were never read."""
        return self.tell() <= self._edge
