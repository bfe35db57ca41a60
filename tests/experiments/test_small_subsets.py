import numpy as np
import pytest

from cxrtext.experiments.data.images import CIFAR10, SmallImages, first_of_each_class
from cxrtext.experiments.data.sets import THINNED, cifar10_r, color_mnist

LABELS = np.repeat(np.arange(10), 200)


@pytest.mark.parametrize("r", [0.05, 0.1, 0.5, 1.0])
def test_cifar10_r_has_the_papers_class_probabilities(r: float) -> None:
    rows, eta = cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(0))
    counts = np.bincount(LABELS[rows], minlength=10)
    for code, name in enumerate(CIFAR10):
        thin = name in THINNED
        assert counts[code] == (round(200 * r) if thin else 200)
        own = eta[LABELS[rows] == code]
        np.testing.assert_allclose(own, 0.2 * (r if thin else 1) / (1 + r), rtol=1e-6)
    assert (np.diff(rows) > 0).all()
    again, _ = cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(0))
    np.testing.assert_array_equal(rows, again)
    if r < 1:
        others, _ = cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(1))
        assert not np.array_equal(rows, others)


@pytest.mark.parametrize("r", [0.0, 1.1])
def test_cifar10_r_wants_a_fraction(r: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        cifar10_r(LABELS, CIFAR10, r, np.random.default_rng(0))


def test_color_mnist() -> None:
    digits = np.random.default_rng(0).integers(0, 256, (40, 1, 28, 28)).astype(np.uint8)
    images, colors = color_mnist(digits, np.random.default_rng(1))
    assert images.shape == (40, 3, 32, 32)
    assert images.dtype == np.uint8
    assert len(np.unique(colors, axis=0)) == 40
    for image, digit, color in zip(images, digits, colors, strict=True):
        stroke = np.zeros((32, 32), dtype=bool)
        stroke[2:30, 2:30] = digit[0] >= 128
        assert (image[:, stroke] == 0).all()
        assert (image[:, ~stroke] == color[:, None]).all()


def test_a_smaller_set_has_equal_classes() -> None:
    images = np.arange(2000, dtype=np.int64).astype(np.uint8)[:, None, None, None]
    whole = SmallImages(images, LABELS, images[::2], LABELS[::2], CIFAR10)
    few = first_of_each_class(whole, 50, None)
    assert np.bincount(few.train_labels).tolist() == [5] * 10
    np.testing.assert_array_equal(few.train_images[:5], images[:5])
    assert len(few.test_labels) == 1000
