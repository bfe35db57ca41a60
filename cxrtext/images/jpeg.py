"""JPEG, JPEG-LS and JPEG 2000: what they say of their size, and whether JPEG holds the picture.

Sizes are read before any decoder sees the data.  libjpeg fills what is missing with gray and only
counts a warning, which neither Pillow nor imagecodecs passes on.  So a JPEG is decoded from data
that end without their end marker, or twice, the second time with other bytes where the data of
each scan end: they are passed over where a scan is whole, and become picture where it is not.

Source: ITU-T T.81, annexes B, F, G and H.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.gray import Samples

CUT = "the compressed image is cut off; copy or export the file again"
DAMAGED = "the compressed image is damaged; copy or export the file again"

_NO_LENGTH = {0x01, *range(0xD0, 0xD9)}
_NOT_A_FRAME = {0xC4, 0xC8, 0xCC}
_ALWAYS_DECODED = 2**24
MAX_PIXELS_A_BYTE = 4096
_J2K_START = b"\xff\x4f\xff\x51"

_SEQUENTIAL, _PROGRESSIVE, _LOSSLESS = (0xC0, 0xC1), 0xC2, 0xC3
_FRAMES = {*_SEQUENTIAL, _PROGRESSIVE, _LOSSLESS}
_OTHER_FRAMES = {*range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)}
# That each starts with one plain byte makes them twenty times as quick.
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_RESTART = re.compile(rb"\xff[\xd0-\xd7]")
_MAX_PASSES = 32
_MAX_RUN = 32767  # blocks that one code of a progressive scan may leave as they are
_SAME_DIFFERENCES = 16
_FILL = bytes((37 * n * n + 91 * n + 5) % 251 for n in range(64))
"""Stands for data that are missing: any bytes but 0xFF."""
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
    # true and False where a JPEG itself tells YCbCr from RGB; None where not.
    luma_first: bool | None = None


def check_end(data: bytes) -> None:
    """Refuse a JPEG, JPEG-LS or JPEG 2000 stream that lacks its end marker.

    Decoders fill what is missing with gray and say nothing.  Padding after the marker is allowed.
    """
    if not data.rstrip(b"\x00\xff").endswith(b"\xff\xd9"):
        raise ImageError(CUT)


def check_density(height: int, width: int, size: int, most: int = MAX_PIXELS_A_BYTE) -> None:
    """Refuse a large picture in a few bytes: a blank one, made to keep a decoder busy.

    JPEG-LS and JPEG 2000 have no least size.  Pictures as large as a detector's pass: they are
    decoded within a second whatever they hold.
    """
    if height * width > max(_ALWAYS_DECODED, most * size):
        raise ImageError(
            f"holds {width} x {height} pixels in {size} bytes, which can be no radiograph; "
            "export the file uncompressed"
        )


def read_jpeg(data: bytes) -> Codestream:
    """Find the frame header (SOF) of a JPEG or JPEG-LS stream."""
    jfif = False
    place = 2
    if data[:2] != b"\xff\xd8":
        raise ImageError(DAMAGED)
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
    raise ImageError(DAMAGED)


def _frame_header(segment: bytes, jfif: bool) -> Codestream:
    if len(segment) < 6 or len(segment) < 6 + 3 * segment[5]:
        raise ImageError(DAMAGED)
    precision, height, width, components = struct.unpack(">BHHB", segment[:6])
    names = segment[6 : 6 + 3 * components : 3]
    luma_first = False if names in (b"RGB", b"rgb") else (True if jfif else None)
    return Codestream(height, width, components, precision, luma_first=luma_first)


def bare_jpeg2000(data: bytes) -> bytes:
    """Cut away the JP2 boxes that some writers put around a codestream, against the standard."""
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
        y1 - y0, x1 - x0, components, (first[0] & 0x7F) + 1, signed=bool(first[0] & 0x80)
    )


@dataclass(frozen=True, slots=True)
class Scan:
    components: tuple[int, ...]  # places of its components in the frame
    first: int  # its first coefficient; of a lossless JPEG the predictor
    last: int
    low: int  # the bit down to which coefficients are known after it
    interval: int  # MCUs from one restart marker to the next; 0 without
    # (start, stop) of its entropy-coded data, parted by restart markers.
    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Scans:
    frame: int  # marker of its frame header: its process
    height: int
    width: int
    precision: int
    # (horizontal, vertical) sampling factors of each component.
    sampling: tuple[tuple[int, int], ...]
    scans: tuple[Scan, ...]

    @property
    def plain(self) -> bool:
        """Whether it is one piece of entropy-coded data, as most are."""
        return len(self.scans) == 1 and len(self.scans[0].pieces) == 1

    def units(self, components: tuple[int, ...]) -> tuple[int, int]:
        """Count the MCUs and the blocks (of a lossless JPEG, samples) of a scan."""
        side = 1 if self.frame == _LOSSLESS else 8
        across = max(h for h, _ in self.sampling)
        down = max(v for _, v in self.sampling)
        if len(components) == 1:
            h, v = self.sampling[components[0]]
            wide, high = -(-self.width * h // across), -(-self.height * v // down)
            count = -(-wide // side) * -(-high // side)
            return count, count
        count = -(-self.width // (side * across)) * -(-self.height // (side * down))
        return count, count * sum(h * v for h, v in (self.sampling[one] for one in components))


def read_scans(data: bytes) -> Scans:
    """Read the markers of a JPEG from its start to its end, and check that they make a picture."""
    place, interval = 2, 0
    frame: tuple[int, bytes] | None = None
    found: list[Scan] = []
    while True:
        start = place
        while data[place : place + 1] == b"\xff":
            place += 1
        if place >= len(data):
            raise ImageError(CUT)
        if place == start:
            raise ImageError(DAMAGED)
        marker = data[place]
        place += 1
        if marker == 0xD9:
            break
        if marker == 0x01:
            continue
        length = int.from_bytes(data[place : place + 2], "big")
        segment = data[place + 2 : place + length]
        place += length
        if place > len(data):
            raise ImageError(CUT)
        if length < 2 or marker <= 0x01 or 0xD0 <= marker <= 0xD8:
            raise ImageError(DAMAGED)
        if marker in _OTHER_FRAMES:
            raise ImageError("is a JPEG of an unusual kind; save it as a baseline JPEG or a PNG")
        if marker in _FRAMES:
            if frame is not None:
                raise ImageError(DAMAGED)
            frame = marker, segment
        elif marker == 0xDD and length == 4:
            interval = int.from_bytes(segment, "big")
        elif marker == 0xDA:
            if frame is None:
                raise ImageError(DAMAGED)
            pieces, place = _pieces(data, place)
            found.append(_scan(segment, frame[1], interval, pieces))
    if frame is None:
        raise ImageError(DAMAGED)
    return _checked(*frame, tuple(found))


def _pieces(data: bytes, start: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Find the entropy-coded data of a scan, and the marker after it."""
    if (end := _NEXT_MARKER.search(data, start)) is None:
        raise ImageError(CUT)
    pieces = []
    for number, restart in enumerate(_RESTART.finditer(data, start, end.start())):
        if restart.group()[-1] & 7 != number % 8:
            raise ImageError(DAMAGED)
        pieces.append((start, _without_fill(data, start, restart.start())))
        start = restart.end()
    return (*pieces, (start, _without_fill(data, start, end.start()))), end.start()


