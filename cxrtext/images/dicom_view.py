"""What a DICOM file tells of its image without its pixels being read.

Nothing that names a patient is read.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cxrtext.errors import ImageError
from cxrtext.images.dicom_elements import read_wanted
from cxrtext.images.dicom_header import PixelFormat, numbers, pixel_format
from cxrtext.images.quiet import quiet
from cxrtext.images.read import shown

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

View = Literal["frontal", "lateral", "oblique", "decubitus"]

_KEYWORDS = (
    "ViewPosition",
    "ViewCodeSequence",
    "PixelSpacing",
    "ImagerPixelSpacing",
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "PlanarConfiguration",
    "NumberOfFrames",
    "Rows",
    "Columns",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
)
_POSITIONS: dict[str, View] = {
    **dict.fromkeys(("AP", "PA", "AP AXIAL", "PA AXIAL", "LORDOTIC", "AP LORDOTIC"), "frontal"),
    **dict.fromkeys(("LL", "RL", "LAT", "LATERAL", "LEFT LATERAL", "RIGHT LATERAL"), "lateral"),
    **dict.fromkeys(("RLD", "LLD"), "decubitus"),
    **dict.fromkeys(("RLO", "LLO", "RAO", "LAO", "RPO", "LPO"), "oblique"),
}
_MEANINGS: tuple[tuple[str, View], ...] = (
    (r"decubitus", "decubitus"),
    (r"oblique", "oblique"),
    (r"\blateral", "lateral"),
    (r"frontal|postero[- ]?anterior|antero[- ]?posterior", "frontal"),
)


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """What a DICOM file tells of its image.

    Args:
        syntax: Transfer syntax.
        pixels: How the pixels are stored.
        view: "frontal", "lateral", "oblique" or "decubitus"; None where the file does not tell.
        spacing: Millimetres from row to row and from column to column, in the patient where the
            file tells that, else on the detector; None where it tells neither.
    """

    syntax: str
    pixels: PixelFormat
    view: View | None
    spacing: tuple[float, float] | None


def view_of(position: str, meanings: Iterable[str] = ()) -> View | None:
    """Tell the view of a chest radiograph.

    Args:
        position: ViewPosition (0018,5101), which decides where it is one of the known terms.
        meanings: Code meanings of the View Code Sequence (0054,0220).

    Source: DICOM PS3.3 C.8.1.2 and C.8.11.5; PS3.16 CID 4010.
    """
    known = _POSITIONS.get(" ".join(position.upper().replace("_", " ").split()))
    if known is not None:
        return known
    for meaning in meanings:
        for pattern, view in _MEANINGS:
            if re.search(pattern, meaning, re.IGNORECASE):
                return view
    return None


def read_header(path: Path) -> ImageHeader:
    """Read what a DICOM file tells of its image, without its pixels.

    Args:
        path: The file; its pixels may be of any transfer syntax, or missing.

    Raises:
        ImageError: When it is no DICOM file, or its image module is damaged; one line.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise ImageError("is no regular file; check the path")
        with quiet():
            return _header(path)
    except ImageError as error:
        raise ImageError(f"{shown(path)}: {error}") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ImageError(f"{shown(path)}: cannot be opened ({reason}); check the path") from None
    except Exception as error:  # noqa: BLE001 - pydicom raises anything on a hostile file
        raise ImageError(
            f"{shown(path)}: is damaged ({type(error).__name__}); copy or export the file again"
        ) from None


def _header(path: Path) -> ImageHeader:
    found = read_wanted(path, _KEYWORDS)
    if not found.syntax:
        raise ImageError("names no transfer syntax in its file header; export the file again")
    codes = found.dataset.get("ViewCodeSequence") or ()
    meanings = [str(code.get("CodeMeaning") or "") for code in codes]
    view = view_of(str(found.dataset.get("ViewPosition") or ""), meanings)
    return ImageHeader(found.syntax, pixel_format(found.dataset), view, _spacing(found.dataset))


def _spacing(dataset: "Dataset") -> tuple[float, float] | None:
    for keyword in ("PixelSpacing", "ImagerPixelSpacing"):
        found = numbers(dataset, keyword)
        if len(found) == 2 and min(found) > 0:
            return found[0], found[1]
    return None
