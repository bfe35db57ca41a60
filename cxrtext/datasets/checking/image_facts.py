"""What is noted of an image file: small, and without its pixels."""

import hashlib
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images import encode_png, read_image, read_image_bytes, to_uint8
from cxrtext.images.dicom_file import DEFLATED, is_dicom, read_file
from cxrtext.images.quiet import quiet
from cxrtext.images.raster import PNG_START
from cxrtext.images.read import MAX_FILE_BYTES

OUTLINE = 16
"""Side of the grid of comparisons that an outline holds."""

_STEP = 3
"""Grey levels by which neighbours differ in an outline; less is compression noise."""

_MODES = {
    "1": "1-bit grey",
    "L": "8-bit grey",
    "I;16": "16-bit grey",
    "I": "16-bit grey",
    "LA": "8-bit grey, transparent",
    "P": "palette",
    "RGB": "8-bit colour",
    "RGBA": "8-bit colour, transparent",
}


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What a file holds.

    Args:
        fault: Why it cannot be read; "" where it can, and then the rest is known.
        format: "PNG", "JPEG" or "DICOM".
        encoding: Kind and depth of its pixels, as "MONOCHROME1, 12 of 16 bits".
        view: View position of a DICOM file; "" where unknown.
        modality: Modality of a DICOM file; "" where unknown.
        width: Pixels.
        height: Pixels.
        mean: Mean grey level, 0 to 255.
        low: Grey level below which one pixel in a hundred lies.
        high: Grey level above which one pixel in a hundred lies.
        constant: Whether all pixels are equal.
        file_digest: SHA-256 of the file, its first 128 bits.
        pixel_digest: SHA-256 of size and 8-bit pixels, its first 128 bits.
        outline: Bits that say where the picture brightens to the right, hexadecimal.
    """

    fault: str = ""
    format: str = ""
    encoding: str = ""
    view: str = ""
    modality: str = ""
    width: int = 0
    height: int = 0
    mean: float = 0.0
    low: int = 0
    high: int = 0
    constant: bool = False
    file_digest: str = ""
    pixel_digest: str = ""
    outline: str = ""


def read_facts(path: str) -> ImageFacts:
    """Read an image file and note what it holds; what is wrong is noted, not raised.

    Args:
        path: The file.
    """
    try:
        with quiet():
            return _read(Path(path))
    except ImageError as error:
        shown = "".join(letter if letter.isprintable() else "?" for letter in path)
        return ImageFacts(fault=str(error).removeprefix(f"{shown}: "))
    except OSError as error:
        return ImageFacts(fault=f"cannot be opened ({error.strerror}); check its permissions")
    except MemoryError:
        return ImageFacts(fault="is too large for the memory; make the image smaller")


def _read(path: Path) -> ImageFacts:
    if path.stat().st_size > MAX_FILE_BYTES:
        read_image(path)  # refuses it in its own words
    data = path.read_bytes()
    grey = to_uint8(read_image_bytes(data, str(path)))
    facts = _describe(grey, hashlib.sha256(data).hexdigest()[:32])
    if is_dicom(data):
        return replace(facts, **_dicom_header(data))
    kind = "PNG" if data.startswith(PNG_START) else "JPEG"
    with Image.open(BytesIO(data), formats=(kind,)) as image:
        return replace(facts, format=kind, encoding=_MODES.get(image.mode, image.mode))


def _describe(grey: npt.NDArray[np.uint8], file_digest: str) -> ImageFacts:
    counts = np.bincount(grey.ravel(), minlength=256)
    share = np.cumsum(counts) / grey.size
    digest = hashlib.sha256(f"{grey.shape[1]} x {grey.shape[0]}:".encode())
    digest.update(np.ascontiguousarray(grey).data)
    return ImageFacts(
        width=grey.shape[1],
        height=grey.shape[0],
        mean=round(float(counts @ np.arange(256)) / grey.size, 1),
        low=int(np.searchsorted(share, 0.01)),
        high=int(np.searchsorted(share, 0.99)),
        constant=bool(counts.max() == grey.size),
        file_digest=file_digest,
        pixel_digest=digest.hexdigest()[:32],
        outline=_outline(grey),
    )


def _outline(grey: npt.NDArray[np.uint8]) -> str:
    """Difference hash; noise in flat parts is kept out by asking for a step."""
    picture = Image.fromarray(grey).resize((OUTLINE + 1, OUTLINE), Image.Resampling.BOX)
    small = np.asarray(picture, dtype=np.int16)
    return np.packbits(small[:, 1:] - small[:, :-1] > _STEP).tobytes().hex()


def _dicom_header(data: bytes) -> dict[str, Any]:
    file = read_file(data)
    stored, allocated = file.dataset.get("BitsStored"), file.dataset.get("BitsAllocated")
    photometric = str(file.dataset.get("PhotometricInterpretation", "")).strip()
    encoding = f"{photometric}, {stored} of {allocated} bits"
    found: dict[str, Any] = {"format": "DICOM", "encoding": encoding}
    if file.syntax == DEFLATED:
        return found  # pydicom would inflate it without a bound
    import pydicom

    header = pydicom.dcmread(
        BytesIO(data),
        force=True,
        stop_before_pixels=True,
        specific_tags=["ViewPosition", "Modality"],
    )
    for name, keyword in (("view", "ViewPosition"), ("modality", "Modality")):
        found[name] = _code(header.get(keyword, ""))
    return found


def _code(value: object) -> str:
    """A code string of DICOM; anything that does not look like one could be a person's name."""
    text = str(value or "").strip().upper()
    return text if len(text) <= 16 and text.replace(" ", "").replace("_", "").isalnum() else ""


def likeness(paths: tuple[str, str]) -> float:
    """Return the correlation of two images' grey levels, on a grid of 64 × 64; -1 where unreadable.

    Args:
        paths: The two files.
    """
    grids = []
    for path in paths:
        try:
            grey = Image.fromarray(to_uint8(read_image(Path(path))))
        except (ImageError, MemoryError):
            return -1.0
        grids.append(np.asarray(grey.resize((64, 64), Image.Resampling.BOX), float).ravel())
    return float(np.corrcoef(grids[0], grids[1])[0, 1])


def thumbnail(task: tuple[str, int]) -> bytes | None:
    """Return a small PNG of an image, or None where it cannot be read.

    Args:
        task: The file, and the longest side of the picture in pixels.
    """
    path, side = task
    try:
        grey = to_uint8(read_image(Path(path)))
    except (ImageError, MemoryError):
        return None
    picture = Image.fromarray(grey)
    picture.thumbnail((side, side), Image.Resampling.BOX)
    return encode_png(picture)
