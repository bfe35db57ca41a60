"""The few elements of a DICOM header that are asked for; all others are skipped unread."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.images.dicom_file import (
    BIG_ENDIAN,
    DEFLATED,
    FIRST_BYTES,
    IMPLICIT,
    Inflation,
    file_meta,
    is_dicom,
    looks_headless,
)
from cxrtext.images.dicom_selection import MOST_BYTES, select
from cxrtext.images.quiet import quiet
from cxrtext.images.read import MAX_FILE_BYTES

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_PIXEL_DATA = 0x7FE00010


class NotDicomError(ImageError):
    """The file is no DICOM file at all."""


@dataclass(frozen=True, slots=True)
class Header:
    """What was read of a header.

    Args:
        dataset: The wanted elements.
        syntax: Transfer syntax; "" where the file names none.
        pixels: Whether pixels follow.
    """

    dataset: "Dataset"
    syntax: str
    pixels: bool


def read_wanted(path: Path, keywords: Iterable[str]) -> Header:
    """Read some elements of a DICOM file, and no others.

    Memory is bounded whatever the file claims: no more than ``MOST_BYTES`` are read and no more
    inflated, and nothing is made of elements that are not wanted.

    Args:
        path: The file; with its 128-byte preamble or without.
        keywords: DICOM keywords of the elements.

    Raises:
        NotDicomError: It is something else.
        ImageError: It is DICOM, but damaged; the text does not name the file.
        OSError: It cannot be read.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ImageError("larger than 1 GiB; split it into single frames")
    wanted = list(keywords)
    with path.open("rb") as handle:
        data = handle.read(FIRST_BYTES)
        if not is_dicom(data):
            if looks_headless(data):
                raise ImageError("DICOM data without its file header; export the file again")
            raise NotDicomError("is no DICOM file; leave it out")
        found = _header(data, FIRST_BYTES, wanted)
        if found is None:
            data += handle.read(MOST_BYTES - len(data))
            found = _header(data, MOST_BYTES, wanted)
    if found is None:
        raise ImageError(f"its header is longer than {MOST_BYTES >> 20} MiB; export it again")
    return found


def _header(data: bytes, most: int, keywords: list[str]) -> Header | None:
    """Read a header within the first bytes of a file; None where it goes on after them.

    Args:
        data: At most ``most`` bytes, fewer where the file is shorter.
        most: Also bounds what is inflated.
        keywords: The wanted elements.

    Raises:
        ImageError: An element is damaged.
    """
    syntax, start = file_meta(data)
    body: bytes | bytearray = data
    whole = len(data) < most
    if syntax == DEFLATED:
        inflation = Inflation(memoryview(data)[start:])
        body, start = inflation.first(most, cut=not whole), 0
        whole = inflation.ended
    with quiet():
        found = select(
            body,
            start,
            keywords,
            implicit=syntax == IMPLICIT,
            little=syntax != BIG_ENDIAN,
            longest=FIRST_BYTES,
        )
    if not (found.reached or whole):
        return None
    pixels = found.reached and found.tag <= _PIXEL_DATA
    return Header(found.dataset, syntax, pixels)
