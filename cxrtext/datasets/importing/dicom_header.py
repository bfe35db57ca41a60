"""The few elements of a DICOM header that an import looks at; all others are skipped unread."""

import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.images.dicom_file import DEFLATED, is_dicom, looks_headless
from cxrtext.images.quiet import quiet

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

FIRST_BYTES = 2**16
"""Read of every file; the headers of most are shorter."""
MOST_BYTES = 2**25
"""Longest header that is read, and the most that a deflated one may grow to."""
MAX_FILE_BYTES = 2**30
"""Larger files are not read by `cxrtext.images.read_image` either."""

_PIXEL_GROUP, _PIXEL_DATA = 0x7FE00008, 0x7FE00010
NEEDED = (
    "SOPClassUID",
    "SOPInstanceUID",
    "Modality",
    "PresentationIntentType",
    "StudyInstanceUID",
    "AccessionNumber",
    "PatientID",
    "ViewPosition",
    "ViewCodeSequence",
    "SeriesDescription",
    "BodyPartExamined",
    "NumberOfFrames",
    "Rows",
    "Columns",
)


class NotDicomError(Exception):
    """The file is no DICOM file at all."""


class DamagedError(Exception):
    """The file is DICOM, but its header cannot be read; the text says why."""


def read_header(path: Path, keywords: Iterable[str] = ()) -> "tuple[Dataset, bool]":
    """Read the elements in ``NEEDED`` and some more, and no others.

    Memory is bounded whatever the file claims: the header is read from its first bytes, and
    deflated data is inflated up to a limit.

    Args:
        path: The file; with its 128-byte preamble or without.
        keywords: DICOM keywords of further elements.

    Returns:
        The elements, and whether pixels follow them.

    Raises:
        NotDicomError: It is something else.
        DamagedError: It is DICOM, but damaged.
        OSError: It cannot be read.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise DamagedError("larger than 1 GiB; split it into single frames")
    with path.open("rb") as handle:
        start = handle.read(FIRST_BYTES)
        if not is_dicom(start):
            if looks_headless(start):
                raise DamagedError("DICOM data without its file header; export the file again")
            raise NotDicomError
        wanted = [*NEEDED, *keywords]
        if DEFLATED.encode() + b"\0" in start[:4096]:
            return _parse(*_inflated(start + handle.read(MOST_BYTES - len(start))), wanted)
        whole = len(start) < FIRST_BYTES
        try:
            return _parse(start, whole, wanted)
        except DamagedError:
            if whole:
                raise
        data = start + handle.read(MOST_BYTES - len(start))
        return _parse(data, len(data) < MOST_BYTES, wanted)


def _inflated(data: bytes) -> tuple[bytes, bool]:
    """A deflated file as one that is not: its first ``MOST_BYTES``, and whether that is all."""
    place = 132 if data[128:132] == b"DICM" else 0
    if data[place : place + 6] != b"\2\0\0\0UL":
        raise DamagedError("its file header has no length; export it uncompressed")
    start = place + 12 + int.from_bytes(data[place + 8 : place + 12], "little")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        body = inflater.decompress(data[start:], MOST_BYTES)
    except zlib.error:
        raise DamagedError("its deflated data is damaged; copy or export the file again") from None
    # The elements themselves are in explicit little endian, the default of what is read below.
    return body, inflater.eof


def _parse(data: bytes, whole: bool, keywords: list[str]) -> "tuple[Dataset, bool]":
    """Read the elements before the pixels.

    Raises:
        DamagedError: An element is damaged, or the data ends before the pixels though it is not
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
    except Exception as error:  # noqa: BLE001 - the parser raises anything on a hostile file
        # Its own words may quote the file, so only the kind of failure is told.
        raise DamagedError(
            f"its header is damaged ({type(error).__name__}); copy or export the file again"
        ) from None
    if not reached and not whole:
        raise DamagedError(f"its header is longer than {MOST_BYTES >> 20} MiB; export it again")
    return dataset, pixels


def text_of(dataset: "Dataset", keyword: str) -> str:
    """The first value of an element as text without space around it; "" where there is none."""
    try:
        with quiet():
            value = dataset.get(keyword)
            if value is None:
                return ""
            if not isinstance(value, str) and hasattr(value, "__iter__"):
                value = next(iter(value), "")
            return str(value).replace("\0", "").strip()
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return ""


def all_text_of(dataset: "Dataset", keyword: str) -> str:
    """All values of an element as text, separated by spaces."""
    try:
        with quiet():
            value = dataset.get(keyword)
            several = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
            return " ".join(str(one) for one in several if one is not None).strip()
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return ""


def view_codes(dataset: "Dataset") -> list[str]:
    """The meanings of the codes of the view, such as "postero-anterior"."""
    meanings = []
    try:
        for item in dataset.get("ViewCodeSequence") or []:
            code = text_of(item, "CodeValue")
            meanings.append(text_of(item, "CodeMeaning") or _VIEW_CODES.get(code, ""))
            meanings.append(_VIEW_CODES.get(code, ""))
    except Exception:  # noqa: BLE001 - a damaged sequence raises anything
        return meanings
    return meanings


_VIEW_CODES = {
    "R-10202": "frontal",
    "R-10206": "AP",
    "R-10214": "PA",
    "R-10232": "lateral",
    "R-10236": "lateral",
    "399033003": "frontal",
    "399348003": "AP",
    "272479007": "PA",
    "399198007": "lateral",
    "399173006": "lateral",
}
"""Codes of CID 4010 (SRT and SCT) that are read where their meaning is left out."""
