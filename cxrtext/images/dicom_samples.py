"""From the bytes of a DICOM frame to its stored values."""

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Samples
from cxrtext.images.codestream import Codestream
from cxrtext.images.dicom_codecs import decompress
from cxrtext.images.dicom_file import DEFLATED_FRAME, NATIVE, RAW_FRAME, RLE, DicomFile, inflate
from cxrtext.images.dicom_frames import compressed_frame, native_frame
from cxrtext.images.dicom_header import PixelFormat, frame_bits
from cxrtext.images.dicom_rle import decompress_rle


def stored_values(file: DicomFile, pixels: PixelFormat, frame: int) -> tuple[Samples, bool]:
    """Decode the stored values of one frame.

    Args:
        file: The file.
        pixels: Its checked header.
        frame: Which frame, from 0.

    Returns:
        [H, W] for grey, palette and YCbCr (of which Y alone is kept), [H, W, 3] for RGB, all
        within ``pixels.lowest`` to ``pixels.highest``; and whether it is RGB.

    Raises:
        ImageError: When the frame is cut off, damaged, or contradicts the header.
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
            values = _from_codestream(samples, stream, pixels)
            if stream.luma_first is not None:
                luma_first = stream.luma_first
    if not pixels.colour:
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
    if not pixels.colour:
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
    if pixels.planar or not pixels.colour:
        return _planes_last(cells, pixels)
    return cells.reshape(*size, pixels.samples)


def _from_cells(cells: Samples, pixels: PixelFormat) -> Samples:
    """Take the bits in use out of storage cells, whose other bits may hold an overlay.

    The values stay as narrow as the cells, because most of the time goes into moving them.
    """
    shift = pixels.high_bit - pixels.stored + 1
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


def _from_codestream(samples: Samples, stream: Codestream, pixels: PixelFormat) -> Samples:
    """Bring decoded samples into the header's range.

    JPEG knows no sign, and some writers of JPEG 2000 leave it out, so the header decides.
    Lossy coding may step out of the range, where masking would turn white into black.
    """
    if samples.dtype.kind == "u" and not stream.signed and not pixels.signed:
        fits = pixels.highest >= np.iinfo(samples.dtype).max
        return samples if fits else np.minimum(samples, pixels.highest)
    deep = max(stream.precision, pixels.stored) > 16
    values: Samples = samples.astype(np.int64 if deep else np.int32)
    if pixels.signed and not stream.signed:
        values = _sign_extended(values, stream.precision)
    if stream.signed and not pixels.signed:
        np.bitwise_and(values, (1 << stream.precision) - 1, out=values)
    return np.clip(values, pixels.lowest, pixels.highest, out=values)
