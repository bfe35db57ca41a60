"""The wanted elements of a DICOM data set, cut out of its bytes; all others are passed over.

pydicom makes an object of every item of a sequence that it meets, wanted or not: 8 bytes of a
hostile file become hundreds in memory.  Here nothing is made of what is not wanted, and what is
wanted is small before pydicom sees it.

Source: DICOM PS3.5 chapter 7.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError

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
MAX_BYTES = 2**25  # the most that may be cut out, and the longest header that is read
_MAX_ELEMENTS = 1_000_000
_MAX_ITEMS = 250_000
_MAX_VALUE_BYTES = 2**16
_LONG_NAMES = ("Sequence", "Data", "Table")
_MAX_DEPTH = 64
_CHARACTER_SET = 0x00080005
_ITEM_GROUP = 0xFFFE
_ITEM, _ITEM_END, _SEQUENCE_END = 0xFFFEE000, 0xFFFEE00D, 0xFFFEE0DD
_DAMAGED = "its header is damaged; copy or export the file again"


@dataclass(frozen=True, slots=True)
class Selection:
    """What was cut out of a data set."""

    dataset: "Dataset"
    place: int  # where the pixels start, or the data ends
    tag: int  # the element there; 0 where the data ends
    implicit: bool  # whether elements are written without their value representation

    @property
    def reached(self) -> bool:
        """Whether the pixels, or what would come after them, were reached."""
        return self.tag >= PIXEL_GROUP


@dataclass(frozen=True, slots=True)
class _Head:
    """An element: its tag, the place of its value, and that value's length."""

    tag: int
    value: int
    length: int


class _Walk:
    """A pass over elements, which ends when there are too many."""

    def __init__(self, data: bytes | bytearray, *, implicit: bool, little: bool) -> None:
        order = "<" if little else ">"
        self._data, self._implicit = data, implicit
        self._tag = struct.Struct(f"{order}HH")
        self._long = struct.Struct(f"{order}L")
        self._short = struct.Struct(f"{order}H")
        self._end = self._tag.pack(0xFFFE, 0xE0DD) + bytes(4)
        self._left = _MAX_ELEMENTS

    def head(self, place: int) -> _Head | None:
        """Read an element's tag and length; None where the data ends before."""
        data = self._data
        if place + 8 > len(data):
            return None
        self._left -= 1
        if self._left < 0:
            raise ImageError(
                f"its header holds more than {_MAX_ELEMENTS} elements; export it again"
            )
        group, element = self._tag.unpack_from(data, place)
        kind = bytes(data[place + 4 : place + 6])
        # Items have no representation, and some writers leave it out in the midst of a file.
        if self._implicit or group == _ITEM_GROUP or not _letters(kind):
            return _Head(group << 16 | element, place + 8, *self._long.unpack_from(data, place + 4))
        if kind not in LONG_VRS:
            length = self._short.unpack_from(data, place + 6)
            return _Head(group << 16 | element, place + 8, *length)
        if place + 12 > len(data):
            return None
        return _Head(group << 16 | element, place + 12, *self._long.unpack_from(data, place + 8))

    def after(self, head: _Head) -> int | None:
        """Give the place after an element; None where the data ends before."""
        place = head.value + head.length
        if head.length == UNDEFINED:
            if (found := self._after_sequence(head.value)) is None:
                return None
            place = found
        return place if place <= len(self._data) else None

    def _after_sequence(self, place: int) -> int | None:
        """Find the end of a sequence of undefined length, whose items may hold more of them."""
        in_sequence = [True]  # and not in an item; from the outermost to the innermost
        while in_sequence:
            if len(in_sequence) > _MAX_DEPTH:
                raise ImageError("its header is nested too deeply; export the file again")
            if (head := self.head(place)) is None:
                return None
            if head.tag == (_SEQUENCE_END if in_sequence[-1] else _ITEM_END):
                in_sequence.pop()
                place = head.value
            elif in_sequence[-1] and head.tag != _ITEM:
                # A value that holds no items, as some are written.
                if (found := self._data.find(self._end, place)) < 0:
                    return None
                in_sequence.pop()
                place = found + len(self._end)
            elif head.length == UNDEFINED:
                in_sequence.append(not in_sequence[-1])
                place = head.value
            else:
                place = head.value + head.length
        return place


def _letters(kind: bytes | bytearray) -> bool:
    return 0x41 <= kind[0] <= 0x5A and 0x41 <= kind[1] <= 0x5A


def select(
    data: bytes | bytearray,
    start: int,
    keywords: Iterable[str],
    syntax: str,
    *,
    longest: int = MAX_BYTES,
) -> Selection:
    """Read some elements of a data set, and stop before the pixels.

    Args:
        data: Holds the data set; may end within it.
        syntax: The transfer syntax; where a first element shows otherwise, that decides on
            whether value representations are written.
        longest: Most bytes of a wanted sequence or table; other values have at most 64 KiB.
    """
    from pydicom.datadict import tag_for_keyword

    wanted = {_CHARACTER_SET: False}
    for keyword in keywords:
        if (tag := tag_for_keyword(keyword)) is not None:
            wanted[int(tag)] = keyword.endswith(_LONG_NAMES)
    implicit, little = syntax == IMPLICIT, syntax != BIG_ENDIAN
    if start + 6 <= len(data):
        implicit = not _letters(data[start + 4 : start + 6])
    walk = _Walk(data, implicit=implicit, little=little)
    parts: list[bytes] = []
    place, total, last = start, 0, 0
    while (head := walk.head(place)) is not None:
        if head.tag >= PIXEL_GROUP:
            last = head.tag
            break
        if (end := walk.after(head)) is None:
            break
        if head.tag in wanted:
            total += end - place
            if end - head.value > (longest if wanted[head.tag] else _MAX_VALUE_BYTES):
                raise ImageError("an element of its header is too long; export the file again")
            parts.append(bytes(data[place:end]))
        place = end
    if total > MAX_BYTES:
        raise ImageError("the elements of its header are too long; export the file again")
    dataset = _parsed(b"".join(parts), implicit=implicit, little=little)
    return Selection(dataset, place, last, implicit)


def _parsed(elements: bytes, *, implicit: bool, little: bool) -> "Dataset":
    """Let pydicom read what was cut out."""
    from pydicom.filereader import read_dataset

    item = b"\xfe\xff\x00\xe0" if little else b"\xff\xfe\xe0\x00"
    if elements.count(item) > _MAX_ITEMS:
        raise ImageError(f"its header holds more than {_MAX_ITEMS} items; split the file")
    try:
        return read_dataset(BytesIO(elements), implicit, little)
    except Exception:  # noqa: BLE001 - the parser raises anything on a hostile file
        # Its own words may quote the file.
        raise ImageError(_DAMAGED) from None
