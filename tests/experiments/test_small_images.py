"""Every kind of file gives the same images; wrong ones give one line."""

import gzip
import io
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import CIFAR10, Kind, Labelled, SmallImages
from cxrtext.experiments.data.read import read_small_images

N, M = 25, 20


def drawn(kind: Kind) -> SmallImages:
    generator = np.random.default_rng(3)
    shape = (3, 32, 32) if kind == "cifar10" else (1, 28, 28)

    def part(count: int) -> Labelled:
        labels = np.arange(count, dtype=np.int64) % 10
        return Labelled(generator.integers(0, 256, (count, *shape)).astype(np.uint8), labels)

    names = CIFAR10 if kind == "cifar10" else tuple("0123456789")
    return SmallImages(part(N), part(M), names)


def same(one: SmallImages, other: SmallImages) -> None:
    assert one.names == other.names
    for (images, labels), others in ((one.train, other.train), (one.test, other.test)):
        np.testing.assert_array_equal(images, others.images)
        np.testing.assert_array_equal(labels, others.labels)


def batches(images: SmallImages) -> dict[str, tuple[np.ndarray, list[int]]]:
    """The training images in five batches, and the test images."""
    fifths = zip(*(np.array_split(array, 5) for array in images.train), strict=True)
    parts = {f"data_batch_{i}.bin": part for i, part in enumerate(fifths, 1)}
    parts["test_batch.bin"] = images.test
    return {k: (x.reshape(len(x), -1), y.tolist()) for k, (x, y) in parts.items()}


def binary(pixels: np.ndarray, labels: list[int]) -> bytes:
    return np.concatenate([np.asarray(labels, np.uint8)[:, None], pixels], axis=1).tobytes()


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar-10/{name}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def test_cifar_as_folder_and_as_archive(tmp_path: Path) -> None:
    images = drawn("cifar10")
    files = {name: binary(*part) for name, part in batches(images).items()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    same(images, read_small_images(tmp_path, "cifar10"))
    same(images, read_small_images(tmp_path / "test_batch.bin", "cifar10"))
    packed = archive(tmp_path / "cifar-10.tar.gz", files | {"readme.html": b"<p>"})
    same(images, read_small_images(packed, "cifar10"))
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(DataError, match="give cifar-10-binary"):
        read_small_images(tmp_path, "cifar10")


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, images: SmallImages, ending: str) -> None:
    for part, stem in ((images.train, "train"), (images.test, "t10k")):
        for what, array in (("images-idx3", part.images[:, 0]), ("labels-idx1", part.labels)):
            data = idx(array)
            path = folder / f"{stem}-{what}-ubyte{ending}"
            path.write_bytes(gzip.compress(data) if ending else data)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist_as_idx(tmp_path: Path, ending: str) -> None:
    images = drawn("mnist")
    write_idx(tmp_path, images, ending)
    same(images, read_small_images(tmp_path, "mnist"))
    same(images, read_small_images(tmp_path / f"train-images-idx3-ubyte{ending}", "mnist"))


@pytest.mark.parametrize("kind", ["cifar10", "mnist"])
@pytest.mark.parametrize("last", [False, True])
def test_npz_with_channels_first_or_last(tmp_path: Path, kind: Kind, last: bool) -> None:
    images = drawn(kind)
    arrays: dict[str, Any] = {"x_train": images.train.images, "x_test": images.test.images}
    if last:
        arrays = {name: array.transpose(0, 2, 3, 1) for name, array in arrays.items()}
    path = tmp_path / "images.npz"
    np.savez(path, y_train=images.train.labels, y_test=images.test.labels[:, None], **arrays)
    same(images, read_small_images(path, kind))


def test_what_grows_when_it_is_decompressed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("images", "cifar", "read"):
        monkeypatch.setattr(f"cxrtext.experiments.data.{module}.MOST_BYTES", 10_000)
    packed = archive(tmp_path / "cifar.tar.gz", {"big": bytes(20_000), "test_batch.bin": b""})
    np.savez_compressed(tmp_path / "big.npz", x_train=np.zeros(20_000, np.uint8))
    write_idx(tmp_path, drawn("mnist"), ".gz")
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(20_000)))
    kinds: list[tuple[Path, Kind]] = [
        (packed, "cifar10"), (tmp_path / "big.npz", "cifar10"), (tmp_path, "mnist")
    ]  # fmt: skip
    for path, kind in kinds:
        with pytest.raises(DataError, match=r"takes .* when it is decompressed"):
            read_small_images(path, kind)


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    images = drawn("mnist")

    def refused(name: str, kind: Kind, says: str) -> None:
        with pytest.raises(DataError, match=says):
            read_small_images(tmp_path / name, kind)

    refused("nowhere", "mnist", "nowhere: no such file or folder; give a folder with the")
    (tmp_path / "a.npz").write_bytes(b"text")
    refused("a.npz", "mnist", r"a.npz: not a readable .npz file")
    whole: dict[str, Any] = {"x_train": images.train.images, "y_train": images.train.labels}
    whole |= {"x_test": images.test.images, "y_test": images.test.labels}
    np.savez(tmp_path / "c.npz", **whole)
    refused("c.npz", "cifar10", r"cifar10 has 3 channel\(s\) of 32 × 32")
    np.savez(tmp_path / "d.npz", **whole | {"y_train": images.train.labels + 1})
    refused("d.npz", "mnist", "label 10 is no class")
    np.savez(tmp_path / "e.npz", **whole | {"y_test": images.train.labels})
    refused("e.npz", "mnist", "25 labels for 20 images")
    write_idx(tmp_path, images, "")
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    refused("", "mnist", "19 bytes, not the 20 of its header")
