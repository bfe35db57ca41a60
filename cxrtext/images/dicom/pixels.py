"""The pixels of a DICOM file: its frames, and the stored values of one.

Only elements that affect how pixels look are read.
"""

import struct
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.dicom.codecs import decompress, decompress_rle
from cxrtext.images.dicom.file import (
    ALLOWED,
    BIG_ENDIAN,
    LOSSLESS,
    NATIVE,
    PIXEL_DATA,
    RLE,
    UNDEFINED,
    Header,
    header_of,
    not_supported,
    transfer_syntax,
    uid_name,
)
from cxrtext.images.dicom.header import PIXEL_KEYWORDS, PixelFormat
from cxrtext.images.dicom.orientation import KEYWORDS as ORIENTATION_KEYWORDS
from cxrtext.images.gray import Samples
from cxrtext.images.jpeg import Codestream

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_CUT = "its pixel data is cut off; copy or export the file again"
_UNCLEAR = "its compressed frames have no clear limits; export the file uncompressed"
_NO_PIXELS = "holds no pixel data; export the image with its pixels"
_KEYWORDS = (
    *PIXEL_KEYWORDS,
    *("SOPClassUID", "PixelPaddingValue", "PixelPaddingRangeLimit", "ExtendedOffsetTable"),
    "ExtendedOffsetTableLengths",
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


def read_file(data: bytes) -> tuple[str, "Dataset", memoryview]:
    """Split a DICOM file into transfer syntax, elements, and the value of Pixel Data.

    The value is raw samples, or items that hold compressed frames.
    """
    syntax, _ = transfer_syntax(data)
    if not syntax:
        raise ImageError("names no transfer syntax in its file header; export the file again")
    if syntax not in ALLOWED:
        raise not_supported(syntax)
    header = header_of(data, _KEYWORDS)
    return syntax, header.dataset, _pixel_value(memoryview(data), header)


def _pixel_value(body: memoryview, header: Header) -> memoryview:
    """Cut out the value of Pixel Data, which starts where the requested elements end."""
    start, end = header.value, header.value + header.length
    if header.tag != PIXEL_DATA:
        raise _no_pixels(header.dataset)
    if (header.length == UNDEFINED) == (header.syntax in NATIVE):
        raise ImageError("its pixel data does not fit its transfer syntax; export the file again")
    if header.length == UNDEFINED:
        return body[start:]
    if end > len(body):
        raise ImageError(_CUT)
    value = body[start:end]
    if header.syntax == BIG_ENDIAN and bytes(body[start - 8 : start - 6]) == b"OW":
        return _bytes_in_order(value, header.dataset)
    return value


def _bytes_in_order(value: memoryview, dataset: "Dataset") -> memoryview:
    """Swap one-byte samples back, which big-endian words store in pairs."""
    if str(dataset.get("BitsAllocated")) != "8" or len(value) % 2:
        return value
    return memoryview(np.frombuffer(value, dtype=np.uint16).byteswap().tobytes())


def _no_pixels(dataset: "Dataset") -> ImageError:
    kind = uid_name(str(dataset.get("SOPClassUID", "")))
    if kind.endswith("Storage'") and "Image" not in kind and "Segmentation" not in kind:
        return ImageError(f"is of the kind {kind}, which has no image; leave it out")
    return ImageError(_NO_PIXELS)


def native_frame(value: memoryview, pixels: PixelFormat, frame: int) -> memoryview:
    """Cut out the bytes of one raw frame, counted from 0."""
    if pixels.photometric == "YBR_FULL_422":
        raise ImageError("its colors are stored at half the width; export it as grayscale")
    size = pixels.rows * pixels.columns * pixels.samples * pixels.allocated // 8
    if len(value) < size * pixels.frames:
        raise ImageError(_CUT)
    if len(value) >= size * pixels.frames + max(size, 2):
        raise ImageError("has more pixel data than its header tells; export the file again")
    return value[size * frame : size * (frame + 1)]


def compressed_frame(value: memoryview, frames: int, frame: int, dataset: "Dataset") -> bytes:
    """Join the fragments of one compressed frame, counted from 0."""
    from pydicom.encaps import get_frame

    offsets = [dataset.get(f"ExtendedOffsetTable{part}") for part in ("", "Lengths")]
    extended = (offsets[0], offsets[1]) if all(offsets) else None
    try:
        return get_frame(BytesIO(value), frame, number_of_frames=frames, extended_offsets=extended)
    except (ValueError, IndexError, struct.error):
        raise ImageError(_UNCLEAR) from None


def stored_values(
    syntax: str,
    dataset: "Dataset",
    value: memoryview,
    pixels: PixelFormat,
    frame: int,
    least: int | None = None,
) -> tuple[Samples, bool]:
    """Decode the stored values of one frame, counted from 0, and say whether they are RGB.

    [H, W] for gray and YCbCr (only Y is kept), [H, W, 3] for RGB, all within ``pixels.lowest`` to
    ``pixels.highest``.  For ``least`` see `decompress`.
    """
    luma_first = pixels.photometric in ("YBR_FULL", "YBR_FULL_422")
    if syntax in NATIVE:
        raw = native_frame(value, pixels, frame)
        order = ">" if syntax == BIG_ENDIAN else "<"
        cells = np.frombuffer(raw, f"{order}u{pixels.allocated // 8}")
        values = _from_cells(_arranged(cells, pixels, planar=pixels.planar), pixels)
    else:
        data = compressed_frame(value, pixels.frames, frame, dataset)
        if syntax == RLE:
            cells = decompress_rle(data, pixels)
            values = _from_cells(_arranged(cells, pixels, planar=True), pixels)
        else:
            samples, stream = decompress(data, syntax, pixels, least)
            values = _from_codestream(samples, stream, pixels, exact=syntax in LOSSLESS)
            if stream.luma_first is not None:
                luma_first = stream.luma_first
    if not pixels.color:
        return values, False
    if luma_first:
        return values if values.ndim == 2 else values[..., 0], False
    return values, True


def _arranged(cells: Samples, pixels: PixelFormat, *, planar: bool) -> Samples:
    """Arrange a flat row of cells as [H, W], or as [H, W, 3]."""
    size = (pixels.rows, pixels.columns)
    if not pixels.color:
        return cells.reshape(size)
    return np.moveaxis(cells.reshape(3, *size), 0, -1) if planar else cells.reshape(*size, 3)


def _from_cells(cells: Samples, pixels: PixelFormat) -> Samples:
    """Extract the bits in use from storage cells; the other bits may hold an overlay."""
    return _used_bits(cells, pixels, pixels.high_bit - pixels.stored + 1)


def _used_bits(cells: Samples, pixels: PixelFormat, shift: int) -> Samples:
    """Shift unsigned cells to the lowest bit in use, mask the others, and extend the sign.

    The values stay as narrow as the cells, because moving them takes most of the time.
    """
    values = np.right_shift(cells, shift) if shift else cells
    if pixels.stored < 8 * cells.itemsize:
        values = np.bitwise_and(values, (1 << pixels.stored) - 1)
    values = values.astype(cells.dtype.newbyteorder("="), copy=False)
    return _sign_extended(values, pixels.stored) if pixels.signed else values


def _sign_extended(values: Samples, bits: int) -> Samples:
    """Read the lowest bits of whole numbers as two's complement; the others must be 0."""
    half = 1 << (bits - 1)
    # Unsigned numbers wrap round, as two's complement does.
    shifted = np.bitwise_xor(values, half)
    np.subtract(shifted, half, out=shifted)
    return shifted.view(f"i{shifted.itemsize}")


def places_of(values: Samples, pixels: PixelFormat) -> Samples:
    """Count stored values from the lowest possible one, [H, W] of 0 to ``highest - lowest``."""
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

    The header decides about the sign: JPEG has none, and some writers of JPEG 2000 leave it out.
    A stream deeper than the bits in use holds whole storage cells, perhaps with an overlay or a
    shift.  Lossy coding (not ``exact``) may leave the range, where masking would turn white into
    black.
    """
    shift = pixels.high_bit - pixels.stored + 1 if stream.precision > pixels.high_bit else 0
    if exact and stream.precision > pixels.stored:
        cells = np.bitwise_and(samples.astype(np.int32), (1 << stream.precision) - 1)
        return _used_bits(cells.astype(np.uint16), pixels, shift)
    if samples.dtype.kind == "u" and not stream.signed and not pixels.signed:
        values = np.right_shift(samples, shift) if shift else samples
        fits = pixels.highest >= np.iinfo(samples.dtype).max
        return values if fits else np.minimum(values, pixels.highest)
    values = samples.astype(np.int32)
    if pixels.signed and not stream.signed:
        values = _sign_extended(values, stream.precision)
    if stream.signed and not pixels.signed:
        np.bitwise_and(values, (1 << stream.precision) - 1, out=values)
    if shift:
        np.right_shift(values, shift, out=values)
    return np.clip(values, pixels.lowest, pixels.highest, out=values)
