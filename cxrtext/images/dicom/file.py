"""The bytes of a DICOM file: its kind, its transfer syntax, wanted elements.

Only elements that are asked for are read; names, dates and numbers of a patient are skipped.
"""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.files import open_regular
from cxrtext.images.dicom.elements import (
    BIG_ENDIAN,
    IMPLICIT,
    LONG_VRS,
    PIXEL_DATA,
    select,
)
from cxrtext.images.limits import MAX_FILE_BYTES, MAX_HEADER_BYTES
from cxrtext.images.source import quiet

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_DEFLATED = "1.2.840.10008.1.2.1.99"  # which no radiograph has
RLE = "1.2.840.10008.1.2.5"
# 53 and 55 are progressive, retired but found in archives.
JPEG = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (50, 51, 53, 55, 57, 70))
JPEG_LS = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (80, 81))
# 201 to 203 are High-Throughput JPEG 2000.
JPEG_2000 = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (90, 91, 201, 202, 203))
# Codestreams that give back every bit of what went in.
LOSSLESS = frozenset(f"1.2.840.10008.1.2.4.{n}" for n in (57, 70, 80, 90, 201, 202))
NATIVE = frozenset({IMPLICIT, "1.2.840.10008.1.2.1", BIG_ENDIAN})
ALLOWED = NATIVE | JPEG | JPEG_LS | JPEG_2000 | {RLE}
FIRST_BYTES = 2**16  # read of a header at first; those of most files are shorter
_BARE_START = b"DICM\x02\x00"
_HEADLESS = re.compile(rb".{0,2}\x08\x00.\x00", re.DOTALL)


class NotDicomError(ImageError):
    """The file is no DICOM file at all."""


def is_dicom(data: bytes) -> bool:
    """Tell a DICOM file, with its 128-byte preamble, with only that or also "DICM" left out."""
    return data[128:132] == b"DICM" or data.startswith((b"\x02\x00\x00\x00UL", _BARE_START))


def looks_headless(data: bytes) -> bool:
    """Tell bare DICOM elements, which start with group 0008, from what is no DICOM at all."""
    return _HEADLESS.match(data) is not None


def transfer_syntax(data: bytes) -> tuple[str, int]:
    """Read the transfer syntax, "" where none is named, and where what it describes begins."""
    syntax, place = b"", 0
    if data.startswith(_BARE_START):
        place = 4
    elif data[128:132] == b"DICM":
        place = 132
    while data[place : place + 2] == b"\x02\x00" and place + 12 <= len(data):
        element, kind, length = struct.unpack("<H2sH", data[place + 2 : place + 8])
        value = place + 8
        if kind in LONG_VRS:
            length, value = int.from_bytes(data[place + 8 : place + 12], "little"), place + 12
        if value + length > len(data):
            break
        place = value + length
        if element == 0x0010:
            syntax = data[value:place]
    return syntax.rstrip(b"\x00 ").decode("latin-1"), place


def uid_name(uid: str) -> str:
    """Name a UID of the standard; any other text could be a patient's."""
    from pydicom.uid import UID

    known = UID(uid)  # takes blanks and line ends off
    return f"'{known.name}'" if known.name != str(known) else "of a private kind"


def not_supported(syntax: str) -> ImageError:
    return ImageError(
        f"has a transfer syntax {uid_name(syntax)} that is not supported; export it uncompressed"
    )


def header_too_long() -> ImageError:
    return ImageError(f"its header is longer than {MAX_HEADER_BYTES >> 20} MiB; export it again")


@dataclass(frozen=True, slots=True)
class Header:
    dataset: "Dataset"  # the wanted elements
    syntax: str  # transfer syntax; "" where the file names none
    pixels: bool  # whether pixels follow


def read_wanted(path: Path, keywords: Iterable[str], *, longest: int = FIRST_BYTES) -> Header:
    """Read some elements of a DICOM file, with its 128-byte preamble or without, and no others.

    Memory is bounded whatever the file claims: no more than ``MAX_HEADER_BYTES`` are read, and
    nothing is made of elements that are not wanted.

    What is no DICOM is a NotDicomError; ``longest`` bounds the bytes of a sequence that is wanted.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ImageError("larger than 1 GiB; split it into single frames")
    wanted = list(keywords)
    with open_regular(path) as handle:
        data = handle.read(FIRST_BYTES)
        if not is_dicom(data):
            if looks_headless(data):
                raise ImageError("DICOM data without its file header; export the file again")
            raise NotDicomError("is no DICOM file; leave it out")
        if (found := _header(data, FIRST_BYTES, wanted, longest)) is None:
            data += handle.read(MAX_HEADER_BYTES - len(data))
            found = _header(data, MAX_HEADER_BYTES, wanted, longest)
    if found is None:
        raise header_too_long()
    return found


def wanted_of(data: bytes, keywords: Iterable[str]) -> Header:
    """Read some elements of a DICOM file that was sent; see `read_wanted`."""
    wanted = list(keywords)
    for size in (FIRST_BYTES, MAX_HEADER_BYTES):
        if (found := _header(data[:size], size, wanted)) is not None:
            return found
    raise header_too_long()


def _header(
    data: bytes, max_bytes: int, keywords: list[str], longest: int = FIRST_BYTES
) -> Header | None:
    """Read a header within the first ``max_bytes`` of a file; None where it goes on after them."""
    syntax, start = transfer_syntax(data)
    if syntax == _DEFLATED:
        raise not_supported(syntax)
    with quiet():
        found = select(data, start, keywords, syntax, longest=longest)
    if not found.reached and len(data) == max_bytes:
        return None
    return Header(found.dataset, syntax, found.reached and found.tag <= PIXEL_DATA)
