"""Finding the bytes of one frame among the pixels of a DICOM file."""

import struct
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.images.dicom_header import PixelFormat, frame_bits

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_ITEM = 0xE000
_END = 0xE0DD
_CUT = "its pixel data is cut off; copy or export the file again"
_UNCLEAR = "its compressed frames cannot be told apart; export the file uncompressed"


def native_frame(value: memoryview, pixels: PixelFormat, frame: int) -> tuple[memoryview, int]:
    """Cut one raw frame out.

    Args:
        value: The value of Pixel Data.
        pixels: How samples are stored.
        frame: Which frame, from 0.

    Returns:
        The bytes that hold it, and the number of bits to skip in the first (1-bit frames do not
        start at whole bytes).

    Raises:
        ImageError: When there are fewer or many more bytes than the header says.
    """
    bits = frame_bits(pixels)
    needed = -(-bits * pixels.frames // 8)
    if len(value) < needed:
        raise ImageError(_CUT)
    if len(value) >= needed + max(bits // 8, 2):
        raise ImageError("has more pixel data than its header tells; export the file again")
    first, last = bits * frame, bits * (frame + 1)
    return value[first // 8 : -(-last // 8)], first % 8


def compressed_frame(value: memoryview, frames: int, frame: int, dataset: "Dataset") -> bytes:
    """Put the fragments of one compressed frame together.

    Args:
        value: Pixel Data from its first item on.
        frames: How many frames the header tells.
        frame: Which frame, from 0.
        dataset: May hold an Extended Offset Table.

    Returns:
        The compressed frame.

    Raises:
        ImageError: When items are cut off, or cannot be assigned to frames.
    """
    items = _items(value)
    if len(items) < 2:
        raise ImageError("holds no pixel data; export the image with its pixels")
    (_, table), fragments = items[0], items[1:]
    if frames == 1:
        return b"".join(data for _, data in fragments)
    if len(fragments) == frames:
        return bytes(fragments[frame][1])
    if len(fragments) < frames:
        raise ImageError("holds fewer frames than its header tells; export the file again")
    starts = _starts(bytes(table), dataset, frames)
    origin = fragments[0][0]
    first = origin + starts[frame]
    stop = origin + starts[frame + 1] if frame + 1 < frames else len(value)
    chosen = [data for place, data in fragments if first <= place < stop]
    if not chosen or first not in {place for place, _ in fragments}:
        raise ImageError(_UNCLEAR)
    return b"".join(chosen)


def _items(value: memoryview) -> list[tuple[int, memoryview]]:
    """Give (place of the item, its value) up to the sequence delimiter."""
    found: list[tuple[int, memoryview]] = []
    place = 0
    while place + 8 <= len(value):
        group, element, length = struct.unpack("<HHL", value[place : place + 8])
        if group != 0xFFFE or element not in (_ITEM, _END):
            raise ImageError("its compressed pixel data is damaged; copy or export the file again")
        if element == _END:
            return found
        end = place + 8 + length
        if end > len(value):
            break
        found.append((place, value[place + 8 : end]))
        place = end
    raise ImageError(_CUT)


def _starts(basic: bytes, dataset: "Dataset", frames: int) -> list[int]:
    """Read where frames start, in bytes from the first fragment's item."""
    extended = dataset.get("ExtendedOffsetTable", b"")
    if basic and len(basic) == 4 * frames:
        return list(struct.unpack(f"<{frames}L", basic))
    if isinstance(extended, bytes) and len(extended) == 8 * frames:
        return list(struct.unpack(f"<{frames}Q", extended))
    raise ImageError(_UNCLEAR)
