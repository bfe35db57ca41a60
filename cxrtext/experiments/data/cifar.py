"""CIFAR-10 as its page has it: Python pickles, in a folder or a .tar.gz.

A pickle may name any function to be called: only what NumPy arrays are made of is let through.
"""

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import (
    MOST_BYTES,
    SmallImages,
    assemble,
    read_bytes,
    read_stream,
)

TRAINING = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"
VALUES = 3 * 32 * 32  # of an image
Batch = tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], list[int]]


class _RefusedError(pickle.UnpicklingError):
    """What is named in a pickle and not let through."""


def _reconstruct(kind: Any, shape: Any, code: Any) -> Any:
    if kind is not np.ndarray or shape != (0,):  # the state that follows has the shape
        raise _RefusedError("an array of an odd shape")
    return np.ndarray.__new__(np.ndarray, shape, code)


def _latin(text: str, encoding: str) -> bytes:
    # Python 3 writes bytes of protocol 2 as text with its encoding.
    if encoding != "latin1":
        raise _RefusedError("text of an odd encoding")
    return text.encode("latin1")


_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin,
}


class _Arrays(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = _ALLOWED.get((module_name, global_name))
        if found is None:
            raise _RefusedError(f"{module_name}.{global_name}")
        return found


def _unpickled(source: Path | str, data: bytes) -> dict[str, Any]:
    """The mapping by name in a pickle, also Python 2's, of plain values and numeric arrays."""
    try:
        value = _Arrays(io.BytesIO(data), encoding="bytes").load()
    except _RefusedError as error:
        raise DataError(
            f"{source}: holds more than arrays ({error}), so it is not opened; give the data as "
            "the CIFAR-10 page has them, or as .npz"
        ) from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle may raise anything
        raise DataError(
            f"{source}: not a readable pickle ({type(error).__name__}); get the file again"
        ) from None
    if not isinstance(value, dict):
        raise DataError(f"{source}: holds no batch of images; give a CIFAR-10 file")
    return {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in value.items()}


def _pickled(source: str, data: bytes) -> Batch:
    batch = _unpickled(source, data)
    pixels, labels = batch.get("data"), batch.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or labels is None:
        raise DataError(f"{source}: holds no 'data' and 'labels'; give a CIFAR-10 batch")
    if pixels.ndim != 2 or pixels.shape[1] != VALUES:
        raise DataError(f"{source}: data are {list(pixels.shape)}, not [n, {VALUES}]")
    if len(labels) != len(pixels):
        raise DataError(f"{source}: {len(labels)} labels for {len(pixels)} images")
    return pixels, [int(label) for label in labels]


def _join(source: Path, read: Callable[[str], Batch | None]) -> SmallImages:
    """Read the batches that are there; the five of training need not be complete."""
    training = [batch for name in TRAINING if (batch := read(name)) is not None]
    test = read(TEST)
    if not training or test is None:
        raise DataError(f"{source}: holds no {TRAINING[0]} and {TEST}; give all files of CIFAR-10")
    pixels = np.concatenate([batch[0] for batch in training])
    labels = [label for batch in training for label in batch[1]]
    return assemble(source, "cifar10", (pixels, np.asarray(labels)), (test[0], np.asarray(test[1])))


def read_cifar_folder(folder: Path) -> SmallImages:
    """Read a folder of ``data_batch_1`` … ``test_batch``."""

    def read(name: str) -> Batch | None:
        path = folder / name
        return _pickled(str(path), read_bytes(path)) if path.is_file() else None

    return _join(folder, read)


def is_cifar_folder(folder: Path) -> bool:
    return (folder / TEST).is_file()


def _members(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    room = MOST_BYTES
    with path.open("rb") as handle, tarfile.open(fileobj=handle, mode="r|*") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            # A stream skips what stands between by decompressing it, so that counts as well.
            room -= member.size
            if room < 0:
                raise DataError(
                    f"{path}: takes more than {MOST_BYTES} bytes when it is decompressed; this is "
                    "no set of small images"
                )
            stream = (
                archive.extractfile(member)
                if member.isfile() and name in (*TRAINING, TEST)
                else None
            )
            if stream is not None:
                found[name] = read_stream(f"{path}: {name}", stream, member.size)
    return found


def read_cifar_archive(path: Path) -> SmallImages:
    try:
        members = _members(path)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a readable archive ({type(error).__name__}); get the file again"
        ) from None

    def read(name: str) -> Batch | None:
        return _pickled(f"{path}: {name}", members[name]) if name in members else None

    return _join(path, read)
