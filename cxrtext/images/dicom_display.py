"""How a DICOM file wants its greyscale shown, as read from the file.

Attributes of enhanced multi-frame files come from the functional groups of the frame.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.images.dicom_header import PixelFormat, numbers
from cxrtext.images.dicom_tables import Table, read_table

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_FUNCTIONS = ("LINEAR", "LINEAR_EXACT", "SIGMOID")


@dataclass(frozen=True, slots=True)
class ContrastWindow:
    """A window, in modality units; ``function`` is LINEAR, LINEAR_EXACT or SIGMOID."""

    centre: float
    width: float
    function: str = "LINEAR"


@dataclass(frozen=True, slots=True)
class Display:
    """The modality transformation, and what there is to choose contrast from.

    Args:
        modality: A table, or (slope, intercept).
        choices: VOI LUTs, then windows, in the file's order.
        names: What the file calls each of them; empty where it gives no name.
        function: The file's VOI LUT function.
        padding: Stored values (lowest, highest) that are no part of the picture.
    """

    modality: Table | tuple[float, float]
    choices: tuple[Table | ContrastWindow, ...]
    names: tuple[str, ...]
    function: str
    padding: tuple[float, float] | None


def read_display(dataset: "Dataset", pixels: PixelFormat, frame: int, *, little: bool) -> Display:
    """Read how one frame is to be shown.

    Args:
        dataset: The file's elements.
        pixels: Its checked header.
        frame: Which frame, from 0.
        little: Byte order.

    Raises:
        ImageError: When an attribute is malformed.
    """
    modality = _modality(dataset, pixels, frame, little)
    negative = pixels.signed or (not isinstance(modality, Table) and modality[1] < 0)
    voi = _holder(dataset, frame, "FrameVOILUTSequence", "WindowCenter")
    function = str(voi.get("VOILUTFunction") or "LINEAR").strip()
    if function not in _FUNCTIONS:
        raise ImageError("VOILUTFunction is none of the standard; pass window=(centre, width)")
    items = list(dataset.get("VOILUTSequence") or ())
    tables = [
        read_table(item.get("LUTDescriptor"), item.get("LUTData"), little=little, signed=negative)
        for item in items
    ]
    pairs = zip(numbers(voi, "WindowCenter"), numbers(voi, "WindowWidth"), strict=False)
    windows = [ContrastWindow(centre, width, function) for centre, width in pairs]
    tables_names = [" ".join(_texts(item, "LUTExplanation")) for item in items]
    windows_names = [*_texts(voi, "WindowCenterWidthExplanation"), *[""] * len(windows)]
    names = (*tables_names, *windows_names[: len(windows)])
    return Display(modality, (*tables, *windows), names, function, _padding(dataset))


def _texts(dataset: "Dataset", keyword: str) -> list[str]:
    """Read an element of one or several texts, without the blanks around them."""
    value = dataset.get(keyword)
    several = [value] if isinstance(value, str) else list(value or ())
    return [str(one).strip() for one in several]


def _modality(
    dataset: "Dataset", pixels: PixelFormat, frame: int, little: bool
) -> Table | tuple[float, float]:
    for item in dataset.get("ModalityLUTSequence") or ():
        descriptor, data = item.get("LUTDescriptor"), item.get("LUTData")
        return read_table(descriptor, data, little=little, signed=pixels.signed)
    rescale = _holder(dataset, frame, "PixelValueTransformationSequence", "RescaleSlope")
    slope = (numbers(rescale, "RescaleSlope") or [1.0])[0]
    intercept = (numbers(rescale, "RescaleIntercept") or [0.0])[0]
    if slope == 0:
        raise ImageError("RescaleSlope is 0; export the file again")
    return slope, intercept


def _holder(dataset: "Dataset", frame: int, macro: str, keyword: str) -> "Dataset":
    """Find the functional group of a frame that holds an attribute, or else the file itself."""
    per_frame = list(dataset.get("PerFrameFunctionalGroupsSequence") or ())
    shared = list(dataset.get("SharedFunctionalGroupsSequence") or ())
    for group in (*per_frame[frame : frame + 1], *shared[:1]):
        for item in group.get(macro) or ():
            if keyword in item:
                return item  # type: ignore[no-any-return]
    return dataset


def _padding(dataset: "Dataset") -> tuple[float, float] | None:
    first = numbers(dataset, "PixelPaddingValue")
    if not first:
        return None
    second = numbers(dataset, "PixelPaddingRangeLimit") or first
    return min(first[0], second[0]), max(first[0], second[0])
