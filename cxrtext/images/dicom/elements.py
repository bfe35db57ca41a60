"""The wanted elements of a DICOM data set, read by pydicom; all others are passed over.

pydicom makes an object of every item of a sequence of undefined length, wanted or not: 8 bytes of
a hostile file become hundreds in memory.  So the wanted elements are cut out here, and are small
before pydicom sees them.

Source: DICOM PS3.5 chapter 7.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from cxrtext.errors import ImageError
from cxrtext.images.limits import MAX_DEPTH, MAX_ELEMENTS, MAX_HEADER_BYTES, MAX_ITEMS

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

LONG_VRS = frozenset(
    {b"OB", b"OD", b"OF", b"OL", b"OW", b"OV", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"}
)
"""Value representations whose length has 32 bits."""

IMPLICIT = "1.2.840.10008.1.2"
BIG_ENDIAN = "1.2.840.10008.1.2.2"
PIXEL_GROUP = 0x7FE00008  # the first element of the group that holds the pixels
PIXEL_DATA = 0x7FE00010
UNDEFINED = 0xFFFFFFFF  # the length of a value that ends with a delimiter
_MAX_VALUE_BYTES = 2**16
_LONG_NAMES = ("Sequence", "Data", "Table", "Lengths")
_CHARACTER_SET = 0x00080005
_ITEM, _ITEM_END, _SEQUENCE_END = 0xFFFEE000, 0xFFFEE00D, 0xFFFEE0DD
_DAMAGED = "its header is damaged; copy or export the file again"
_TOO_MANY = f"its header holds more than {MAX_ELEMENTS} elements; export it again"


@dataclass(frozen=True, slots=True)
class Selection:
    dataset: "Dataset"
    place: int  # where the pixels start, or the data ends
    tag: int  # the element there; 0 where the data ends
    value: int = 0  # where its value starts
    length: int = 0

    @property
    def reached(self) -> bool:
        """Whether the pixels, or what would come after them, were reached."""
        return self.tag >= PIXEL_GROUP


def select(
    data: bytes,
    start: int,
    keywords: Iterable[str],
    syntax: str,
    *,
    longest: int = MAX_HEADER_BYTES,
) -> Selection:
    """Read some elements of a data set, and stop before the pixels.

    Args:
        data: Holds the data set; may end within it.
        syntax: The transfer syntax; where a first element shows otherwise, that decides on
            whether value representations are written.
        longest: Most bytes of a wanted sequence or table; other values have at most 64 KiB.
    """
    from pydicom.datadict import tag_for_keyword

    wanted = {_CHARACTER_SET: _MAX_VALUE_BYTES}
    for keyword in keywords:
        if (tag := tag_for_keyword(keyword)) is not None:
            wanted[int(tag)] = longest if keyword.endswith(_LONG_NAMES) else _MAX_VALUE_BYTES
    implicit, little = syntax == IMPLICIT, syntax != BIG_ENDIAN
    if start + 6 <= len(data):
        implicit = not _letters(data[start + 4 : start + 6])
    walk = Walk(data, implicit=implicit, little=little)
    try:
        pieces, place = walk.wanted(start, wanted)
        head = walk.head(place) or (0, 0, 0)
        return Selection(_dataset(pieces, implicit, little), place, *head)
    except ImageError:
        raise
    except Exception:  # noqa: BLE001 - the parser raises anything on a hostile file
        # Its own words may quote the file.
        raise ImageError(_DAMAGED) from None


def _letters(kind: bytes) -> bool:
    return 0x41 <= kind[0] <= 0x5A and 0x41 <= kind[1] <= 0x5A


def _dataset(pieces: Iterable[bytes], implicit: bool, little: bool) -> "Dataset":
    """What pydicom makes of elements."""
    from pydicom.charset import convert_encodings
    from pydicom.dataset import Dataset
    from pydicom.filereader import data_element_generator

    elements: Any = data_element_generator(BytesIO(b"".join(pieces)), implicit, little)
    dataset = Dataset({element.tag: element for element in elements})
    encoding = convert_encodings(dataset.get("SpecificCharacterSet"))
    dataset.set_original_encoding(implicit, little, encoding)
    return dataset


class Walk:
    """A pass over elements, which ends when there are too many."""

    def __init__(self, data: bytes, *, implicit: bool, little: bool) -> None:
        self._data, self._implicit = data, implicit
        order = "<" if little else ">"
        self._tag, self._long = struct.Struct(f"{order}HH"), struct.Struct(f"{order}L")
        self._short = struct.Struct(f"{order}H")
        self._item = self._tag.pack(0xFFFE, 0xE000)
        self._end = self._tag.pack(0xFFFE, 0xE0DD) + bytes(4)
        self._count = 0

    def wanted(self, place: int, most: Mapping[int, int]) -> tuple[list[bytes], int]:
        """Cut out wanted elements, each of so many bytes at most, with the place of the pixels."""
        pieces: list[bytes] = []
        size = 0
        while (head := self.head(place)) is not None:
            tag, value, _ = head
            if tag >= PIXEL_GROUP:
                return pieces, place
            if (end := self._after(place)) is None:
                break
            if tag in most:
                size += end - value
                if end - value > most[tag]:
                    raise ImageError("an element of its header is too long; export the file again")
                if size > MAX_HEADER_BYTES:
                    raise ImageError(
                        "the elements of its header are too long; export the file again"
                    )
                pieces.append(self._data[place:end])
                if pieces[-1].count(self._item) > MAX_ITEMS:
                    raise ImageError(
                        f"its header holds more than {MAX_ITEMS} items; split the file"
                    )
            place = end
        return pieces, len(self._data)

    def head(self, place: int) -> tuple[int, int, int] | None:
        """Read an element's tag, the place of its value and its length; None past the end."""
        data = self._data
        if place + 8 > len(data):
            return None
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise ImageError(_TOO_MANY)
        group, element = self._tag.unpack_from(data, place)
        tag, kind = group << 16 | element, data[place + 4 : place + 6]
        # Items have no representation, and some writers leave it out in the midst of a file.
        if self._implicit or group == 0xFFFE or not _letters(kind):
            return tag, place + 8, self._long.unpack_from(data, place + 4)[0]
        if kind not in LONG_VRS:
            return tag, place + 8, self._short.unpack_from(data, place + 6)[0]
        if place + 12 > len(data):
            return None
        return tag, place + 12, self._long.unpack_from(data, place + 8)[0]

    def _after(self, place: int) -> int | None:
        """Find the end of an element; one of undefined length may hold more of them."""
        if (head := self.head(place)) is None:
            return None
        _, place, length = head
        if length != UNDEFINED:
            return place + length
        in_sequence = [True]  # and not in an item; from the outermost to the innermost
        while in_sequence:
            if len(in_sequence) > MAX_DEPTH:
                raise ImageError("its header is nested too deeply; export the file again")
            if (head := self.head(place)) is None:
                return None
            tag, value, length = head
            if tag == (_SEQUENCE_END if in_sequence[-1] else _ITEM_END):
                in_sequence.pop()
                place = value
            elif in_sequence[-1] and tag != _ITEM:
                # A value that holds no items, as some are written.
                if (found := self._data.find(self._end, place)) < 0:
                    return None
                in_sequence.pop()
                place = found + len(self._end)
            elif length == UNDEFINED:
                in_sequence.append(not in_sequence[-1])
                place = value
            else:
                place = value + length
        return place
