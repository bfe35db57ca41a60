"""CIFAR-10 and MNIST from an ``.npz`` file, and the sets that the papers make from them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.files import DAMAGED_ARCHIVE

Kind = Literal["cifar10", "mnist"]
Pixels = NDArray[np.uint8]
Classes = NDArray[np.int64]
Floats = NDArray[np.float32]

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
"""The classes, in the order of their numbers."""
THINNED = tuple(CIFAR10.index(name) for name in ("dog", "frog", "horse", "ship", "truck"))
"""CIFAR10-r keeps only a fraction of these classes."""
CLASSES = 10
SHAPES: dict[Kind, tuple[int, int]] = {"cifar10": (3, 32), "mnist": (1, 28)}
"""Channels, and pixels along a side."""
DIGIT = 128
"""Pixels of MNIST with at least this gray value belong to the stroke."""
SIDE = 32
SEED = 0
"""Draws CIFAR10-r and the colors, the same in all runs; a run's own seed is for its training."""
NEEDED = ("x_train", "y_train", "x_test", "y_test")
ACCEPTED = f"an .npz of {', '.join(NEEDED)}"
"""What ``--data`` takes, in words."""
MOST_BYTES = 2**30
"""The largest decompressed set of small images: 1 GiB."""


@dataclass(frozen=True, slots=True)
class Images:
    """8-bit images [n, C, H, W], their classes from 0, [n], and their colors [n, 3], or None."""

    pixels: Pixels
    labels: Classes
    colors: Floats | None = None


@dataclass(frozen=True, slots=True)
class ImageSet:
    """``train`` to train encoders and fit probes on, ``test`` to measure on.

    The training images have ``eta``, class probabilities [n], and ``metadata`` [n, M]: numbers, or
    codes if ``categories``.
    """

    train: Images
    test: Images
    metadata: Floats
    categories: bool
    eta: Floats | None = None


def read_small_images(path: Path, kind: Kind) -> tuple[Images, Images]:
    """Read 8-bit images for training and test, and their classes.

    They are [n, 32, 32, 3] for CIFAR-10 and [n, 28, 28] for MNIST; a DataError names the file.
    """
    try:
        arrays = _load(path)
    except DAMAGED_ARCHIVE as error:
        raise DataError(
            f"{path}: not a readable .npz file ({type(error).__name__}); give {ACCEPTED}"
        ) from None

    def part(name: str) -> Images:
        pixels = _channels_first(path, arrays[f"x_{name}"], kind)
        return Images(pixels, _classes(path, arrays[f"y_{name}"], len(pixels)))

    return part("train"), part("test")


def _load(path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MOST_BYTES:
        raise DataError(
            f"{path}: takes {size} bytes when it is decompressed, more than {MOST_BYTES}; this is "
            "no set of small images"
        )
    with np.load(path, allow_pickle=False) as arrays:
        missing = [name for name in NEEDED if name not in arrays.files]
        if missing:
            raise DataError(f"{path}: holds no array '{missing[0]}'; give {ACCEPTED}")
        return {name: arrays[name] for name in NEEDED}


def _channels_first(path: Path, pixels: Any, kind: Kind) -> Pixels:
    channels, side = SHAPES[kind]
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


def _classes(path: Path, labels: Any, count: int) -> Classes:
    given = labels.reshape(-1)
    if given.dtype.kind not in "iu" or len(given) != count:
        raise DataError(f"{path}: {len(given)} labels for {count} images; give each image one")
    if given.min() < 0 or given.max() >= CLASSES:
        wrong = int(given[(given < 0) | (given >= CLASSES)][0])
        raise DataError(f"{path}: label {wrong} is not a class; they are 0 to {CLASSES - 1}")
    return given.astype(np.int64)  # type: ignore[no-any-return]


def first_of_each_class(images: Images, wanted: int | None) -> Images:
    """The first images of each class, the same number each; ``wanted`` in total, None for all."""
    if wanted is None:
        return images
    each = max(1, wanted // CLASSES)
    by_class = [np.flatnonzero(images.labels == code)[:each] for code in range(CLASSES)]
    rows = np.sort(np.concatenate(by_class))
    return Images(images.pixels[rows], images.labels[rows])


def cifar10_r(
    labels: Classes, fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.intp], Floats]:
    """Rows of CIFAR10-r and each row's true class probability.

    ``fraction`` is r, in (0, 1]: how much of dog, frog, horse, ship and truck is kept.  Rows [m]
    are in ascending order; η [m] is the share of each row's class in the subset, 0.2 r / (1 + r)
    or 0.2 / (1 + r) if all classes are equally large.

    Source: Wang et al. 2023 (sample-specific debiasing), section 3.1.
    """
    kept = []
    for code in range(CLASSES):
        rows = np.flatnonzero(labels == code)
        if code in THINNED:
            rows = generator.permutation(rows)[: max(1, round(fraction * len(rows)))]
        kept.append(rows)
    chosen = np.sort(np.concatenate(kept))
    share = np.bincount(labels[chosen], minlength=CLASSES) / len(chosen)
    return chosen, share[labels[chosen]].astype(np.float32)


def color_mnist(digits: Pixels, generator: np.random.Generator) -> tuple[Pixels, Floats]:
    """MNIST with a background of random color: 32 × 32, with a black stroke.

    White strokes [n, 1, 28, 28] give images [n, 3, 32, 32] and the red, green and blue of each
    background, [n, 3], uniform from 0 to 255.

    Source: Tsai et al. 2022 (CCL-K), section 4.2 and appendix F.4; the margin of two pixels and
    the threshold of half the range are ours.
    """
    colors = generator.integers(0, 256, (len(digits), 3)).astype(np.uint8)
    margin = (SIDE - digits.shape[-1]) // 2
    stroke = np.pad(digits, ((0, 0), (0, 0), (margin, margin), (margin, margin))) >= DIGIT
    return np.where(stroke, np.uint8(0), colors[:, :, None, None]), colors.astype(np.float32)


def make_set(name: str, train: Images, test: Images) -> ImageSet:
    """The set with this name: "cifar10", "cifar10-r-" and r, or "color-mnist"."""
    if name == "color-mnist":
        return _color_mnist(train, test)
    eta = None
    if name != "cifar10":
        fraction = float(name.removeprefix("cifar10-r-"))
        generator = np.random.default_rng([SEED, round(1000 * fraction)])
        rows, eta = cifar10_r(train.labels, fraction, generator)
        train = Images(train.pixels[rows], train.labels[rows])
    return ImageSet(train, test, train.labels[:, None].astype(np.float32), True, eta)


def _color_mnist(train: Images, test: Images) -> ImageSet:
    pixels, colors = color_mnist(train.pixels, np.random.default_rng([SEED, 9, 0]))
    others, their_colors = color_mnist(test.pixels, np.random.default_rng([SEED, 9, 1]))
    train = Images(pixels, train.labels, colors)
    test = Images(others, test.labels, their_colors)
    # Not centered: around their mean, colors have a cosine that no constant can follow, and then
    # Fair-CCLK's estimate falls to its floor when all images are embedded alike.
    return ImageSet(train, test, colors / colors.std(axis=0), False)
