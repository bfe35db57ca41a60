"""The few elements of a DICOM header that are asked for; all others are skipped unread."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.images.dicom_file import DEFLATED, is_dicom, looks_headless
from cxrtext.images.quiet import quiet
from cxrtext.images.read import MAX_FILE_BYTES

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

FIRST_BYTES = 2**16
"""Read of every file; the headers of most are shorter."""
MOST_BYTES = 2**25
"""Longest header that is read, and the most that a deflated one may grow to."""

_PIXEL_GROUP, _PIXEL_DATA = 0x7FE00008, 0x7FE00010


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

    Memory is bounded whatever the file claims: the header is read from its first bytes, and
    deflated data is inflated up to a limit.

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
    with path.open("rb") as handle:
        start = handle.read(FIRST_BYTES)
        if not is_dicom(start):
            if looks_headless(start):
                raise ImageError("DICOM data without its file header; export the file again")
            raise NotDicomError("is no DICOM file; leave it out")
        wanted = list(keywords)
        if DEFLATED.encode() + b"\0" in start[:4096]:
            body, whole = _inflated(start + handle.read(MOST_BYTES - len(start)))
            return replace(_parse(body, whole, wanted), syntax=DEFLATED)
        whole = len(start) < FIRST_BYTES
        try:
            return _parse(start, whole, wanted)
        except ImageError:
            if whole:
                raise
        data = start + handle.read(MOST_BYTES - len(start))
        return _parse(data, len(data) < MOST_BYTES, wanted)


def _inflated(data: bytes) -> tuple[bytes, bool]:
    """A deflated file as one that is not: its first ``MOST_BYTES``, and whether that is all."""
    place = 132 if data[128:132] == b"DICM" else 0
    if data[place : place + 6] != b"\2\0\0\0UL":
        raise ImageError("its file header has no length; export it uncompressed")
    start = place + 12 + int.from_bytes(data[place + 8 : place + 12], "little")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        body = inflater.decompress(data[start:], MOST_BYTES)
    except zlib.error:
        raise ImageError("its deflated data is damaged; copy or export the file again") from None
    # The elements themselves are in explicit little endian, the default of what is read below.
    return body, inflater.eof


def _parse(data: bytes, whole: bool, keywords: list[str]) -> Header:
    """Read the elements before the pixels.

    Raises:
        ImageError: An element is damaged, or the data ends before the pixels though it is not
            the whole file.
    """
    from pydicom.datadict import tag_for_keyword
    from pydicom.filereader import read_dataset, read_partial

    tags = [tag for tag in map(tag_for_keyword, keywords) if tag is not None]
    reached = pixels = False

    def at_pixels(tag: int, *_: object) -> bool:
        nonlocal reached, pixels
        reached = tag >= _PIXEL_GROUP
        pixels = reached and tag <= _PIXEL_DATA
        return reached

    try:
        with quiet():
            dataset: Dataset = (
                read_partial(BytesIO(data), at_pixels, force=True, specific_tags=list(tags))
                if is_dicom(data)
                else read_dataset(
                    BytesIO(data), False, True, stop_when=at_pixels, specific_tags=list(tags)
                )
            )
            meta = getattr(dataset, "file_meta", {})
            syntax = str(meta.get("TransferSyntaxUID") or "").replace("\0", "").strip()
    except Exception as error:  # noqa: BLE001 - the parser raises anything on a hostile file
        # Its own words may quote the file, so only the kind of failure is told.
        raise ImageError(
            f"its header is damaged ({type(error).__name__}); copy or export the file again"
        ) from None
    if not reached and not whole:
        raise ImageError(f"its header is longer than {MOST_BYTES >> 20} MiB; export it again")
    return Header(dataset, syntax, pixels)
