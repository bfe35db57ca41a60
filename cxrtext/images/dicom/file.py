"""The bytes of a DICOM file: its kind, its transfer syntax, its header.

Only requested elements are kept; a patient's names, dates and numbers are skipped.
"""

import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.files import open_regular
from cxrtext.images.limits import MAX_ELEMENTS, MAX_FILE_BYTES, MAX_HEADER_BYTES, MAX_ITEMS
from cxrtext.images.source import quiet

if TYPE_CHECKING:
    from pydicom.dataset import Dataset
    from pydicom.tag import BaseTag

IMPLICIT = "1.2.840.10008.1.2"
BIG_ENDIAN = "1.2.840.10008.1.2.2"
RLE = "1.2.840.10008.1.2.5"
# 53 and 55 are progressive, retired but found in archives.
JPEG = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (50, 51, 53, 55, 57, 70))
JPEG_LS = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (80, 81))
# 201 to 203 are High-Throughput JPEG 2000.
JPEG_2000 = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (90, 91, 201, 202, 203))
# Codestreams that restore every bit.
LOSSLESS = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (57, 70, 80, 90, 201, 202))
NATIVE = frozenset({IMPLICIT, "1.2.840.10008.1.2.1", BIG_ENDIAN})
ALLOWED = NATIVE | JPEG | JPEG_LS | JPEG_2000 | {RLE}
_DEFLATED = "1.2.840.10008.1.2.1.99"  # no radiograph has it
PIXEL_GROUP = 0x7FE00008  # the first element of the group that holds the pixels
PIXEL_DATA = 0x7FE00010
UNDEFINED = 0xFFFFFFFF  # the length of a value that ends with a delimiter
_FIRST_BYTES = 2**16  # read from a file at first; most headers are shorter
_BARE_START = b"DICM\x02\x00"
_HEADLESS = re.compile(rb".{0,2}\x08\x00.\x00", re.DOTALL)
_DAMAGED = "its header is damaged; copy or export the file again"
_TOO_MANY = f"its header has over {MAX_ELEMENTS} elements or {MAX_ITEMS} items; export it again"
_ITEM = (b"\xfe\xff\x00\xe0", b"\xff\xfe\xe0\x00")  # of a sequence, little and big endian


class NotDicomError(ImageError):
    """The file is not a DICOM file at all."""


def is_dicom(data: bytes) -> bool:
    """Recognize a DICOM file, also without its 128-byte preamble, or without "DICM" as well."""
    return data[128:132] == b"DICM" or data.startswith((b"\x02\x00\x00\x00UL", _BARE_START))


def looks_headless(data: bytes) -> bool:
    """Recognize bare DICOM elements, which start with group 0008."""
    return _HEADLESS.match(data) is not None


def transfer_syntax(data: bytes) -> tuple[str, int]:
    """Read the transfer syntax, or "", and the place where the data it describes begins."""
    from pydicom.valuerep import EXPLICIT_VR_LENGTH_32

    syntax, place = b"", 0
    if data.startswith(_BARE_START):
        place = 4
    elif data[128:132] == b"DICM":
        place = 132
    while data[place : place + 2] == b"\x02\x00" and place + 12 <= len(data):
        element, kind, length = struct.unpack("<H2sH", data[place + 2 : place + 8])
        value = place + 8
        if kind.decode("latin-1") in EXPLICIT_VR_LENGTH_32:
            length, value = int.from_bytes(data[place + 8 : place + 12], "little"), place + 12
        if value + length > len(data):
            break
        place = value + length
        if element == 0x0010:
            syntax = data[value:place]
    return syntax.rstrip(b"\x00 ").decode("latin-1"), place


def uid_name(uid: str) -> str:
    """Name a UID of the standard; any other text could name a patient."""
    from pydicom.uid import UID

    known = UID(uid)  # strips blanks and line ends
    return f"'{known.name}'" if known.name != str(known) else "of a private kind"


