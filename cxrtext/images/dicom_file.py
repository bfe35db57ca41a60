"""From the bytes of a DICOM file to its few wanted elements and its encoded pixels.

Only elements that decide how pixels look are read; names, dates and numbers of a patient are
skipped unread.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.dicom_header import frame_bits, pixel_format
from cxrtext.images.dicom_selection import LONG_VRS, MOST_BYTES, Selection, select

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

IMPLICIT = "1.2.840.10008.1.2"
DEFLATED = "1.2.840.10008.1.2.1.99"
BIG_ENDIAN = "1.2.840.10008.1.2.2"
RLE = "1.2.840.10008.1.2.5"
RAW_FRAME = "1.2.840.10008.1.2.1.98"
DEFLATED_FRAME = "1.2.840.10008.1.2.8.1"
# 53 and 55 are progressive, retired but found in archives.
JPEG = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (50, 51, 53, 55, 57, 70))
JPEG_LS = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (80, 81))
# 201 to 203 are High-Throughput JPEG 2000.
JPEG_2000 = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (90, 91, 201, 202, 203))
NATIVE = frozenset({IMPLICIT, "1.2.840.10008.1.2.1", DEFLATED, BIG_ENDIAN})
ALLOWED = NATIVE | JPEG | JPEG_LS | JPEG_2000 | {RLE, RAW_FRAME, DEFLATED_FRAME}

MAX_INFLATED_BYTES = 2**28
"""The most that a deflated data set may grow to, whatever sizes it tells."""

FIRST_BYTES = 2**16
"""Read of a header at first; those of most files are shorter."""

_PIECE = 2**16
_AFTER_PIXELS = 2**20  # signatures and padding

_PIXEL_DATA = 0x7FE00010
_HEADLESS = re.compile(rb".{0,2}\x08\x00.\x00", re.DOTALL)
_UNDEFINED = 0xFFFFFFFF
_KEYWORDS = (
    "SOPClassUID",
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "PlanarConfiguration",
    "NumberOfFrames",
    "Rows",
    "Columns",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "PixelPaddingValue",
    "PixelPaddingRangeLimit",
    "RescaleSlope",
    "RescaleIntercept",
    "ModalityLUTSequence",
    "WindowCenter",
    "WindowWidth",
    "WindowCenterWidthExplanation",
    "VOILUTFunction",
    "VOILUTSequence",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
    "RedPaletteColorLookupTableDescriptor",
    "GreenPaletteColorLookupTableDescriptor",
    "BluePaletteColorLookupTableDescriptor",
    "RedPaletteColorLookupTableData",
    "GreenPaletteColorLookupTableData",
    "BluePaletteColorLookupTableData",
    "ExtendedOffsetTable",
)


@dataclass(frozen=True, slots=True)
class DicomFile:
    """The parts of a DICOM file that an image is made from.

    Args:
        syntax: Transfer syntax, one of ``ALLOWED``.
        dataset: The wanted elements.
        pixels: The value of Pixel Data: raw samples, or items that hold compressed frames.
    """

    syntax: str
    dataset: "Dataset"
    pixels: memoryview

    @property
    def little(self) -> bool:
        """Whether words lie low byte first."""
        return self.syntax != BIG_ENDIAN


def is_dicom(data: bytes) -> bool:
    """Tell a DICOM file, with its 128-byte preamble or with only that left out."""
    return data[128:132] == b"DICM" or data.startswith(b"\x02\x00\x00\x00UL")


def looks_headless(data: bytes) -> bool:
    """Tell bare DICOM elements, which start with group 0008, from what is no DICOM at all."""
    return _HEADLESS.match(data) is not None


def read_file(data: bytes) -> DicomFile:
    """Split a DICOM file into its elements and its pixels.

    Raises:
        ImageError: When the transfer syntax is missing or not allowed, there are no pixels, they
            are cut off, or a deflated file grows past its bound.
    """
    try:
        import pydicom  # noqa: F401
    except ImportError:
        raise ImageError("is a DICOM file; pip install pydicom to read it") from None
    syntax, start = transfer_syntax(data)
    if syntax not in ALLOWED:
        raise ImageError(
            f"has a transfer syntax {uid_name(syntax)} that is not supported; "
            "export it uncompressed"
        )
    body: bytes | bytearray = data
    if syntax == DEFLATED:
        body, start = _inflated(memoryview(data)[start:]), 0
    found = _selected(body, start, syntax)
    return DicomFile(syntax, found.dataset, _pixel_value(memoryview(body), found, syntax))


def _selected(body: bytes | bytearray, start: int, syntax: str) -> Selection:
    return select(body, start, _KEYWORDS, implicit=syntax == IMPLICIT, little=syntax != BIG_ENDIAN)


def _file_meta(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Give (element number, value, place after it) of each element of group 0002."""
    place = 132 if data[128:132] == b"DICM" else 0
    while data[place : place + 2] == b"\x02\x00" and place + 12 <= len(data):
        element, kind, length = struct.unpack("<H2sH", data[place + 2 : place + 8])
        value = place + 8
        if kind in LONG_VRS:
            length, value = int.from_bytes(data[place + 8 : place + 12], "little"), place + 12
        if value + length > len(data):
            break
        place = value + length
        yield element, data[value:place], place


