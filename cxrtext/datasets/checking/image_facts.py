"""What is noted of an image file: small, and without its pixels."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cxrtext.errors import ImageError
from cxrtext.images import encode_png
from cxrtext.images.dicom_elements import read_wanted
from cxrtext.images.dicom_file import is_dicom
from cxrtext.images.quiet import quiet
from cxrtext.images.raster import PNG_START
from cxrtext.images.read import decode_image, stored_bytes

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


def facts_work(path: str, _: bytes) -> tuple[dict[str, Any], bytes]:
    """Do `read_facts` in a process of its own."""
    return asdict(read_facts(path)), b""


def _read(path: Path) -> ImageFacts:
    data = stored_bytes(path)
    grey = decode_image(data, str(path)).bytes()[0]
    facts = _describe(grey, hashlib.sha256(data).hexdigest()[:32])
    if is_dicom(data):
        return replace(facts, **_dicom_header(path))
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


_STORAGE = ("PhotometricInterpretation", "BitsStored", "BitsAllocated")


def _dicom_header(path: Path) -> dict[str, Any]:
    header = read_wanted(path, (*_STORAGE, "ViewPosition", "Modality")).dataset
    photometric, stored, allocated = (str(header.get(one, "")).strip() for one in _STORAGE)
    return {
        "format": "DICOM",
        "encoding": f"{photometric}, {stored} of {allocated} bits",
        "view": _code(header.get("ViewPosition", "")),
        "modality": _code(header.get("Modality", "")),
    }


def _code(value: object) -> str:
    """A code string of DICOM; anything that does not look like one could be a person's name."""
    text = str(value or "").strip().upper()
    return text if len(text) <= 16 and text.replace(" ", "").replace("_", "").isalnum() else ""


def _grey(path: str) -> npt.NDArray[np.uint8]:
    grey: npt.NDArray[np.uint8] = decode_image(stored_bytes(Path(path)), path).bytes()[0]
    return grey


def likeness_work(paths: Sequence[str], _: bytes) -> tuple[float, bytes]:
    """Correlate two images' grey levels, on a grid of 64 × 64; -1 where one is unreadable.

    Args:
        paths: The two files.
    """
    grids = []
    for path in paths:
        try:
            grey = Image.fromarray(_grey(path))
        except (ImageError, MemoryError):
            return -1.0, b""
        grids.append(np.asarray(grey.resize((64, 64), Image.Resampling.BOX), float).ravel())
    return float(np.corrcoef(grids[0], grids[1])[0, 1]), b""


def thumbnail_work(task: tuple[str, int], _: bytes) -> tuple[None, bytes]:
    """Draw a small PNG of an image; no bytes where it cannot be read.

    Args:
        task: The file, and the longest side of the picture in pixels.
    """
    path, side = task
    try:
        picture = Image.fromarray(_grey(path))
    except (ImageError, MemoryError):
        return None, b""
    picture.thumbnail((side, side), Image.Resampling.BOX)
    return None, encode_png(picture)
