"""How a DICOM file wants its grayscale shown, and stored values made gray that way.

Modality, contrast, and the meaning of black and white: everything is worked out once for each
stored value that there can be, not for each pixel.  Attributes of enhanced multi-frame files come
from the functional groups of the frame.
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

Choice = tuple[float, float] | None

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
    """The modality transformation, and what there is to choose contrast from."""

    modality: Table | tuple[float, float]  # a table, or (slope, intercept)
    choices: tuple[Table | ContrastWindow, ...]  # VOI LUTs, then windows, in the file's order
    function: str  # the file's VOI LUT function
    # stored values (lowest, highest) that are no part of the picture.
    padding: tuple[float, float] | None


def read_display(dataset: "Dataset", pixels: PixelFormat, frame: int, *, little: bool) -> Display:
    """Read how one frame, counted from 0, is to be shown."""
    modality = _read_modality(dataset, pixels, frame, little)
    negative = _can_be_negative(modality, pixels)
    voi = holder(dataset, frame, "FrameVOILUTSequence", "WindowCenter")
    if (function := str(voi.get("VOILUTFunction") or "LINEAR").strip()) not in _FUNCTIONS:
        raise ImageError("VOILUTFunction is none of the standard; pass window=(center, width)")
    tables = [_read_table(item, little, negative) for item in dataset.get("VOILUTSequence") or ()]
    centers, widths = (
        numbers(voi, keyword, lenient=True) for keyword in ("WindowCenter", "WindowWidth")
    )
    windows = [  # one that is damaged is passed over, as viewers do
        ContrastWindow(center, width, function)
        for center, width in zip(centers, widths, strict=False)
        if math.isfinite(center) and math.isfinite(width)
    ]
    return Display(modality, (*tables, *windows), function, _padding(dataset, pixels))


def _can_be_negative(modality: Table | tuple[float, float], pixels: PixelFormat) -> bool:
    """Whether what a VOI LUT is asked for can be negative: entries of a modality table are not."""
    if isinstance(modality, Table):
        return False
    slope, intercept = modality
    return min(slope * pixels.lowest, slope * pixels.highest) + intercept < 0


def _read_modality(
    dataset: "Dataset", pixels: PixelFormat, frame: int, little: bool
) -> Table | tuple[float, float]:
    for item in dataset.get("ModalityLUTSequence") or ():
        return _read_table(item, little, pixels.signed)
    rescale = holder(dataset, frame, "PixelValueTransformationSequence", "RescaleSlope")
    slope = (numbers(rescale, "RescaleSlope") or [1.0])[0]
    intercept = (numbers(rescale, "RescaleIntercept") or [0.0])[0]
    if slope == 0:
        raise ImageError("RescaleSlope is 0; export the file again")
    return slope, intercept


def holder(dataset: "Dataset", frame: int, macro: str, keyword: str) -> "Dataset":
    """Find the functional group of a frame that holds an attribute, or else the file itself."""
    per_frame = list(dataset.get("PerFrameFunctionalGroupsSequence") or ())
    shared = list(dataset.get("SharedFunctionalGroupsSequence") or ())
    for group in (*per_frame[frame : frame + 1], *shared[:1]):
        for item in group.get(macro) or ():
            if keyword in item:
                return item  # type: ignore[no-any-return]
    return dataset


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


def _read_table(item: "Dataset", little: bool, signed: bool, name: str = "LUT") -> Table:
    """Read a table from its data and its descriptor: entries, first input, bits an entry."""
    try:
        count, first, _bits = (int(one) for one in item.get(f"{name}Descriptor"))
        words = _words(item.get(f"{name}Data"), little)
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


def read_palette(dataset: "Dataset", *, little: bool) -> list[Table]:
    """Read the red, green and blue tables of a PALETTE COLOR image."""
    names = [f"{color}PaletteColorLookupTable" for color in ("Red", "Green", "Blue")]
    if any(dataset.get(f"{name}Data") is None for name in names):
        raise ImageError("has no palette, or one in segments; export it as grayscale")
    return [_read_table(dataset, little, False, name) for name in names]


def render_gray(stored: Samples, pixels: PixelFormat, display: Display, choice: Choice) -> Gray:
    """Show stored values as a viewer would, MONOCHROME1 inverted.

    Args:
        choice: (center, width), or None for the first usable of ``display.choices``, and
            percentiles where there is none.
    """
    if pixels.stored <= 16:
        axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.int64)
        places = places_of(stored, pixels)
    else:
        axis, places = np.unique(stored, return_inverse=True)
    modality = in_units(axis.astype(np.float64), display)
    if (contrast := _contrast(display, choice)) is None:
        counts = count(places, len(axis))
        gray = stretched(modality, without_padding(axis, counts, display.padding))
    elif isinstance(contrast, Table):
        gray = contrast(modality) / contrast.top
    else:
        gray = windowed(modality, contrast)
    if pixels.photometric == "MONOCHROME1":
        gray = 1.0 - gray
    return Gray(places.reshape(stored.shape), gray.astype(np.float32))


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


def _contrast(display: Display, choice: Choice) -> Table | ContrastWindow | None:
    if choice is None:
        usable = (one for one in display.choices if isinstance(one, Table) or one.width > 0)
        return next(usable, None)
    center, width = choice
    if not (math.isfinite(center) and math.isfinite(width) and width > 0):
        raise ImageError("cannot be shown with that window; pass a finite center and a width > 0")
    return ContrastWindow(center, width, display.function)


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
