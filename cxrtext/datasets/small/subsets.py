"""What the papers make of CIFAR-10 and MNIST."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cxrtext.datasets.small.images import Classes, Pixels, SmallImages

THINNED = ("dog", "frog", "horse", "ship", "truck")
"""The classes of CIFAR10-r of which only a fraction is kept."""

DIGIT = 128
"""Grey value from which on a pixel of MNIST belongs to the stroke."""

SIDE = 32


@dataclass(frozen=True, slots=True)
class ColoredImages:
    """ColorMNIST.

    Args:
        images: [n, 3, 32, 32].
        colors: [n, 3], red, green and blue of each background, 0 to 255.
    """

    images: Pixels
    colors: NDArray[np.float32]


def first_of_each_class(images: SmallImages, train: int | None, test: int | None) -> SmallImages:
    """A smaller set with equal numbers of each class, the first ones in their order.

    Args:
        images: The whole set.
        train: Training images in all; None for every one.
        test: Test images in all; None for every one.
    """
    kept = []
    for labels, wanted in ((images.train_labels, train), (images.test_labels, test)):
        each = len(labels) if wanted is None else max(1, wanted // len(images.names))
        firsts = [np.flatnonzero(labels == one)[:each] for one in range(len(images.names))]
        kept.append(np.sort(np.concatenate(firsts)))
    rows, tests = kept
    return replace(
        images,
        train_images=images.train_images[rows],
        train_labels=images.train_labels[rows],
        test_images=images.test_images[tests],
        test_labels=images.test_labels[tests],
    )


def cifar10_r(
    labels: Classes, names: tuple[str, ...], fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Rows of CIFAR10-r and each one's true class probability.

    Args:
        labels: [n], classes of CIFAR-10.
        names: The classes' names.
        fraction: r, in (0, 1]: how much of dog, frog, horse, ship and truck is kept.
        generator: Draws which.

    Returns:
        Rows [m] in ascending order, and η [m]: the share of each row's class in the subset,
        0.2 r / (1 + r) or 0.2 / (1 + r) where all classes are equally large.

    Raises:
        ValueError: The fraction is not in (0, 1], or a class is missing.

    Source: Wang et al. 2023 (sample-specific debiasing), section 3.1.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be in (0, 1], not {fraction}")
    kept = []
    for code, name in enumerate(names):
        rows = np.flatnonzero(labels == code)
        if not len(rows):
            raise ValueError(f"there is no image of class '{name}'")
        if name in THINNED:
            rows = generator.permutation(rows)[: max(1, round(fraction * len(rows)))]
        kept.append(rows)
    chosen = np.sort(np.concatenate(kept))
    share = np.bincount(labels[chosen], minlength=len(names)) / len(chosen)
    return chosen, share[labels[chosen]].astype(np.float32)


def color_mnist(digits: Pixels, generator: np.random.Generator) -> ColoredImages:
    """MNIST with a background of random colour: 32 × 32, the stroke black.

    Args:
        digits: [n, 1, 28, 28], strokes white.
        generator: Draws the colours, uniform in red, green and blue.

    Source: Tsai et al. 2022 (CCL-K), section 4.2 and appendix F.4; the margin of two pixels and
    the threshold of half the range are ours.
    """
    colors = generator.integers(0, 256, (len(digits), 3)).astype(np.uint8)
    margin = (SIDE - digits.shape[-1]) // 2
    padding = ((0, 0), (0, 0), (margin, margin), (margin, margin))
    stroke = np.pad(digits, padding) >= DIGIT
    images = np.where(stroke, np.uint8(0), colors[:, :, None, None])
    return ColoredImages(images, colors.astype(np.float32))
