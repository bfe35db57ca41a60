"""The pixels of a DICOM file: its frames, and the stored values of one.

Only elements that decide how pixels look are read.
"""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.dicom.codecs import decompress, decompress_rle
from cxrtext.images.dicom.elements import (
    BIG_ENDIAN,
    MAX_BYTES,
    PIXEL_DATA,
    UNDEFINED,
    Selection,
    select,
)
from cxrtext.images.dicom.file import (
    ALLOWED,
    DEFLATED,
    DEFLATED_FRAME,
    FIRST_BYTES,
    LOSSLESS,
    NATIVE,
    RAW_FRAME,
    RLE,
    Inflation,
    header_too_long,
    inflate,
    transfer_syntax,
    uid_name,
)
from cxrtext.images.dicom.header import PIXEL_KEYWORDS, PixelFormat, frame_bits, pixel_format
from cxrtext.images.dicom.orientation import KEYWORDS as ORIENTATION_KEYWORDS
from cxrtext.images.gray import Samples
from cxrtext.images.jpeg import Codestream

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

MAX_INFLATED_BYTES = 2**28  # the most that a deflated data set may grow to, whatever sizes it tells
_AFTER_PIXELS = 2**20  # signatures and padding
_ITEM, _END = 0xE000, 0xE0DD
_CUT = "its pixel data is cut off; copy or export the file again"
_UNCLEAR = "its compressed frames have no clear limits; export the file uncompressed"
_NO_PIXELS = "holds no pixel data; export the image with its pixels"
_KEYWORDS = (
    *PIXEL_KEYWORDS,
    *("SOPClassUID", "PixelPaddingValue", "PixelPaddingRangeLimit", "ExtendedOffsetTable"),
    *("RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "VOILUTSequence"),
    *("WindowCenter", "WindowWidth", "WindowCenterWidthExplanation", "VOILUTFunction"),
    *ORIENTATION_KEYWORDS,
    *("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"),
    *(
        f"{kind}{color}PaletteColorLookupTable{part}"
        for color in ("Red", "Green", "Blue")
        for kind, part in (("", "Descriptor"), ("", "Data"), ("Segmented", "Data"))
    ),
)


@dataclass(frozen=True, slots=True)
class DicomFile:
    """The parts of a DICOM file that an image is made from."""

    syntax: str  # transfer syntax, one of ``ALLOWED``
    dataset: "Dataset"
    pixels: memoryview  # the value of Pixel Data: raw samples, or items that hold compressed frames

    @property
    def little(self) -> bool:
        """Whether words lie low byte first."""
        return self.syntax != BIG_ENDIAN


def read_file(data: bytes) -> DicomFile:
    """Split a DICOM file into its elements and its pixels."""
    syntax, start = transfer_syntax(data)
    if not syntax:
        raise ImageError("names no transfer syntax in its file header; export the file again")
    if syntax not in ALLOWED:
        raise ImageError(
            f"has a transfer syntax {uid_name(syntax)} that is not supported; "
            "export it uncompressed"
        )
    body: bytes | bytearray = data
    if syntax == DEFLATED:
        body, start = _inflated(memoryview(data)[start:]), 0
    found = select(body, start, _KEYWORDS, syntax)
    return DicomFile(syntax, found.dataset, _pixel_value(memoryview(body), found, syntax))


def _inflated(packed: memoryview) -> bytearray:
    """Inflate a data set: its header first, which says how large the rest may be."""
    inflation = Inflation(packed)
    for size in (FIRST_BYTES, MAX_BYTES):
        head = inflation.first(size)
        found = select(head, 0, _KEYWORDS, DEFLATED)
        if found.reached or inflation.ended:
            break
    else:
        raise header_too_long()
    if not found.reached:
        return head
    pixels = pixel_format(found.dataset)
    needed = found.place + -(-frame_bits(pixels) * pixels.frames // 8) + _AFTER_PIXELS
    return inflate(packed, min(needed, MAX_INFLATED_BYTES))


def _pixel_value(body: memoryview, found: Selection, syntax: str) -> memoryview:
    """Cut out the value of Pixel Data, which starts where the wanted elements end."""
    dataset, place = found.dataset, found.place
    order = "<" if syntax != BIG_ENDIAN else ">"
    if place + 12 > len(body):
        raise _no_pixels(dataset)
    group, element = struct.unpack(f"{order}HH", body[place : place + 4])
    if group << 16 | element != PIXEL_DATA:
        raise _no_pixels(dataset)
    # What pydicom found, which in mislabeled files differs from what the syntax says.
    start = place + (8 if found.implicit else 12)
    (length,) = struct.unpack(f"{order}L", body[start - 4 : start])
    if (length == UNDEFINED) == (syntax in NATIVE):
        raise ImageError("its pixel data does not fit its transfer syntax; export the file again")
    if length == UNDEFINED:
        return body[start:]
    if start + length > len(body):
        raise ImageError(_CUT)
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
    return ImageError(_NO_PIXELS)


def native_frame(value: memoryview, pixels: PixelFormat, frame: int) -> tuple[memoryview, int]:
    """Cut out the bytes of one raw frame, counted from 0.

    With the number of bits to skip in the first byte: 1-bit frames do not start at whole bytes.
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
    """Put the fragments of one compressed frame, counted from 0, together."""
    items = _items(value)
    if len(items) < 2:
        raise ImageError(_NO_PIXELS)
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
        if (end := place + 8 + length) > len(value):
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


def stored_values(file: DicomFile, pixels: PixelFormat, frame: int) -> tuple[Samples, bool]:
    """Decode the stored values of one frame, counted from 0, and say whether they are RGB.

    [H, W] for gray, palette and YCbCr (of which Y alone is kept), [H, W, 3] for RGB, all within
    ``pixels.lowest`` to ``pixels.highest``.
    """
    luma_first = pixels.photometric in ("YBR_FULL", "YBR_FULL_422")
    if file.syntax in NATIVE:
        raw, skip = native_frame(file.pixels, pixels, frame)
        values = _from_cells(_native_cells(raw, skip, file, pixels), pixels)
    else:
        data = compressed_frame(file.pixels, pixels.frames, frame, file.dataset)
        if file.syntax == RLE:
            cells = np.frombuffer(decompress_rle(data, pixels), dtype=f"<u{pixels.allocated // 8}")
            values = _from_cells(_planes_last(cells, pixels), pixels)
        elif file.syntax in (RAW_FRAME, DEFLATED_FRAME):
            raw = _raw_frame(data, file.syntax, pixels)
            values = _from_cells(_native_cells(raw, 0, file, pixels), pixels)
        else:
            samples, stream = decompress(data, file.syntax, pixels)
            values = _from_codestream(samples, stream, pixels, exact=file.syntax in LOSSLESS)
            if stream.luma_first is not None:
                luma_first = stream.luma_first
    if not pixels.color:
        return values, False
    if luma_first:
        return values if values.ndim == 2 else values[..., 0], False
    return values, True


def _raw_frame(data: bytes, syntax: str, pixels: PixelFormat) -> memoryview:
    """Take raw samples out of a fragment, where one byte of padding may follow them."""
    needed = -(-frame_bits(pixels) // 8)
    raw = inflate(data, needed + 2) if syntax == DEFLATED_FRAME else data
    if not needed <= len(raw) <= needed + 1:
        raise ImageError(
            "its frame has another size than its header tells, or is cut off; export the file again"
        )
    return memoryview(raw)[:needed]


def _planes_last(cells: Samples, pixels: PixelFormat) -> Samples:
    if not pixels.color:
        return cells.reshape(pixels.rows, pixels.columns)
    return np.moveaxis(cells.reshape(pixels.samples, pixels.rows, pixels.columns), 0, -1)


def _native_cells(raw: memoryview, skip: int, file: DicomFile, pixels: PixelFormat) -> Samples:
    """Read unsigned storage cells; of Y Y Cb Cr data only the two Y."""
    size = (pixels.rows, pixels.columns)
    if pixels.allocated == 1:
        bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little")
        return bits[skip : skip + size[0] * size[1]].reshape(size)
    order = "<" if file.little else ">"
    cells = np.frombuffer(raw, dtype=f"{order}u{pixels.allocated // 8}")
    if pixels.subsampled:
        return cells.reshape(-1, 4)[:, :2].reshape(size)
    if pixels.planar or not pixels.color:
        return _planes_last(cells, pixels)
    return cells.reshape(*size, pixels.samples)


def _from_cells(cells: Samples, pixels: PixelFormat) -> Samples:
    """Take the bits in use out of storage cells, whose other bits may hold an overlay."""
    return _used_bits(cells, pixels, pixels.high_bit - pixels.stored + 1)


def _used_bits(cells: Samples, pixels: PixelFormat, shift: int) -> Samples:
    """Shift unsigned cells to the lowest bit in use, mask the others, and extend the sign.

    The values stay as narrow as the cells, because most of the time goes into moving them.
    """
    values = np.right_shift(cells, shift) if shift else cells
    if pixels.stored < 8 * cells.itemsize:
        values = np.bitwise_and(values, (1 << pixels.stored) - 1)
    values = values.astype(cells.dtype.newbyteorder("="), copy=False)
    return _sign_extended(values, pixels.stored) if pixels.signed else values


def _sign_extended(values: Samples, bits: int) -> Samples:
    """Read the lowest bits of whole numbers as two's complement; the others must be 0."""
    half = 1 << (bits - 1)
    # Unsigned numbers wrap round, which is what two's complement is.
    shifted = np.bitwise_xor(values, half)
    np.subtract(shifted, half, out=shifted)
    return shifted.view(f"i{shifted.itemsize}")


def places_of(values: Samples, pixels: PixelFormat) -> Samples:
    """Count stored values from the lowest that fits, [H, W] of 0 to ``highest - lowest``."""
    if values.dtype.kind == "u" and pixels.lowest == 0:
        return values
    if values.dtype.kind == "i" and values.itemsize <= 2:
        unsigned = values.view(f"u{values.itemsize}")  # negative ones wrap round
        return np.asarray(np.add(unsigned, -pixels.lowest))
    return np.asarray(values - pixels.lowest)


def _from_codestream(
    samples: Samples, stream: Codestream, pixels: PixelFormat, *, exact: bool
) -> Samples:
    """Bring decoded samples into the header's range.

    JPEG knows no sign, and some writers of JPEG 2000 leave it out, so the header decides.  A
    stream deeper than the bits in use holds whole storage cells, an overlay or a shift among
    them.  Lossy coding (not ``exact``) may step out of the range, where masking would turn white
    into black.
    """
    shift = pixels.high_bit - pixels.stored + 1 if stream.precision > pixels.high_bit else 0
    if exact and stream.precision > pixels.stored:
        narrow = stream.precision <= 16
        wide = samples.astype(np.int32 if narrow else np.int64)
        cells = np.bitwise_and(wide, (1 << stream.precision) - 1)
        return _used_bits(cells.astype(np.uint16 if narrow else np.uint32), pixels, shift)
    if samples.dtype.kind == "u" and not stream.signed and not pixels.signed:
        values = np.right_shift(samples, shift) if shift else samples
        fits = pixels.highest >= np.iinfo(samples.dtype).max
        return values if fits else np.minimum(values, pixels.highest)
    values = samples.astype(np.int64 if max(stream.precision, pixels.stored) > 16 else np.int32)
    if pixels.signed and not stream.signed:
        values = _sign_extended(values, stream.precision)
    if stream.signed and not pixels.signed:
        np.bitwise_and(values, (1 << stream.precision) - 1, out=values)
    if shift:
        np.right_shift(values, shift, out=values)
    return np.clip(values, pixels.lowest, pixels.highest, out=values)
