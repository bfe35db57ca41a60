"""How a DICOM file wants its grayscale shown, and stored values made gray that way.

Modality, contrast, and the meaning of black and white: everything is worked out once for each
stored value that there can be, not for each pixel.
"""

import math
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Table:
    # the input that the first entry belongs to; smaller inputs get the first entry, inputs past the
    # end the last.
    first: int
    entries: Doubles  # [n] outputs

    def __call__(self, values: Doubles) -> Doubles:
        places = np.clip(np.rint(values) - self.first, 0, len(self.entries) - 1)
        return np.asarray(self.entries[places.astype(np.int64)], dtype=np.float64)

    @property
    def top(self) -> float:
        """The largest value of the depth that the entries need.

        Descriptors often say 16 bits over entries of fewer, which would come out dark.
        """
        return float((1 << max(int(self.entries.max()).bit_length(), 1)) - 1)


@dataclass(frozen=True, slots=True)
class ContrastWindow:
    """A window, in modality units; ``function`` is LINEAR, LINEAR_EXACT or SIGMOID."""

    center: float
    width: float
    function: str = "LINEAR"


@dataclass(frozen=True, slots=True)
class Display:
    modality: Table | tuple[float, float]  # a table, or (slope, intercept)
    # the first of the file's VOI LUTs, or else of its windows; None where it has none
    contrast: Table | ContrastWindow | None
    # stored values (lowest, highest) that are no part of the picture.
    padding: tuple[float, float] | None


def read_display(dataset: "Dataset", pixels: PixelFormat, *, little: bool) -> Display:
    """Read how a picture is to be shown."""
    modality = _read_modality(dataset, pixels, little)
    contrast: Table | ContrastWindow | None = _first_window(dataset)
    for item in dataset.get("VOILUTSequence") or ():
        contrast = _read_table(item, little, _can_be_negative(modality, pixels))
        break
    return Display(modality, contrast, _padding(dataset, pixels))


def _first_window(dataset: "Dataset") -> ContrastWindow | None:
    """Read the first window; one that is damaged is passed over, as viewers do."""
    if (function := str(dataset.get("VOILUTFunction") or "LINEAR").strip()) not in _FUNCTIONS:
        raise ImageError("VOILUTFunction is none of the standard; export the file again")
    centers, widths = (
        numbers(dataset, keyword, lenient=True) for keyword in ("WindowCenter", "WindowWidth")
    )
    for center, width in zip(centers, widths, strict=False):
        if math.isfinite(center) and math.isfinite(width) and width > 0:
            return ContrastWindow(center, width, function)
    return None


def _can_be_negative(modality: Table | tuple[float, float], pixels: PixelFormat) -> bool:
    """Whether what a VOI LUT is asked for can be negative: entries of a modality table are not."""
    if isinstance(modality, Table):
        return False
    slope, intercept = modality
    return min(slope * pixels.lowest, slope * pixels.highest) + intercept < 0


def _read_modality(
    dataset: "Dataset", pixels: PixelFormat, little: bool
) -> Table | tuple[float, float]:
    for item in dataset.get("ModalityLUTSequence") or ():
        return _read_table(item, little, pixels.signed)
    slope = (numbers(dataset, "RescaleSlope") or [1.0])[0]
    intercept = (numbers(dataset, "RescaleIntercept") or [0.0])[0]
    if slope == 0:
        raise ImageError("RescaleSlope is 0; export the file again")
    return slope, intercept


def _padding(dataset: "Dataset", pixels: PixelFormat) -> tuple[float, float] | None:
    if not (first := _as_stored(numbers(dataset, "PixelPaddingValue"), pixels)):
        return None
    second = _as_stored(numbers(dataset, "PixelPaddingRangeLimit"), pixels) or first
    return min(first[0], second[0]), max(first[0], second[0])


def _as_stored(values: list[float], pixels: PixelFormat) -> list[float]:
    """Stored values that some writers give without their sign, or with one that they have not."""
    cells = 1 << 16
    if pixels.signed:
        return [v - cells if v > pixels.highest and v >= cells / 2 else v for v in values]
    return [v + cells if v < 0 else v for v in values]