def file_meta(data: bytes) -> tuple[str, int]:
    """Read the transfer syntax, "" where none is named, and where what it describes begins."""
    syntax, start = b"", 132 if data[128:132] == b"DICM" else 0
    for element, value, after in _file_meta(data):
        syntax = value if element == 0x0010 else syntax
        start = after
    return syntax.rstrip(b"\x00 ").decode("latin-1"), start


def transfer_syntax(data: bytes) -> tuple[str, int]:
    """Read the transfer syntax, and where the elements that it describes begin.

    Raises:
        ImageError: When there is none.
    """
    syntax, start = file_meta(data)
    if not syntax:
        raise ImageError("names no transfer syntax in its file header; export the file again")
    return syntax, start


def uid_name(uid: str) -> str:
    """Name a UID of the standard; any other text could be a patient's."""
    from pydicom.uid import UID

    known = UID(uid)  # takes blanks and line ends off
    return f"'{known.name}'" if known.name != str(known) else "of a private kind"


class Inflation:
    """Deflated data, inflated as far as they are asked for.

    Args:
        packed: What is to be inflated.
    """

    def __init__(self, packed: bytes | memoryview) -> None:
        self._packed = memoryview(packed)
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self._place = 0
        self._out = bytearray()

    @property
    def ended(self) -> bool:
        """Whether all of it is inflated."""
        return self._inflater.eof

    def first(self, size: int, *, cut: bool = False) -> bytearray:
        """Give the first ``size`` bytes, no fewer than before; fewer where the data end.

        Args:
            size: How many.
            cut: Whether what is to be inflated may be the beginning only.

        Raises:
            ImageError: When the data are damaged, or cut off.
        """
        while len(self._out) < size and not self._inflater.eof:
            piece = self._inflater.unconsumed_tail
            if not piece:
                piece = bytes(self._packed[self._place : self._place + _PIECE])
                self._place += len(piece)
            left = size - len(self._out)
            try:
                more = self._inflater.decompress(piece, left)
            except zlib.error:
                raise ImageError(
                    "its deflated data is damaged; copy or export the file again"
                ) from None
            self._out += more
            if not piece and not more and not self._inflater.eof:
                if cut:
                    break
                raise ImageError("its deflated data is cut off; copy or export the file again")
        return self._out


def inflate(packed: bytes | memoryview, most: int) -> bytearray:
    """Inflate all of it, but not past a bound.

    Raises:
        ImageError: When the data are damaged, cut off or inflate to more.
    """
    inflation = Inflation(packed)
    found = inflation.first(most + 1)
    if len(found) > most:
        raise ImageError(f"inflates to more than {most} bytes; export it uncompressed")
    return found


def _inflated(packed: memoryview) -> bytearray:
    """Inflate a data set: its header first, which says how large the rest may be.

    Raises:
        ImageError: When the data are damaged, cut off or inflate to more.
    """
    inflation = Inflation(packed)
    for most in (FIRST_BYTES, MOST_BYTES):
        head = inflation.first(most)
        found = _selected(head, 0, DEFLATED)
        if found.reached or inflation.ended:
            break
    else:
        raise ImageError(f"its header is longer than {MOST_BYTES >> 20} MiB; export it again")
    if not found.reached:
        return head
    pixels = pixel_format(found.dataset)
    most = found.place + -(-frame_bits(pixels) * pixels.frames // 8) + _AFTER_PIXELS
    return inflate(packed, min(most, MAX_INFLATED_BYTES))


def _pixel_value(body: memoryview, found: Selection, syntax: str) -> memoryview:
    """Cut out the value of Pixel Data, which starts where the wanted elements end."""
    dataset, place = found.dataset, found.place
    order = "<" if syntax != BIG_ENDIAN else ">"
    if place + 12 > len(body):
        raise _no_pixels(dataset)
    group, element = struct.unpack(f"{order}HH", body[place : place + 4])
    if group << 16 | element != _PIXEL_DATA:
        raise _no_pixels(dataset)
    # What pydicom found, which in mislabelled files differs from what the syntax says.
    start = place + (8 if found.implicit else 12)
    (length,) = struct.unpack(f"{order}L", body[start - 4 : start])
    if (length == _UNDEFINED) == (syntax in NATIVE):
        raise ImageError("its pixel data does not fit its transfer syntax; export the file again")
    if length == _UNDEFINED:
        return body[start:]
    if start + length > len(body):
        raise ImageError("its pixel data is cut off; copy or export the file again")
    value = body[start : start + length]
    if order == ">" and bytes(body[place + 4 : place + 6]) == b"OW":
        return _bytes_in_order(value, dataset)
    return value


def _bytes_in_order(value: memoryview, dataset: "Dataset") -> memoryview:
    """Undo how big-endian words swap samples of one byte."""
    if str(dataset.get("BitsAllocated")) not in ("1", "8") or len(value) % 2:
        return value
    return memoryview(np.frombuffer(value, dtype=np.uint16).byteswap().tobytes())


def _no_pixels(dataset: "Dataset") -> ImageError:
    kind = uid_name(str(dataset.get("SOPClassUID", "")))
    if kind.endswith("Storage'") and "Image" not in kind and "Segmentation" not in kind:
        return ImageError(f"is of the kind {kind}, which has no image; leave it out")
    return ImageError("holds no pixel data; export the image with its pixels")
