"""One way in for every file of small images, detected from what is there; MNIST as idx files."""

import math
import struct
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from cxrtext.errors import DataError
from cxrtext.experiments.data.cifar import is_cifar_folder, read_cifar_archive, read_cifar_folder
from cxrtext.experiments.data.images import (
    MOST_BYTES,
    Kind,
    SmallImages,
    assemble,
    read_bytes,
)
from cxrtext.files import DAMAGED_ARCHIVE

ACCEPTED: dict[Kind, str] = {
    "cifar10": "cifar-10-binary.tar.gz, a folder with its files, or an .npz of x_train, y_train, "
    "x_test, y_test",
    "mnist": "a folder with the four idx files (plain or .gz), or an .npz of x_train, y_train, "
    "x_test, y_test",
}
"""What can be given, in words."""
NEEDED = ("x_train", "y_train", "x_test", "y_test")
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
    below = folder / {"cifar10": "cifar-10-batches-bin", "mnist": "raw"}[kind]
    if below.is_dir():
        return _read_folder(below, kind)
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
        return {name: held[name] for name in NEEDED}


def read_npz(path: Path, kind: Kind) -> SmallImages:
    try:
        held = _load(path)
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not a readable .npz file ({type(error).__name__}); it wants "
            f"{', '.join(NEEDED)}"
        ) from None
    return assemble(
        path, kind, (held["x_train"], held["y_train"]), (held["x_test"], held["y_test"])
    )
