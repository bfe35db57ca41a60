"""One way in for every file of small images, detected from what is there; MNIST as idx files."""

import math
import struct
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from PIL import Image, UnidentifiedImageError

from cxrtext.errors import DataError
from cxrtext.experiments.data.cifar import is_cifar_folder, read_cifar_archive, read_cifar_folder
from cxrtext.experiments.data.images import (
    MOST_BYTES,
    NAMES,
    SIDES,
    Kind,
    Pixels,
    SmallImages,
    assemble,
    read_bytes,
)
from cxrtext.files import DAMAGED_ARCHIVE

ACCEPTED: dict[Kind, str] = {
    "cifar10": "cifar-10-python.tar.gz or cifar-10-binary.tar.gz, a folder with their files, an "
    ".npz of x_train, y_train, x_test, y_test, or a folder of train/<class>/*.png and test/…",
    "mnist": "a folder with the four idx files (plain or .gz), an .npz of x_train, y_train, "
    "x_test, y_test, or a folder of train/<class>/*.png and test/…",
}
"""What can be given, in words."""
NEEDED = ("x_train", "y_train", "x_test", "y_test")
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
ALIASES = {"plane": "airplane", "car": "automobile"}
"""Names that some copies of CIFAR-10 use."""
PARTS = {"train": "train", "test": "t10k"}
"""What the files of MNIST begin with."""
UNSIGNED_BYTES = 0x08
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def read_small_images(path: Path, kind: Kind) -> SmallImages:
    """Read CIFAR-10 or MNIST from whatever of :data:`ACCEPTED` is there."""
    if path.is_dir():
        return _read_folder(path, kind)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder; give {ACCEPTED[kind]}")
    name = path.name.lower()
    if name.endswith(".npz"):
        return read_npz(path, kind)
    if kind == "cifar10" and name.endswith((".tar.gz", ".tgz", ".tar")):
        return read_cifar_archive(path)
    if kind == "cifar10" and is_cifar_folder(path.parent):
        return read_cifar_folder(path.parent)
    if kind == "mnist" and is_idx_folder(path.parent):
        return read_idx_folder(path.parent)
    raise DataError(f"{path}: no file of {kind}; give {ACCEPTED[kind]}")


def _read_folder(folder: Path, kind: Kind) -> SmallImages:
    if kind == "cifar10" and is_cifar_folder(folder):
        return read_cifar_folder(folder)
    if kind == "mnist" and is_idx_folder(folder):
        return read_idx_folder(folder)
    if all((folder / part).is_dir() for part in ("train", "test")):
        return read_image_folder(folder, kind)
    for name in ({"cifar10": "cifar-10-batches-py", "mnist": "raw"}[kind], "cifar-10-batches-bin"):
        if (folder / name).is_dir():
            return _read_folder(folder / name, kind)
    raise DataError(f"{folder}: holds no {kind}; give {ACCEPTED[kind]}")


def _parsed(source: Path | str, data: bytes) -> Bytes:
    """The array in the bytes of an idx file.  Source: LeCun, Cortes and Burges, the MNIST page."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTES:
        raise DataError(f"{source}: no idx file of 8-bit numbers; give a file of MNIST")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    if not 1 <= dimensions <= 4 or len(data) < start:
        raise DataError(f"{source}: the idx header is cut short; get the file again")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if math.prod(shape) != len(data) - start:
        raise DataError(
            f"{source}: {len(data) - start} bytes, not the {math.prod(shape)} of its header; get "
            "the file again"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _find(folder: Path, part: str, what: str, dimensions: int) -> Path | None:
    stem = PARTS[part]
    for joint in ("-", "."):
        for ending in ("", ".gz"):
            path = folder / f"{stem}-{what}{joint}idx{dimensions}-ubyte{ending}"
            if path.is_file():
                return path
    return None


def is_idx_folder(folder: Path) -> bool:
    return any(_find(folder, part, "images", 3) is not None for part in PARTS)


def _read(folder: Path, part: str, what: str, dimensions: int) -> Bytes:
    path = _find(folder, part, what, dimensions)
    if path is None:
        name = f"{PARTS[part]}-{what}-idx{dimensions}-ubyte"
        raise DataError(f"{folder}: holds no {name} (or {name}.gz); give all four files of MNIST")
    found = _parsed(path, read_bytes(path))
    if found.ndim != dimensions:
        raise DataError(f"{path}: has {found.ndim} dimensions, not {dimensions}")
    return found


def read_idx_folder(folder: Path) -> SmallImages:
    train, test = (
        (_read(folder, part, "images", 3), _read(folder, part, "labels", 1)) for part in PARTS
    )
    return assemble(folder, "mnist", train, test)


def _load(path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MOST_BYTES:
        raise DataError(
            f"{path}: takes {size} bytes when it is decompressed, more than {MOST_BYTES}; this is "
            "no set of small images"
        )
    with np.load(path, allow_pickle=False) as held:
        missing = [name for name in NEEDED if name not in held.files]
        if missing:
            raise DataError(f"{path}: holds no array '{missing[0]}'; it wants {', '.join(NEEDED)}")
        return {name: held[name] for name in (*NEEDED, "label_names") if name in held.files}


def read_npz(path: Path, kind: Kind) -> SmallImages:
    """Read the arrays ``NEEDED`` and, where it is there, ``label_names``."""
    try:
        held = _load(path)
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not a readable .npz file ({type(error).__name__}); it wants "
            f"{', '.join(NEEDED)}"
        ) from None
    names = tuple(str(name) for name in held["label_names"]) if "label_names" in held else None
    return assemble(
        path, kind, (held["x_train"], held["y_train"]), (held["x_test"], held["y_test"]), names
    )


def _read_image(path: Path, kind: Kind) -> Pixels:
    channels, side = SIDES[kind]
    try:
        with Image.open(path) as image:
            if image.size != (side, side):  # known before anything is decoded
                raise DataError(
                    f"{path}: is {image.size[0]} × {image.size[1]}; {kind} images are "
                    f"{side} × {side}"
                )
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError) as error:
        raise DataError(f"{path}: not a readable image ({type(error).__name__})") from None
    return pixels.reshape(side, side, channels)


def _files(folder: Path, names: tuple[str, ...]) -> list[tuple[Path, int]]:
    files = []
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        name = ALIASES.get(place.name.lower(), place.name.lower())
        if name not in names:
            raise DataError(f"{place}: is no class; there are {', '.join(names)}")
        listed = sorted(path for path in place.iterdir() if path.suffix.lower() in ENDINGS)
        files += [(path, names.index(name)) for path in listed]
    return files


def read_image_folder(folder: Path, kind: Kind) -> SmallImages:
    """Read ``train/<class>/*.png`` and ``test/<class>/*.png``."""
    channels, side = SIDES[kind]
    parts = []
    for part in ("train", "test"):
        files = _files(folder / part, NAMES[kind])
        if len(files) * channels * side * side > MOST_BYTES:
            raise DataError(f"{folder / part}: holds {len(files)} images, too many to keep at once")
        images = [_read_image(path, kind) for path, _ in files]
        pixels = np.stack(images) if images else np.zeros((0, side, side, channels), np.uint8)
        parts.append((pixels, np.asarray([label for _, label in files], dtype=np.int64)))
    return assemble(folder, kind, parts[0], parts[1])