def not_supported(syntax: str) -> ImageError:
    return ImageError(
        f"has a transfer syntax {uid_name(syntax)} that is not supported; export it uncompressed"
    )


@dataclass(frozen=True, slots=True)
class Header:
    dataset: "Dataset"  # the wanted elements
    syntax: str  # transfer syntax; "" if the file names none
    pixels: bool  # whether pixels follow
    tag: int = 0  # of the element that follows, at or after the pixels; 0 if the data ends
    value: int = 0  # where its value starts
    length: int = 0


class _Source(BytesIO):
    """A header that limits how many elements and sequence items pydicom reads from it.

    pydicom makes an object of every item of a sequence of undefined length, requested or not: 8
    bytes of a hostile file become hundreds in memory.
    """

    reads = items = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.reads += 1
        self.items += size == 8 and data.startswith(_ITEM)
        # an element takes two reads, one for its value
        if self.reads > 2 * MAX_ELEMENTS or self.items > MAX_ITEMS:
            raise ImageError(_TOO_MANY)
        return data


def header_of(data: bytes, keywords: Iterable[str]) -> Header:
    """Read only some elements of a DICOM file, with or without its 128-byte preamble.

    Args:
        data: The file; it may end within its header.
    """
    from pydicom.datadict import tag_for_keyword
    from pydicom.filereader import read_dataset

    syntax, start = transfer_syntax(data)
    if syntax == _DEFLATED:
        raise not_supported(syntax)
    little = syntax != BIG_ENDIAN
    tags = [tag_for_keyword(keyword) for keyword in ("SpecificCharacterSet", *keywords)]
    source, follows = _Source(data), (0, len(data), 0)
    source.seek(start)

    def at_pixels(tag: "BaseTag", _: str | None, length: int) -> bool:
        nonlocal follows
        if tag < PIXEL_GROUP or tag >> 16 == 0xFFFE:
            return False
        follows = int(tag), source.tell(), length
        return True

    try:
        with quiet():
            dataset = read_dataset(
                source,
                syntax == IMPLICIT,
                little,
                stop_when=at_pixels,
                specific_tags=[tag for tag in tags if tag is not None],
            )
    except ImageError:
        raise
    except Exception:  # noqa: BLE001 - pydicom raises anything on a hostile file
        raise ImageError(_DAMAGED) from None  # its own words may quote the file
    if data.count(_ITEM[not little], start, follows[1]) > MAX_ITEMS:  # also in values not parsed
        raise ImageError(_TOO_MANY)
    return Header(dataset, syntax, PIXEL_GROUP <= follows[0] <= PIXEL_DATA, *follows)


def wanted_of(data: bytes, keywords: Iterable[str]) -> Header:
    """Read some elements of a DICOM file that was sent, or of its first ``MAX_HEADER_BYTES``."""
    header = header_of(data[:MAX_HEADER_BYTES], keywords)
    if not header.tag and len(data) >= MAX_HEADER_BYTES:
        raise ImageError(f"its header is longer than {MAX_HEADER_BYTES >> 20} MiB; export it again")
    return header


def read_wanted(path: Path, keywords: Iterable[str]) -> Header:
    """Read some elements of a stored DICOM file; see `header_of`.

    Memory is bounded whatever the file claims.  A file that is not DICOM is a NotDicomError.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ImageError("larger than 1 GiB; split it into single frames")
    wanted = list(keywords)
    with open_regular(path) as handle:
        data = handle.read(_FIRST_BYTES)
        if not is_dicom(data):
            if looks_headless(data):
                raise ImageError("DICOM data without its file header; export the file again")
            raise NotDicomError("is not a DICOM file; leave it out")
        with suppress(ImageError):  # the header may go on
            header = header_of(data, wanted)
            if header.tag or len(data) < _FIRST_BYTES:
                return header
        data += handle.read(MAX_HEADER_BYTES - len(data))
    return wanted_of(data, wanted)
