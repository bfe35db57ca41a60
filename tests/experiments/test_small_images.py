"""CIFAR-10 and MNIST from an .npz; wrong files give one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.experiments.small_sets import Kind, read_small_images

N, M = 25, 20


def drawn(kind: Kind) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    shape = (32, 32, 3) if kind == "cifar10" else (28, 28)
    arrays: dict[str, Any] = {}
    for part, count in (("train", N), ("test", M)):
        arrays[f"x_{part}"] = generator.integers(0, 256, (count, *shape)).astype(np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % 10
    return arrays


@pytest.mark.parametrize("kind", ["cifar10", "mnist"])
def test_images_come_with_channels_first_and_labels_as_one_row(tmp_path: Path, kind: Kind) -> None:
    arrays, path = drawn(kind), tmp_path / "images.npz"
    np.savez(path, **arrays | {"y_test": arrays["y_test"][:, None].astype(np.uint8)})
    for name, part in zip(("train", "test"), read_small_images(path, kind), strict=True):
        expected = arrays[f"x_{name}"].reshape(len(part.labels), *part.pixels.shape[2:], -1)
        np.testing.assert_array_equal(part.pixels.transpose(0, 2, 3, 1), expected)
        np.testing.assert_array_equal(part.labels, arrays[f"y_{name}"])


def test_what_grows_when_it_is_decompressed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cxrtext.experiments.small_sets.MOST_BYTES", 10_000)
    np.savez_compressed(tmp_path / "big.npz", x_train=np.zeros(20_000, np.uint8))
    with pytest.raises(DataError, match=r"takes .* when it is decompressed"):
        read_small_images(tmp_path / "big.npz", "cifar10")


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.npz", drawn("mnist")

    def refused(kind: Kind, says: str, **arrays: Any) -> None:
        if arrays:
            np.savez(path, **arrays)
        with pytest.raises(DataError, match=f"a.npz: {says}"):
            read_small_images(path, kind)

    path.write_bytes(b"text")
    refused("mnist", r"not a readable .npz file .*; give an .npz of x_train, y_train")
    refused("cifar10", r"images are .25, 28, 28.; cifar10 has 3 channel\(s\) of 32 × 32", **whole)
    refused("mnist", "pixels are float64", **whole | {"x_test": whole["x_test"] / 255})
    refused("mnist", "images are .0, 28, 28.", **whole | {"x_test": whole["x_test"][:0]})
    refused("mnist", "label 10 is not a class", **whole | {"y_train": whole["y_train"] + 1})
    refused("mnist", "25 labels for 20 images", **whole | {"y_test": whole["y_train"]})
    refused("mnist", "holds no array 'y_test'", **{k: whole[k] for k in list(whole)[:3]})