def _read_table(item: "Dataset", little: bool, signed: bool) -> Table:
    """Read a table from its data and its descriptor: entries, first input, bits an entry."""
    try:
        count, first, _bits = (int(one) for one in item.get("LUTDescriptor"))
        words = _words(item.get("LUTData"), little)
    except (ValueError, TypeError, OverflowError):
        raise ImageError(_BROKEN) from None
    count = (count & 0xFFFF) or 65536
    if signed and first > 0x7FFF:
        first -= 0x10000
    if not signed and first + count <= 0:
        # Below all that can occur: an input read with the sign of the pixels, which it has not.
        first += 0x10000
    if len(words) >= count:
        entries = words[:count]
    elif 2 * len(words) >= count:
        # Entries of 8 bits, two a word.
        entries = words.view(np.uint8)[:count]
    else:
        raise ImageError(_BROKEN)
    return Table(first, entries.astype(np.float64))


def _words(data: Any, little: bool) -> npt.NDArray[Any]:
    if isinstance(data, bytes):
        whole = data[: len(data) // 2 * 2]
        return np.frombuffer(whole, dtype="<u2" if little else ">u2").astype("<u2")
    numbers = [data] if isinstance(data, int) else list(data)
    return np.array([int(one) & 0xFFFF for one in numbers], dtype="<u2")


def render_gray(stored: Samples, pixels: PixelFormat, display: Display) -> Gray:
    """Show stored values as a viewer would, MONOCHROME1 inverted; by percentiles without contrast.

    Args:
        stored: [H, W].
    """
    axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.int64)
    places = places_of(stored, pixels)
    modality = in_units(axis.astype(np.float64), display)
    if display.contrast is None:
        counts = count(places, len(axis))
        gray = stretched(modality, without_padding(axis, counts, display.padding))
    elif isinstance(display.contrast, Table):
        gray = display.contrast(modality) / display.contrast.top
    else:
        gray = windowed(modality, display.contrast)
    if pixels.photometric == "MONOCHROME1":
        gray = 1.0 - gray
    return Gray(places, gray.astype(np.float32))


def in_units(axis: Doubles, display: Display) -> Doubles:
    """Stored values in the units of windows."""
    if isinstance(display.modality, Table):
        return display.modality(axis)
    slope, intercept = display.modality
    with np.errstate(over="ignore", invalid="ignore"):
        values = axis * slope + intercept
    # Leaves room for the differences that windows and percentiles take.
    if not (np.abs(values) < 1e300).all():
        raise ImageError("RescaleSlope or RescaleIntercept is out of range; export the file again")
    return values


def windowed(values: Doubles, window: ContrastWindow) -> Doubles:
    """Map modality values through a window to [0, 1].

    Source: DICOM PS3.3 C.11.2.1.2 and C.11.2.1.3.  LINEAR is not defined for widths under 1, as
    rescaled data in small units has them, and is taken as LINEAR_EXACT there.
    """
    center, width = window.center, window.width
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if window.function == "SIGMOID":
            # exp(-4 (x - c) / w) by way of tanh, which cannot overflow
            gray = 0.5 + 0.5 * np.tanh(2.0 * ((values - center) / width))
        elif window.function == "LINEAR" and width == 1:
            gray = np.where(values > center - 0.5, 1.0, 0.0)
        elif window.function == "LINEAR" and width > 1:
            gray = (values - (center - 0.5)) / (width - 1) + 0.5
        else:
            gray = (values - center) / width + 0.5
    return np.asarray(np.clip(gray, 0.0, 1.0), dtype=np.float64)


def without_padding(
    axis: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], padding: tuple[float, float] | None
) -> npt.NDArray[np.int64]:
    """Leave padding out of the statistics, unless nothing else is there."""
    if padding is None:
        return counts
    picture = np.where((axis >= padding[0]) & (axis <= padding[1]), 0, counts)
    return picture if picture.any() else counts
