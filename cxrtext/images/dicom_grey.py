"""From stored values to grey: modality, contrast, and the meaning of black and white.

Everything is worked out once for each stored value that there can be, not for each pixel.
"""

import math

import numpy as np
import numpy.typing as npt

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Samples
from cxrtext.images.dicom_display import ContrastWindow, Display
from cxrtext.images.dicom_header import PixelFormat
from cxrtext.images.dicom_samples import places_of
from cxrtext.images.dicom_tables import Table
from cxrtext.images.grey import Doubles, Grey, count, stretched

Choice = int | str | tuple[float, float] | None


def render_grey(stored: Samples, pixels: PixelFormat, display: Display, choice: Choice) -> Grey:
    """Show stored values as a viewer would, MONOCHROME1 inverted.

    Args:
        stored: [H, W] whole numbers.
        pixels: The checked header.
        display: What the file says of contrast.
        choice: An index into ``display.choices``, one of ``display.names`` in either case,
            (centre, width), or None for the first usable one and percentiles where there is none.

    Returns:
        Grey values in [0, 1].

    Raises:
        ImageError: When the choice does not exist, or the modality values overflow.
    """
    if pixels.stored <= 16:
        axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.int64)
        places = places_of(stored, pixels)
    else:
        axis, places = np.unique(stored, return_inverse=True)
    modality = _modality(axis.astype(np.float64), display)
    contrast = _contrast(display, choice)
    if contrast is None:
        counts = count(places, len(axis))
        grey = stretched(modality, _without_padding(axis, counts, display.padding))
    elif isinstance(contrast, Table):
        grey = contrast(modality) / contrast.top
    else:
        grey = windowed(modality, contrast)
    if pixels.photometric == "MONOCHROME1":
        grey = 1.0 - grey
    return Grey(places.reshape(stored.shape), grey.astype(np.float32))


def _modality(axis: Doubles, display: Display) -> Doubles:
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
    if isinstance(choice, tuple):
        return _own_window(choice, display.function)
    count = len(display.choices)
    if isinstance(choice, str):
        wanted = choice.strip().casefold()
        named = [name.casefold() for name in display.names]
        choice = named.index(wanted) if wanted and wanted in named else count
    if not 0 <= choice < count:
        known = f"has {count} window(s), counted from 0" if count else "has no window of its own"
        raise ImageError(
            f"{known}; pass another index or name, (centre, width), or leave window out"
        )
    chosen = display.choices[choice]
    if isinstance(chosen, ContrastWindow) and chosen.width <= 0:
        raise ImageError("its window of that index has no width; choose another or leave it out")
    return chosen


def _own_window(choice: tuple[float, float], function: str) -> ContrastWindow:
    centre, width = choice
    if not (math.isfinite(centre) and math.isfinite(width) and width > 0):
        raise ImageError("cannot be shown with that window; pass a finite centre and a width > 0")
    return ContrastWindow(centre, width, function)


def windowed(values: Doubles, window: ContrastWindow) -> Doubles:
    """Map modality values through a window to [0, 1].

    Source: DICOM PS3.3 C.11.2.1.2 and C.11.2.1.3.  LINEAR is not defined for widths under 1, as
    rescaled data in small units has them, and is taken as LINEAR_EXACT there.
    """
    centre, width = window.centre, window.width
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if window.function == "SIGMOID":
            # exp(-4 (x - c) / w) by way of tanh, which cannot overflow
            grey = 0.5 + 0.5 * np.tanh(2.0 * ((values - centre) / width))
        elif window.function == "LINEAR" and width == 1:
            grey = np.where(values > centre - 0.5, 1.0, 0.0)
        elif window.function == "LINEAR" and width > 1:
            grey = (values - (centre - 0.5)) / (width - 1) + 0.5
        else:
            grey = (values - centre) / width + 0.5
    return np.asarray(np.clip(grey, 0.0, 1.0), dtype=np.float64)


def _without_padding(
    axis: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    padding: tuple[float, float] | None,
) -> npt.NDArray[np.int64]:
    """Leave padding out of the statistics, unless nothing else is there."""
    if padding is None:
        return counts
    picture = np.where((axis >= padding[0]) & (axis <= padding[1]), 0, counts)
    return picture if picture.any() else counts
