"""CIFAR-10 as the binary version on its page has it: files in a folder or a .tar.gz."""

import tarfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from cxrtext.errors import DataError
from cxrtext.experiments.data.images import (
    MOST_BYTES,
    Array,
    SmallImages,
    assemble,
    read_bytes,
    read_stream,
)

TRAINING = frozenset(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = "test_batch.bin"
WANTED = TRAINING | {TEST}
RECORD = 1 + 3 * 32 * 32
"""Bytes of an image: its class, then its planes."""


def _join(source: Path, files: Mapping[str, bytes]) -> SmallImages:
    """The batches that are there; the five of training need not be complete."""
    if TRAINING.isdisjoint(files) or TEST not in files:
        raise DataError(f"{source}: holds no {min(TRAINING)} and {TEST}; give all of CIFAR-10")

    def part(names: Iterable[str]) -> tuple[Array, Array]:
        data = b"".join(files[name] for name in sorted(names))
        if not data or len(data) % RECORD:
            raise DataError(
                f"{source}: {len(data)} bytes are no whole number of images of {RECORD} bytes; get "
                "the files again"
            )
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, RECORD)
        return rows[:, 1:], rows[:, 0]

    return assemble(source, "cifar10", part(TRAINING & files.keys()), part([TEST]))


def read_cifar_folder(folder: Path) -> SmallImages:
    """Read a folder of ``data_batch_1.bin`` … ``test_batch.bin``."""
    there = (path for path in folder.iterdir() if path.name in WANTED)
    return _join(folder, {path.name: read_bytes(path) for path in there})


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
            stream = archive.extractfile(member) if name in WANTED else None
            if stream is not None:
                found[name] = read_stream(f"{path}: {name}", stream, member.size)
    return found


def read_cifar_archive(path: Path) -> SmallImages:
    try:
        return _join(path, _members(path))
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a readable archive ({type(error).__name__}); get the file again"
        ) from None
