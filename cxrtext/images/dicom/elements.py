"""The wanted elements of a DICOM data set, read by pydicom; all others are passed over.

pydicom makes an object of every item of a sequence of undefined length, wanted or not: 8 bytes of
a hostile file become hundreds in memory.  So the end of such a sequence is looked for here, and
what is wanted is small before pydicom sees it.

Source: DICOM PS3.5 chapter 7.
"""

import struct
from collections.abc import Iterable
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
    implicit: bool  # whether elements are written without their value representation

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
    reading = _Reading(data, wanted, implicit=implicit, little=little)
    try:
        place, last = reading.read(start)
        return Selection(reading.dataset(), place, last, implicit)
    except ImageError:
        raise
    except Exception:  # noqa: BLE001 - the parser raises anything on a hostile file
        # Its own words may quote the file.
        raise ImageError(_DAMAGED) from None


def _letters(kind: bytes) -> bool:
    return 0x41 <= kind[0] <= 0x5A and 0x41 <= kind[1] <= 0x5A


class _Reading:
    """A pass over elements, which ends when there are too many."""

    def __init__(
        self, data: bytes, wanted: dict[int, int], *, implicit: bool, little: bool
    ) -> None:
        self._data, self._wanted = data, wanted
        self._implicit, self._little = implicit, little
        order = "<" if little else ">"
        self._tag, self._long = struct.Struct(f"{order}HH"), struct.Struct(f"{order}L")
        self._short = struct.Struct(f"{order}H")
        self._item = self._tag.pack(0xFFFE, 0xE000)
        self._end = self._tag.pack(0xFFFE, 0xE0DD) + bytes(4)
        self._found: dict[Any, Any] = {}
        self._count = self._bytes = self._stopped = 0

    def dataset(self) -> "Dataset":
        from pydicom.charset import convert_encodings
        from pydicom.dataset import Dataset

        dataset = Dataset(self._found)
        encoding = convert_encodings(dataset.get("SpecificCharacterSet"))
        dataset.set_original_encoding(self._implicit, self._little, encoding)
        return dataset

    def read(self, place: int) -> tuple[int, int]:
        """Read elements; give the place and the tag of the pixels, 0 where the data end."""
        source = BytesIO(self._data)
        while True:
            source.seek(place)
            try:
                self._take(source)
            except struct.error:  # the data end within a length
                return len(self._data), 0
            place, tag = source.tell(), self._stopped
            if tag == 0 or tag >= PIXEL_GROUP:
                return place, tag
            # A value of undefined length, or one that pydicom takes for another.
            if (end := self._after(place)) is None:
                return len(self._data), 0
            if tag in self._wanted:
                self._allow(tag, end - place)
                self._check_items(piece := self._data[place:end])
                self._take(BytesIO(piece), whole=True)
            place = end

    def _take(self, source: BytesIO, *, whole: bool = False) -> None:
        from pydicom.filereader import data_element_generator

        self._stopped = 0
        found = data_element_generator(
            source,
            self._implicit,
            self._little,
            stop_when=None if whole else self._stops,
            specific_tags=list(self._wanted),
        )
        for element in found:
            if isinstance(element.value, bytes):
                self._check_items(element.value)
            self._found[element.tag] = element

    def _stops(self, tag: int, kind: str | None, length: int) -> bool:
        self._counted()
        # pydicom takes "F\0", the beginning of a length, for an unknown representation.
        odd = kind is not None and not _letters(kind.encode("latin-1"))
        if tag >= PIXEL_GROUP or length == UNDEFINED or odd:
            self._stopped = int(tag)
            return True
        if tag in self._wanted:
            self._allow(tag, length)
        return False

    def _check_items(self, value: bytes) -> None:
        if value.count(self._item) > MAX_ITEMS:
            raise ImageError(f"its header holds more than {MAX_ITEMS} items; split the file")

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise ImageError(_TOO_MANY)

    def _allow(self, tag: int, length: int) -> None:
        self._bytes += length
        if length > self._wanted[tag]:
            raise ImageError("an element of its header is too long; export the file again")
        if self._bytes > MAX_HEADER_BYTES:
            raise ImageError("the elements of its header are too long; export the file again")

    def _head(self, place: int) -> tuple[int, int, int] | None:
        """Read an element's tag, the place of its value and its length; None past the end."""
        data = self._data
        if place + 8 > len(data):
            return None
        self._counted()
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
        if (head := self._head(place)) is None:
            return None
        _, place, length = head
        if length != UNDEFINED:
            return place + length
        in_sequence = [True]  # and not in an item; from the outermost to the innermost
        while in_sequence:
            if len(in_sequence) > MAX_DEPTH:
                raise ImageError("its header is nested too deeply; export the file again")
            if (head := self._head(place)) is None:
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
