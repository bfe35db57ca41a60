"""What a viewer is told beside a DICOM frame: how many there are, its pixels' size, its contrast.

A frame of 9 to 16 bits can be windowed by the viewer itself, on the values that the file stores.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from cxrtext.images.dicom.display import (
    Display,
    Table,
    holder,
    in_units,
    read_display,
    without_padding,
)
from cxrtext.images.dicom.header import PixelFormat, choose_frame, pixel_format
from cxrtext.images.dicom.orientation import read_placement, spacings
from cxrtext.images.dicom.pixels import read_file
from cxrtext.images.gray import Gray, Samples, count, look_up, spread

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

MOST_WINDOWS = 8
_LONGEST_NAME = 40
# Of a VOI LUT; a viewer draws straight lines between them.  More would not fit into a header.
_CURVE_POINTS = 64
_SIDES_MM = (1e-3, 10.0)  # of a pixel; beyond, the header is wrong


def viewing(data: bytes, frame: int | None, gray: Gray) -> tuple[dict[str, Any], Samples | None]:
    """Say what a viewer wants to know of a decoded frame, as JSON can hold it.

    Returns:
        With the facts, the frame's values, [H, W] uint16; None of a frame that 8 bits can show.
        The unit of windows is ``slope`` times such a value plus ``intercept``.
    """
    file = read_file(data)
    pixels = pixel_format(file.dataset)
    index = choose_frame(pixels.frames, frame)
    said = {"frames": pixels.frames, "spacing": _spacing(file.dataset, pixels, index)}
    deep = pixels.photometric.startswith("MONO") and 8 < pixels.stored <= 16
    if gray.table is None or not deep:
        return said, None
    display = read_display(file.dataset, pixels, index, little=file.little)
    axis = np.arange(pixels.lowest, pixels.highest + 1, dtype=np.int64)
    if isinstance(display.modality, Table):
        units = in_units(axis.astype(np.float64), display).astype(np.uint16)
        values, slope, intercept = look_up(units, gray.pixels), 1.0, 0.0
    else:
        slope, intercept = display.modality
        values, intercept = gray.pixels, intercept + slope * pixels.lowest
    said["values"] = {
        "slope": slope,
        "intercept": intercept,
        "inverted": pixels.photometric == "MONOCHROME1",
        "windows": _windows(axis, gray, display),
    }
    return said, values.astype(np.uint16, copy=False)


def _windows(axis: Samples, gray: Gray, display: Display) -> list[dict[str, Any]]:
    """What a viewer chooses contrast from, the one that is shown without a choice first."""
    found: list[dict[str, Any]] = []
    for one, name in display.choices[:MOST_WINDOWS]:
        named = {"name": name[:_LONGEST_NAME]}
        if isinstance(one, Table):
            last = len(one.entries) - 1
            points = np.linspace(0, last, min(_CURVE_POINTS, last + 1))
            entries = np.interp(points, np.arange(last + 1), one.entries)
            curve = np.rint(255 * entries / one.top).astype(int).tolist()
            width, level = max(last, 1), one.first + last / 2
            found.append({**named, "level": level, "width": width, "curve": curve})
        elif one.width > 0:
            shape = {"level": one.center, "width": one.width, "function": one.function}
            found.append({**named, **shape})
    if found:
        return found
    counts = without_padding(axis, count(gray.pixels, len(axis)), display.padding)
    low, high = spread(in_units(axis.astype(np.float64), display), counts)
    shape = {"level": (low + high) / 2, "width": (high - low) or 1.0, "function": "LINEAR_EXACT"}
    return [{"name": "", **shape}]


def _spacing(dataset: "Dataset", pixels: PixelFormat, index: int) -> dict[str, Any] | None:
    """The sides of a pixel of the picture shown, [across, down] in mm, and what they are of."""
    found = dict(spacings(holder(dataset, index, "PixelMeasuresSequence", "PixelSpacing")))
    if not found:
        return None
    keyword, (down, across) = next(iter(found.items()))
    if found.get("ImagerPixelSpacing") == [down, across]:
        keyword = "ImagerPixelSpacing"  # the same value twice was not calibrated
    placement = read_placement(dataset, pixels.rows, pixels.columns)
    whole = [across * pixels.columns, down * pixels.rows][:: -1 if placement.transposed else 1]
    sides = [whole[0] / placement.width, whole[1] / placement.height]
    if not all(_SIDES_MM[0] <= side <= _SIDES_MM[1] for side in sides):
        return None
    return {"mm": sides, "of": keyword}
