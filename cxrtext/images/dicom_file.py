"""From the bytes of a DICOM file to its few wanted elements and its encoded pixels.

Only elements that decide how pixels look are read; names, dates and numbers of a patient are
skipped unread.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from cxrtext.errors import ImageError

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

_LONG_VRS = {b"OB", b"OW", b"OF", b"OD", b"OL", b"OV", b"SQ", b"UC", b"UN", b"UR", b"UT"}
_PIXEL_DATA = 0x7FE00010
_PIXEL_GROUP = 0x7FE00008
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
    body, start = (inflate(data[start:]), 0) if syntax == DEFLATED else (data, start)
    stream = BytesIO(body)
    stream.seek(start)
    dataset = read_elements(stream, syntax, _KEYWORDS)
    place = stream.tell()
    return DicomFile(syntax, dataset, _pixel_value(memoryview(body), place, syntax, dataset))


def _file_meta(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Give (element number, value, place after it) of each element of group 0002."""
    place = 132 if data[128:132] == b"DICM" else 0
    while data[place : place + 2] == b"\x02\x00" and place + 12 <= len(data):
        element, kind, length = struct.unpack("<H2sH", data[place + 2 : place + 8])
        value = place + 8
        if kind in _LONG_VRS:
            length, value = int.from_bytes(data[place + 8 : place + 12], "little"), place + 12
        if value + length > len(data):
            break
        place = value + length
        yield element, data[value:place], place


def transfer_syntax(data: bytes) -> tuple[str, int]:
    """Read the transfer syntax, and where the elements that it describes begin.

    Raises:
        ImageError: When there is none.
    """
    syntax, start = b"", 0
    for element, value, after in _file_meta(data):
        syntax = value if element == 0x0010 else syntax
        start = after
    if not syntax:
        raise ImageError("names no transfer syntax in its file header; export the file again")
    return syntax.rstrip(b"\x00 ").decode("latin-1"), start


def uid_name(uid: str) -> str:
    """Name a UID of the standard; any other text could be a patient's."""
    from pydicom.uid import UID

    known = UID(uid)  # takes blanks and line ends off
    return f"'{known.name}'" if known.name != str(known) else "of a private kind"


def inflate(body: bytes, most: int | None = None) -> bytes:
    """Inflate, but not past a bound, by default 256 MiB.

    Raises:
        ImageError: When the data are damaged, cut off or inflate to more.
    """
    bound = MAX_INFLATED_BYTES if most is None else most
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        inflated = inflater.decompress(body, bound)
    except zlib.error:
        raise ImageError("its deflated data is damaged; copy or export the file again") from None
    if inflater.unconsumed_tail:
        raise ImageError(f"inflates to more than {bound} bytes; export it uncompressed")
    if not inflater.eof:
        raise ImageError("its deflated data is cut off; copy or export the file again")
    return inflated


def read_elements(stream: BinaryIO, syntax: str, keywords: Sequence[str]) -> "Dataset":
    """Read some elements, and stop before the pixels.

    Args:
        stream: At the first element after the file's header; left where the pixels start.
        syntax: Transfer syntax.
        keywords: The wanted elements.
    """
    from pydicom.datadict import tag_for_keyword
    from pydicom.filereader import read_dataset

    tags = [tag for tag in map(tag_for_keyword, keywords) if tag is not None]
    return read_dataset(
        stream,
        syntax == IMPLICIT,
        syntax != BIG_ENDIAN,
        stop_when=lambda tag, *_: tag >= _PIXEL_GROUP,
        specific_tags=list(tags),
    )


def _pixel_value(body: memoryview, place: int, syntax: str, dataset: "Dataset") -> memoryview:
    """Cut out the value of Pixel Data, whose element starts at ``place``."""
    order = "<" if syntax != BIG_ENDIAN else ">"
    if place + 12 > len(body):
        raise _no_pixels(dataset)
    group, element = struct.unpack(f"{order}HH", body[place : place + 4])
    if group << 16 | element != _PIXEL_DATA:
        raise _no_pixels(dataset)
    # What pydicom found, which in mislabelled files differs from what the syntax says.
    implicit = dataset.original_encoding[0]
    start = place + (8 if implicit else 12)
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