def _without_fill(data: bytes, start: int, stop: int) -> int:
    """Leave out the bytes 0xFF that may stand before a marker."""
    while stop > start and data[stop - 1] == 0xFF:
        stop -= 1
    return stop


def _scan(segment: bytes, frame: bytes, interval: int, pieces: tuple[tuple[int, int], ...]) -> Scan:
    count = segment[0] if segment else 0
    names = list(frame[6::3])
    if not 1 <= count <= 4 or len(segment) != 4 + 2 * count:
        raise ImageError(DAMAGED)
    wanted = segment[1 : 1 + 2 * count : 2]
    if len(set(wanted)) < count or not set(wanted) <= set(names):
        raise ImageError(DAMAGED)
    first, last, bits = segment[-3:]
    return Scan(tuple(names.index(one) for one in wanted), first, last, bits & 15, interval, pieces)


def _checked(frame: int, header: bytes, scans: tuple[Scan, ...]) -> Scans:
    if len(header) < 6 or not 1 <= header[5] <= 4 or len(header) != 6 + 3 * header[5]:
        raise ImageError(DAMAGED)
    height, width = struct.unpack(">HH", header[1:5])
    sampling = tuple((one >> 4, one & 15) for one in header[7::3])
    if not (height and width) or not all(1 <= n <= 4 for pair in sampling for n in pair):
        raise ImageError(DAMAGED)
    found = Scans(frame, height, width, header[0], sampling, scans)
    whole = sum(found.units((one,))[1] for one in range(len(sampling)))
    visited = 0
    for scan in scans:
        mcus, blocks = found.units(scan.components)
        visited += blocks
        if visited > _MAX_PASSES * whole + 1000:
            raise ImageError("is a JPEG of far too many scans; save it as a baseline JPEG or a PNG")
        size = sum(stop - start for start, stop in scan.pieces)
        if 8 * size < _least_bits(frame, scan, blocks):
            raise ImageError(CUT)
        wanted = -(-mcus // scan.interval) if scan.interval else 1
        spare = len(scan.pieces) == wanted + 1 and scan.pieces[-1][0] == scan.pieces[-1][1]
        if len(scan.pieces) != wanted and not spare:
            raise ImageError(CUT if len(scan.pieces) < wanted else DAMAGED)
    if not _complete(found):
        raise ImageError(CUT)
    return found


def _least_bits(frame: int, scan: Scan, blocks: int) -> int:
    """Bits that the shortest codes take: one a sample, or one for DC and one for AC a block."""
    if frame in _SEQUENTIAL:
        return 2 * blocks
    return blocks // _MAX_RUN if frame == _PROGRESSIVE and scan.first > 0 else blocks


def _complete(found: Scans) -> bool:
    """Tell whether the scans give every component, and every bit of its coefficients."""
    unknown = 16
    known = np.full((len(found.sampling), 64), unknown)
    for scan in found.scans:
        for one in scan.components:
            if found.frame != _PROGRESSIVE:
                known[one] = 0
            else:
                known[one, scan.first : scan.last + 1] = scan.low
    return not known.any()


def check_whole(
    data: bytes, scans: Scans, samples: Samples, decode: Callable[[bytes], Samples]
) -> None:
    """Refuse a JPEG of which a scan, or what lies between two restart markers, is cut off.

    A picture in one piece is decoded once more only where it ends as libjpeg fills; any other
    always.

    Args:
        samples: What it decodes to, [H, W] or [H, W, C].
    """
    if scans.plain and not _ends_filled(scans, samples.reshape(*samples.shape[:2], -1)[..., 0]):
        return
    if not np.array_equal(decode(_continued(data, scans)), samples):
        raise ImageError(CUT)


def _ends_filled(scans: Scans, plane: Samples) -> bool:
    """Tell whether the last pixels could be filled: blocks of mid-gray, or equal differences."""
    if scans.frame != _LOSSLESS:
        return int(plane[-1, -1]) == 1 << (scans.precision - 1)
    last = plane[-1, -_SAME_DIFFERENCES:].astype(np.int64)
    differences = np.mod(np.diff(last), 1 << scans.precision)
    return scans.scans[0].first != 1 or not np.diff(differences).any()


def _continued(data: bytes, scans: Scans) -> bytes:
    """Let the data of each scan, up to each restart marker, go on with other bytes."""
    parts, place = [], 0
    for _, stop in (piece for scan in scans.scans for piece in scan.pieces):
        parts += [data[place:stop], _FILL]
        place = stop
    return b"".join([*parts, data[place:]])


class FedJpeg(BytesIO):
    """A JPEG in one piece as Pillow is to read it, so that it tells too few data and too many.

    The last bytes are given alone: a picture that is done before them has data left over.  Then
    ones follow, which are no code, and the end marker, at which libjpeg would fill, does not.
    """

    def __init__(self, data: bytes, scans: Scans) -> None:
        ((start, stop),) = scans.scans[0].pieces
        super().__init__(data[:stop] + _ONES)
        self._edge = max(start, len(data[:stop].rstrip(b"\0")) - _LAST_BYTES)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as from any file, but not past the edge before the last bytes."""
        place = self.tell()
        if place < self._edge and (size is None or size < 0 or place + size > self._edge):
            size = self._edge - place
        return super().read(size)

    @property
    def left_over(self) -> bool:
        """Whether the last bytes were not asked for."""
        return self.tell() <= self._edge
