"""A set of small images in memory, checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError

Kind = Literal["cifar10", "mnist"]
Pixels = NDArray[np.uint8]
Classes = NDArray[np.int64]

CIFAR10 = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
"""The classes, in the order of their numbers."""

NAMES: dict[Kind, tuple[str, ...]] = {"cifar10": CIFAR10, "mnist": tuple("0123456789")}
SIDES: dict[Kind, tuple[int, int]] = {"cifar10": (3, 32), "mnist": (1, 28)}
"""Channels, and pixels along a side."""


@dataclass(frozen=True, slots=True)
class SmallImages:
    """A set of small images.

    Args:
        train_images: [n, C, H, W], 8 bit.
        train_labels: [n], a number a class from 0.
        test_images: [m, C, H, W].
        test_labels: [m].
        names: The classes' names.
    """

    train_images: Pixels
    train_labels: Classes
    test_images: Pixels
    test_labels: Classes
    names: tuple[str, ...]


def channels_first(source: Path | str, images: Any, kind: Kind) -> Pixels:
    """Images in one layout, [n, C, H, W].

    Args:
        source: Named in messages.
        images: [n, H, W], [n, H, W, C], [n, C, H, W] or [n, C·H·W], 8-bit.
        kind: What is expected.

    Raises:
        DataError: They have another shape or are not 8-bit.
    """
    channels, side = SIDES[kind]
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8:
        raise DataError(f"{source}: pixels are {pixels.dtype}, not uint8; give 8-bit images")
    if pixels.ndim == 3 and channels == 1:
        pixels = pixels[:, None]
    elif pixels.ndim == 4 and pixels.shape[1:] == (side, side, channels):
        pixels = pixels.transpose(0, 3, 1, 2)
    elif pixels.ndim == 2 and pixels.shape[1] == channels * side * side:
        pixels = pixels.reshape(-1, channels, side, side)
    if pixels.ndim != 4 or pixels.shape[1:] != (channels, side, side):
        raise DataError(
            f"{source}: images are {list(np.shape(images))}; {kind} has {channels} channel(s) of "
            f"{side} × {side} pixels"
        )
    return np.ascontiguousarray(pixels)


def checked_labels(source: Path | str, labels: Any, count: int, classes: int) -> Classes:
    """Labels as whole numbers.

    Raises:
        DataError: There are not as many as images, or one is no class.
    """
    given = np.asarray(labels).reshape(-1)
    if given.dtype.kind not in "iu" or len(given) != count:
        raise DataError(f"{source}: {len(given)} labels for {count} images; give one an image")
    found = given.astype(np.int64)
    if count and (found.min() < 0 or found.max() >= classes):
        wrong = int(found[(found < 0) | (found >= classes)][0])
        raise DataError(f"{source}: label {wrong} is no class; they are 0 to {classes - 1}")
    return found


def assemble(
    source: Path,
    kind: Kind,
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    names: tuple[str, ...] | None = None,
) -> SmallImages:
    """Check both parts and put them together.

    Args:
        source: Named in messages.
        kind: What is expected.
        train: Images and labels, as they were read.
        test: The same of the test part.
        names: The classes' names, where the files have them.

    Raises:
        DataError: A part is empty or wrong.
    """
    known = names or NAMES[kind]
    parts: list[tuple[Pixels, Classes]] = []
    for part, (images, labels) in (("training", train), ("test", test)):
        pixels = channels_first(source, images, kind)
        if not len(pixels):
            raise DataError(f"{source}: holds no {part} images")
        parts.append((pixels, checked_labels(source, labels, len(pixels), len(known))))
    return SmallImages(*parts[0], *parts[1], known)
