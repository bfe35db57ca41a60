"""Sets of small images held in memory: CIFAR-10, MNIST and what the experiments make of them."""

from cxrtext.datasets.small.images import SmallImages
from cxrtext.datasets.small.read import read_small_images
from cxrtext.datasets.small.subsets import cifar10_r, color_mnist, first_of_each_class

__all__ = [
    "SmallImages",
    "cifar10_r",
    "color_mnist",
    "first_of_each_class",
    "read_small_images",
]
