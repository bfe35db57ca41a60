"""CIFAR-10 as its page has it: Python pickles or binary files, in a folder or a .tar.gz."""

import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np

from cxrtext.datasets.small.images import SmallImages, assemble
from cxrtext.datasets.small.limits import MOST_BYTES, read_bytes, read_stream
from cxrtext.datasets.small.unpickling import unpickle_arrays
from cxrtext.errors import DataError

TRAINING = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"
RECORD = 1 + 3 * 32 * 32
"""Bytes of an image in a binary file: its class, then its planes."""

Batch = tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], list[int]]


def _pickled(source: str, data: bytes) -> Batch:
    batch = unpickle_arrays(source, data)
    pixels, labels = batch.get("data"), batch.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or labels is None:
        raise DataError(f"{source}: holds no 'data' and 'labels'; give a CIFAR-10 batch")
    if pixels.ndim != 2 or pixels.shape[1] != RECORD - 1:
        raise DataError(f"{source}: data are {list(pixels.shape)}, not [n, {RECORD - 1}]")
    if len(labels) != len(pixels):
        raise DataError(f"{source}: {len(labels)} labels for {len(pixels)} images")
    return pixels, [int(label) for label in labels]


def _binary(source: str, data: bytes) -> Batch:
    if not data or len(data) % RECORD:
        raise DataError(
            f"{source}: {len(data)} bytes are no whole number of images of {RECORD} bytes; get "
            "the file again"
        )
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, RECORD)
    return rows[:, 1:], rows[:, 0].tolist()


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
    """Read a folder of ``data_batch_1`` … ``test_batch``, pickled or with the ending ``.bin``.

    Raises:
        DataError: A file is missing or wrong.
    """

    def read(name: str) -> Batch | None:
        for path, decode in ((folder / name, _pickled), (folder / f"{name}.bin", _binary)):
            if path.is_file():
                return decode(str(path), read_bytes(path))
        return None

    return _join(folder, read)


def is_cifar_folder(folder: Path) -> bool:
    """Whether a folder holds the files of CIFAR-10."""
    return any((folder / f"{TEST}{ending}").is_file() for ending in ("", ".bin"))


def _members(path: Path) -> dict[str, bytes]:
    """The batches in an archive, by their file's name; nothing is written to disk."""
    wanted = {f"{name}{ending}" for name in (*TRAINING, TEST) for ending in ("", ".bin")}
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
            stream = archive.extractfile(member) if member.isfile() and name in wanted else None
            if stream is not None:
                found[name] = read_stream(f"{path}: {name}", stream, member.size)
    return found


def read_cifar_archive(path: Path) -> SmallImages:
    """Read ``cifar-10-python.tar.gz`` or ``cifar-10-binary.tar.gz`` as it was downloaded.

    Raises:
        DataError: The archive is damaged, too large, or lacks a file.
    """
    try:
        members = _members(path)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a readable archive ({type(error).__name__}); get the file again"
        ) from None

    def read(name: str) -> Batch | None:
        if name in members:
            return _pickled(f"{path}: {name}", members[name])
        binary = f"{name}.bin"
        return _binary(f"{path}: {binary}", members[binary]) if binary in members else None

    return _join(path, read)
