"""Turn stored values into gray as the DICOM file asks for.

Modality, contrast, and the meaning of black and white are worked out once for each possible stored
value, not for each pixel.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cxrtext.errors import ImageError
from cxrtext.images.dicom.header import PixelFormat, numbers
from cxrtext.images.dicom.pixels import places_of
from cxrtext.images.gray import Doubles, Gray, Samples, count, stretched

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_FUNCTIONS = ("LINEAR", "LINEAR_EXACT", "SIGMOID")
_BROKEN = "a look-up table is damaged; export the file again"


def render_gray(stored: Samples, pixels: PixelFormat, dataset: "Dataset", *, little: bool) -> Gray:
    """Show stored values [H, W] as a viewer would; MONOCHROME1 is inverted.

    The contrast is the first VOI LUT, or else the first window, or else percentiles.
    """
    axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.int64)
    places = places_of(stored, pixels)
    units, negative = _in_units(axis.astype(np.float64), dataset, pixels, little)
    padding = _padding(dataset, pixels)
    gray = _windowed(units, dataset)
    for item in dataset.get("VOILUTSequence") or ():
        gray, top = _looked_up(units, item, little, negative)
        gray = gray / top
        break
    if gray is None:
        gray = stretched(units, _without_padding(axis, count(places, len(axis)), padding))
    if pixels.photometric == "MONOCHROME1":
        gray = 1.0 - gray
    return Gray(places, gray.astype(np.float32))


def _in_units(
    axis: Doubles, dataset: "Dataset", pixels: PixelFormat, little: bool
) -> tuple[Doubles, bool]:
    """Stored values in the units of windows, and whether any can be negative.

    Entries of a modality table cannot.
    """
    for item in dataset.get("ModalityLUTSequence") or ():
        return _looked_up(axis, item, little, pixels.signed)[0], False
    slope = (numbers(dataset, "RescaleSlope") or [1.0])[0]
    intercept = (numbers(dataset, "RescaleIntercept") or [0.0])[0]
    if slope == 0:
        raise ImageError("RescaleSlope is 0; export the file again")
    with np.errstate(over="ignore", invalid="ignore"):
        values = axis * slope + intercept
    # Leaves room for the differences that windows and percentiles take.
    if not (np.abs(values) < 1e300).all():
        raise ImageError("RescaleSlope or RescaleIntercept is out of range; export the file again")
    return values, min(slope * pixels.lowest, slope * pixels.highest) + intercept < 0


def _windowed(values: Doubles, dataset: "Dataset") -> Doubles | None:
    """Map modality values through the first window to [0, 1], or None without a window.

    Damaged windows are skipped, as viewers do.  LINEAR is not defined for widths under 1, which
    rescaled data in small units has; they are treated as LINEAR_EXACT.

    Source: DICOM PS3.3 C.11.2.1.2 and C.11.2.1.3.
    """
    if (function := str(dataset.get("VOILUTFunction") or "LINEAR").strip()) not in _FUNCTIONS:
        raise ImageError("VOILUTFunction is not one of the standard; export the file again")
    centers, widths = (
        numbers(dataset, keyword, lenient=True) for keyword in ("WindowCenter", "WindowWidth")
    )
    pairs = zip(centers, widths, strict=False)
    sound = ((c, w) for c, w in pairs if math.isfinite(c) and math.isfinite(w) and w > 0)
    if (found := next(sound, None)) is None:
        return None
    center, width = found
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if function == "SIGMOID":
            # exp(-4 (x - c) / w), written with tanh, which cannot overflow
            gray = 0.5 + 0.5 * np.tanh(2.0 * ((values - center) / width))
        elif function == "LINEAR" and width == 1:
            gray = np.where(values > center - 0.5, 1.0, 0.0)
        elif function == "LINEAR" and width > 1:
            gray = (values - (center - 0.5)) / (width - 1) + 0.5
        else:
            gray = (values - center) / width + 0.5
    return np.asarray(np.clip(gray, 0.0, 1.0), dtype=np.float64)


def _padding(dataset: "Dataset", pixels: PixelFormat) -> tuple[float, float] | None:
    if not (first := _as_stored(numbers(dataset, "PixelPaddingValue"), pixels)):
        return None
    second = _as_stored(numbers(dataset, "PixelPaddingRangeLimit"), pixels) or first
    return min(first[0], second[0]), max(first[0], second[0])


def _as_stored(values: list[float], pixels: PixelFormat) -> list[float]:
    """Repair stored values that some writers give with a wrong sign, or without their sign."""
    cells = 1 << 16
    if pixels.signed:
        return [v - cells if v > pixels.highest and v >= cells / 2 else v for v in values]
    return [v + cells if v < 0 else v for v in values]


def _looked_up(
    values: Doubles, item: "Dataset", little: bool, signed: bool
) -> tuple[Doubles, float]:
    """Look values up in a table; also return the largest value of the depth its entries need.

    The descriptor gives the number of entries, the input of the first, and the bits of an entry.
    Often it says 16 where the entries need fewer, which would come out dark.  Smaller inputs get
    the first entry, inputs past the end the last.
    """
    try:
        count, first, _bits = (int(number) for number in item.get("LUTDescriptor"))
        words = _words(item.get("LUTData"), little)
    except (ValueError, TypeError, OverflowError):
        raise ImageError(_BROKEN) from None
    count = (count & 0xFFFF) or 65536
    if signed and first > 0x7FFF:
        first -= 0x10000
    if not signed and first + count <= 0:
        # Below every possible value: the input is unsigned but was read with a sign.
        first += 0x10000
    if len(words) < count:  # entries of 8 bits, two a word
        words = words.view(np.uint8)
    if len(words) < count:
        raise ImageError(_BROKEN)
    entries = words[:count].astype(np.float64)
    places = np.clip(np.rint(values) - first, 0, count - 1)
    top = float((1 << max(int(entries.max()).bit_length(), 1)) - 1)
    return np.asarray(entries[places.astype(np.int64)], dtype=np.float64), top


def _words(data: Any, little: bool) -> npt.NDArray[Any]:
    if isinstance(data, bytes):
        whole = data[: len(data) // 2 * 2]
        return np.frombuffer(whole, dtype="<u2" if little else ">u2").astype("<u2")
    numbers = [data] if isinstance(data, int) else list(data)
    return np.array([int(number) & 0xFFFF for number in numbers], dtype="<u2")


def _without_padding(
    axis: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], padding: tuple[float, float] | None
) -> npt.NDArray[np.int64]:
    """Leave padding out of the statistics, unless there is nothing else."""
    if padding is None:
        return counts
    picture = np.where((axis >= padding[0]) & (axis <= padding[1]), 0, counts)
    return picture if picture.any() else counts
