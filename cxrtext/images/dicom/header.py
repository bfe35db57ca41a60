"""The header of a DICOM file: how its pixels are stored.

Sizes, depths and counts are checked before any decoding.  Nothing that names a patient is read.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cxrtext.errors import ImageError
from cxrtext.images.gray import check_size
from cxrtext.images.limits import MAX_FRAMES

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

PIXEL_KEYWORDS = (
    *("SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames"),
    *("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
)
"""The elements of the Image Pixel module."""

PALETTE = "PALETTE COLOR"
_SAMPLES = {
    **dict.fromkeys(("MONOCHROME1", "MONOCHROME2", PALETTE), 1),
    **dict.fromkeys(("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT"), 3),
}


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """The Image Pixel module."""

    rows: int
    columns: int
    frames: int  # images in the file
    samples: int  # samples a pixel, 1 or 3
    allocated: int  # bits of storage a sample: 8 or 16
    stored: int
    high_bit: int  # place of the highest bit in use
    signed: bool  # whether stored values are two's complement
    photometric: str
    planar: bool  # whether colors lie in planes rather than side by side

    @property
    def lowest(self) -> int:
        """The smallest possible stored value."""
        return -(1 << (self.stored - 1)) if self.signed else 0

    @property
    def highest(self) -> int:
        """The largest possible stored value."""
        return self.lowest + (1 << self.stored) - 1

    @property
    def color(self) -> bool:
        return self.samples > 1


def whole_number(dataset: "Dataset", keyword: str, default: int | None = None) -> int:
    try:
        value = dataset.get(keyword)
        if value is None or value == "":
            if default is None:
                raise ImageError(f"{keyword} is missing; export the file again")
            return default
        return int(value)
    except (ValueError, TypeError, OverflowError, AttributeError):
        raise ImageError(f"{keyword} is not a whole number; export the file again") from None


def numbers(dataset: "Dataset", keyword: str, *, lenient: bool = False) -> list[float]:
    """Read an element that holds any number of decimal numbers; a missing one gives none.

    A value that is not a number raises an ImageError, or if ``lenient`` is NaN or infinite.
    """
    try:
        value = dataset.get(keyword)
        if value is None or value == "":
            return []
        several = value if hasattr(value, "__iter__") and not isinstance(value, str) else [value]
        values = [math.nan if each in (None, "") else float(each) for each in several]
    except (ValueError, TypeError, OverflowError, AttributeError):
        values = [math.nan]
    if lenient or all(map(math.isfinite, values)):
        return values
    raise ImageError(f"{keyword} is not a number; export the file again")


def pixel_format(dataset: "Dataset") -> PixelFormat:
    """Read and check the Image Pixel module."""
    if "SharedFunctionalGroupsSequence" in dataset or "PerFrameFunctionalGroupsSequence" in dataset:
        raise ImageError("is an enhanced multi-frame object; export the frame as a CR or DX image")
    if (photometric := str(dataset.get("PhotometricInterpretation", "")).strip()) not in _SAMPLES:
        raise ImageError(
            "PhotometricInterpretation is missing or not supported; export it as grayscale"
        )
    pixels = PixelFormat(
        rows=whole_number(dataset, "Rows"),
        columns=whole_number(dataset, "Columns"),
        frames=whole_number(dataset, "NumberOfFrames", 1),
        samples=whole_number(dataset, "SamplesPerPixel", 1),
        allocated=whole_number(dataset, "BitsAllocated"),
        stored=(stored := whole_number(dataset, "BitsStored")),
        high_bit=whole_number(dataset, "HighBit", stored - 1),
        signed=whole_number(dataset, "PixelRepresentation", 0) == 1,
        photometric=photometric,
        planar=whole_number(dataset, "PlanarConfiguration", 0) == 1,
    )
    check_size(pixels.rows, pixels.columns)
    if not 1 <= pixels.frames <= MAX_FRAMES:
        raise ImageError(f"NumberOfFrames is not within 1 to {MAX_FRAMES}; split the file")
    if pixels.samples != _SAMPLES[pixels.photometric]:
        raise ImageError(
            "SamplesPerPixel contradicts PhotometricInterpretation; export the file again"
        )
    if pixels.allocated not in (8, 16) or not 1 <= pixels.stored <= pixels.allocated:
        raise ImageError("BitsAllocated or BitsStored is not supported; export 8 or 16 bits")
    if not pixels.stored - 1 <= pixels.high_bit < pixels.allocated:
        raise ImageError("HighBit contradicts BitsStored; export the file again")
    return pixels


def choose_frame(frames: int, wanted: int | None) -> int:
    last = frames - 1
    if wanted is None and frames > 1:
        raise ImageError(
            f"holds {frames} frames, and one picture is read; export the frame that is meant as a "
            f"file of its own (in Python, read_image takes frame=0 to frame={last})"
        )
    if wanted is not None and not 0 <= wanted <= last:
        choice = f"pass frame=0 to frame={last}" if last else "leave frame out or pass frame=0"
        raise ImageError(f"holds {frames} frame{'s' if last else ''}; {choice}")
    return wanted or 0
