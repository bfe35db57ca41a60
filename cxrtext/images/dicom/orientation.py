"""What a DICOM header says about turned or mirrored images and pixels that are not square.

Source: DICOM PS3.3 C.7.6.1.1.1 (Patient Orientation), C.7.6.2.1.1 (Image Orientation), C.7.6.3.1.7
(Pixel Aspect Ratio).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images.dicom.described import texts_of
from cxrtext.images.dicom.file import NotDicomError, read_wanted
from cxrtext.images.dicom.header import numbers, whole_number
from cxrtext.images.gray import Gray
from cxrtext.images.limits import MAX_PIXELS
from cxrtext.images.placement import Placement

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

KEYWORDS = (
    *("PatientOrientation", "ImageOrientationPatient", "PixelSpacing", "ImagerPixelSpacing"),
    *("NominalScannedPixelSpacing", "PixelAspectRatio"),
)
"""The elements read from a header, besides Rows and Columns."""

_SPACINGS = KEYWORDS[2:]
_TOLERANCE = 0.01  # share by which the sides of a pixel may differ and count as equal
_MAX_ASPECT = 8.0  # beyond, the header is wrong
_DIRECTIONS = (("R", "L"), ("A", "P"), ("F", "H"))  # along -x, +x; -y, +y; -z, +z of the patient


def read_placement(dataset: "Dataset", rows: int, columns: int) -> Placement:
    """Say how the picture lies over its stored pixels: upright if the header does not say."""
    transposed, mirrored, inverted = _movement(directions(dataset))
    height, width = _square_size(rows, columns, _aspect(dataset))
    if transposed:
        height, width = width, height
    return Placement(rows, columns, height, width, transposed, mirrored, inverted)


def placement_of(path: Path) -> Placement | None:
    """Read how the picture of a stored file lies over its pixels; None if nothing says so."""
    try:
        header = read_wanted(path, ("Rows", "Columns", *KEYWORDS)).dataset
        size = whole_number(header, "Rows"), whole_number(header, "Columns")
        return read_placement(header, *size) if min(size) > 0 else None
    except (NotDicomError, ImageError):
        return None


def directions(dataset: "Dataset") -> tuple[str, str] | None:
    """Where rows and columns lead, a letter of L R A P H F each; None if nothing says so."""
    cosines: list[float] = []
    with suppress(ImageError):
        cosines = numbers(dataset, "ImageOrientationPatient")
    return _from_letters(texts_of(dataset, "PatientOrientation")) or _from_cosines(cosines)


def movement_said(letters: Sequence[str], cosines: Sequence[str]) -> str:
    """Say what a reader undoes: "mirrored", "turned", or "" if the header says upright.

    ``letters`` is the PatientOrientation and ``cosines`` the ImageOrientationPatient.
    """
    try:
        numbers = [float(cosine) for cosine in cosines]
    except ValueError:
        numbers = []
    flips = _movement(_from_letters(letters) or _from_cosines(numbers))
    return Placement(1, 1, 1, 1, *flips).movement


def upright(gray: Gray, placement: Placement) -> Gray:
    """Turn stored pixels, all of them or halved, into the picture shown."""
    stored = placement.stored_height, placement.stored_width
    whole = None if gray.pixels.shape == stored else (placement.height, placement.width)
    if placement.plain:
        return replace(gray, whole=whole)
    turned = Gray(placement.turned(gray.pixels), gray.table, placement, whole)
    if not placement.stretched:
        return turned
    size = (placement.width, placement.height)
    resized = Image.fromarray(turned.floats()[0]).resize(size, Image.Resampling.BILINEAR)
    return Gray(np.asarray(resized, dtype=np.float32), None, placement)


def _from_letters(letters: Sequence[str]) -> tuple[str, str] | None:
    texts = [text.strip().upper() for text in letters]
    # Letters after the first mean an oblique view; the terms for animals use other letters.
    if len(texts) != 2 or not all(0 < len(t) <= 3 and set(t) <= set("LRAPHF") for t in texts):
        return None
    return texts[0][0], texts[1][0]


def _from_cosines(cosines: Sequence[float]) -> tuple[str, str] | None:
    if len(cosines) != 6:
        return None
    leads = []
    for start in (0, 3):
        values = cosines[start : start + 3]
        axis = max(range(3), key=lambda i: abs(values[i]))
        if abs(values[axis]) < 0.75:  # oblique by more than 41 degrees: no clear side
            return None
        leads.append(_DIRECTIONS[axis][values[axis] > 0])
    return leads[0], leads[1]


def _movement(leads: tuple[str, str] | None) -> tuple[bool, bool, bool]:
    """Say whether to transpose, mirror and invert so that feet are below and left is right.

    Lateral views have no left or right: they are turned, never mirrored.  Other planes stay.
    """
    row, column = leads or ("", "")
    transposed = row in ("H", "F")
    across, down = (column, row) if transposed else (row, column)
    if down not in ("H", "F") or across not in ("L", "R", "A", "P"):
        return False, False, False
    inverted = down == "H"
    if across in ("L", "R"):
        return transposed, across == "R", inverted
    return transposed, transposed != inverted, inverted


def _aspect(dataset: "Dataset") -> float:
    """The height of a pixel over its width; 1 if nothing says otherwise."""
    for keyword in _SPACINGS:
        with suppress(ImageError):
            sides = numbers(dataset, keyword)
            if len(sides) == 2 and min(sides) > 0:
                ratio = sides[0] / sides[1]
                plausible = 1 / _MAX_ASPECT <= ratio <= _MAX_ASPECT
                return ratio if plausible and abs(ratio - 1) > _TOLERANCE else 1.0
    return 1.0


def _square_size(rows: int, columns: int, aspect: float) -> tuple[int, int]:
    """The size with square pixels: the coarser side enlarged, or else the finer one shrunk."""
    down, across = max(aspect, 1.0), max(1 / aspect, 1.0)
    if rows * down * columns * across > MAX_PIXELS:
        down, across = min(aspect, 1.0), min(1 / aspect, 1.0)
    return max(1, round(rows * down)), max(1, round(columns * across))
