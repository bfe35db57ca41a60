"""One way in for every image file: PNG, JPEG or DICOM, told apart by content."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cxrtext.errors import ImageError
from cxrtext.images.arrays import Floats
from cxrtext.images.dicom import decode_dicom
from cxrtext.images.dicom_file import is_dicom, looks_headless
from cxrtext.images.grey import Grey
from cxrtext.images.quiet import quiet
from cxrtext.images.raster import JPEG_START, PNG_START, decode_raster

MAX_FILE_BYTES = 2**30

Window = int | str | tuple[float, float]


class ImageMemoryError(ImageError):
    """The image may be sound, but there is too little memory to decode it."""


def read_image(path: Path, *, frame: int | None = None, window: Window | None = None) -> Floats:
    """Read a radiograph as grey values, black 0 and white 1, bone bright and air dark.

    The kind of file is told by its content, not by its name.  In DICOM the modality and the
    value-of-interest transformation are applied and MONOCHROME1 is inverted; overlays are
    ignored.  PNG and JPEG are taken as they are, colour made grey.

    Args:
        path: A PNG, JPEG or DICOM file.
        frame: Which frame, from 0.  May be left out unless the file holds several.
        window: How to choose contrast in greyscale DICOM: an index into the file's own choices
            (its VOI LUTs, then its windows), the name that the file gives to one of them, or
            (centre, width) in modality units.  None takes the first, and where the file has
            none, from the 0.5th to the 99.5th percentile.

    Returns:
        [1, H, W] float32 in [0, 1], all finite.

    Raises:
        ImageError: When the file cannot be read; one line that names it, the fault and the mend.
    """
    data = stored_bytes(path)
    return read_image_bytes(data, str(path), frame=frame, window=window)


def stored_bytes(path: Path) -> bytes:
    """Give what a file of at most 1 GiB holds.

    Raises:
        ImageError: When it cannot be read; one line that names it, the fault and the mend.
    """
    try:
        path = Path(path)
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            # A pipe or a device could be read without end; a folder is refused when it is opened.
            raise ImageError(f"{shown(path)}: is no regular file; check the path")
        if status.st_size > MAX_FILE_BYTES:
            raise ImageError(f"{shown(path)}: is larger than 1 GiB; split it into single frames")
        return path.read_bytes()
    except MemoryError:
        raise ImageMemoryError(
            f"{shown(path)}: needs more memory to be read than there is; make the image smaller"
        ) from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ImageError(f"{shown(path)}: cannot be opened ({reason}); check the path") from None
    except ValueError:
        raise ImageError(f"{shown(path)}: is not a path; check the path") from None


def read_image_bytes(
    data: bytes, name: str, *, frame: int | None = None, window: Window | None = None
) -> Floats:
    """Read an image that was sent rather than stored; see `read_image`.

    Args:
        data: The whole file.
        name: What to call it in an error.
        frame: As in `read_image`.
        window: As in `read_image`.

    Returns:
        [1, H, W] float32 in [0, 1], all finite.

    Raises:
        ImageError: As in `read_image`.
        ValueError: When ``window`` is a tuple of another length than 2.
    """
    grey = decode_image(data, name, frame=frame, window=window)
    with _told_of(name):
        return grey.floats()


def decode_image(
    data: bytes, name: str, *, frame: int | None = None, window: Window | None = None
) -> Grey:
    """Decode an image as far as both 8 bits and floats can be made of it; see `read_image_bytes`.

    Args:
        data: The whole file.
        name: What to call it in an error.
        frame: As in `read_image`.
        window: As in `read_image`.

    Raises:
        ImageError: As in `read_image`.
        ValueError: When ``window`` is a tuple of another length than 2.
    """
    if isinstance(window, tuple) and len(window) != 2:
        raise ValueError("window is an index, a name or (centre, width)")
    with _told_of(name):
        return _decode(bytes(data), frame, window)


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """Turn whatever goes wrong with an image into one line that names it."""
    called = shown(name)
    try:
        with quiet():
            yield
    except ImageError as error:
        raise ImageError(f"{called}: {error}") from None
    except MemoryError:
        raise ImageMemoryError(
            f"{called}: needs more memory to be decoded than there is; make the image smaller"
        ) from None
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - decoders raise anything on a hostile file
        # Also what is no Exception: the panic of a decoder written in Rust.
        # The decoder's own words may quote the file, so only the kind of failure is told.
        raise ImageError(
            f"{called}: is damaged ({type(error).__name__}); copy or export the file again"
        ) from None


def shown(name: Path | str) -> str:
    """Give a name as one line of an error may hold it."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(name))


def _decode(data: bytes, frame: int | None, window: Window | None) -> Grey:
    if not data:
        raise ImageError("is empty; copy or export the file again")
    if is_dicom(data):
        return decode_dicom(data, frame, window)
    if data.startswith((PNG_START, JPEG_START)):
        if frame not in (None, 0):
            raise ImageError("holds 1 frame; leave frame out or pass frame=0")
        if window is not None:
            raise ImageError("is no DICOM file, so it has no window; leave window out")
        return decode_raster(data)
    if looks_headless(data):
        raise ImageError(
            "is DICOM data without its file header, so its encoding is unknown; "
            "export it as a DICOM Part 10 file"
        )
    raise ImageError("is no PNG, JPEG or DICOM file; convert it to one of these")
