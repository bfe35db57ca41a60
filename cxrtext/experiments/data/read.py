"""CIFAR-10 and MNIST from an ``.npz`` file."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import (
    NAMES,
    SIDES,
    Classes,
    Kind,
    Labelled,
    Pixels,
    SmallImages,
)
from cxrtext.files import DAMAGED_ARCHIVE

NEEDED = ("x_train", "y_train", "x_test", "y_test")
ACCEPTED = f"an .npz of {', '.join(NEEDED)}"
"""What can be given, in words."""
MOST_BYTES = 2**30
"""The most that a set of small images may take once it is decompressed: 1 GiB."""


def read_small_images(path: Path, kind: Kind) -> SmallImages:
    """Read 8-bit images, of CIFAR-10 [n, 32, 32, 3], of MNIST [n, 28, 28], and their classes.

    What is wrong is a DataError that names the file.
    """
    try:
        held = _load(path)
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not a readable .npz file ({type(error).__name__}); give {ACCEPTED}"
        ) from None

    def part(name: str) -> Labelled:
        pixels = _channels_first(path, held[f"x_{name}"], kind)
        return Labelled(pixels, _classes(path, held[f"y_{name}"], len(pixels), len(NAMES[kind])))

    return SmallImages(part("train"), part("test"), NAMES[kind])


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
            raise DataError(f"{path}: holds no array '{missing[0]}'; give {ACCEPTED}")
        return {name: held[name] for name in NEEDED}


def _channels_first(path: Path, pixels: Any, kind: Kind) -> Pixels:
    """Images as [n, C, H, W]."""
    channels, side = SIDES[kind]
    if pixels.dtype != np.uint8:
        raise DataError(f"{path}: pixels are {pixels.dtype}, not uint8; give 8-bit images")
    if pixels.ndim == 3 and channels == 1:
        pixels = pixels[..., None]
    if not len(pixels) or pixels.shape[1:] != (side, side, channels):
        raise DataError(
            f"{path}: images are {list(pixels.shape)}; {kind} has {channels} channel(s) of "
            f"{side} × {side} pixels, the channels last"
        )
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def _classes(path: Path, labels: Any, count: int, classes: int) -> Classes:
    given = labels.reshape(-1)
    if given.dtype.kind not in "iu" or len(given) != count:
        raise DataError(f"{path}: {len(given)} labels for {count} images; give one an image")
    if given.min() < 0 or given.max() >= classes:
        wrong = int(given[(given < 0) | (given >= classes)][0])
        raise DataError(f"{path}: label {wrong} is no class; they are 0 to {classes - 1}")
    return given.astype(np.int64)  # type: ignore[no-any-return]
