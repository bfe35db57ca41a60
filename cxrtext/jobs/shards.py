"""The files of a job: shards, which are arrays with their images' places, and what these share.

``shards/000012.509.3.0123456789abcdef.safetensors`` is shard 12 with 509 rows, 3 rejected ones, and
these first digits of its SHA-256.  So a list of names shows the progress of a job, and damage to a
shard is noticed when it is read.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.files import remove_file, replacing
from cxrtext.files.digests import DIGITS

FOLDER = "shards"
FORMAT = "cxrtext shard"
_NAME = re.compile(rf"(\d{{6,}})\.(\d+)\.(\d+)\.([0-9a-f]{{{DIGITS}}})\.safetensors")
_HEADER = "shard"  # the one entry of the file's metadata
_LENGTH_BYTES = 8


class DamagedShardError(CheckpointError):
    """A shard is damaged."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A committed shard, as described by its name."""

    name: str  # below the job's folder
    number: int  # from 0
    rows: int
    rejected: int
    digits: str  # the beginning of its SHA-256


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    places: list[int]  # of its images in the shard, rising; each array has one row per place
    rejected: dict[int, str]  # the other places, and why
    about: Mapping[str, Any]  # more notes of the kind of job
    arrays: Mapping[str, NDArray[Any]]


def commit(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file of a job completely or not at all, in a folder that only its owner may read.

    ``new`` refuses a path that exists (FileExistsError).
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path, new=new) as temporary:
        temporary.write_bytes(data)


def committed(folder: Path) -> dict[int, ShardFile]:
    """The shards that are there, by number.

    Two machines may have made one with different last bits, or one of them without rows that ended
    its process.  Then the one with the fewest rejected rows counts, or else the first by name.
    """
    shards: dict[int, ShardFile] = {}
    for path in sorted((folder / FOLDER).glob("*")):
        if (match := _NAME.fullmatch(path.name)) is None:
            continue
        number, rows, rejected = map(int, match.groups()[:3])
        shard = ShardFile(f"{FOLDER}/{path.name}", number, rows, rejected, match[4])
        if number not in shards or rejected < shards[number].rejected:
            shards[number] = shard
    return shards


def commit_shard(folder: Path, job: str, shard: Shard) -> ShardFile:
    """Commit a shard of the job with a digest; equal shards have equal bytes."""
    from safetensors.numpy import save

    header = {
        "format": FORMAT,
        "job": job,
        "number": shard.number,
        "rows": len(shard.places),
        "places": shard.places,
        "rejected": sorted(shard.rejected.items()),
        "about": dict(shard.about),
    }
    arrays = {name: np.ascontiguousarray(values) for name, values in shard.arrays.items()}
    # Only one entry, as safetensors writes several in no fixed order.
    data = save(arrays, metadata={_HEADER: json.dumps(header, sort_keys=True, ensure_ascii=False)})
    digits = _digits(data)
    rows, rejected = len(shard.places), len(shard.rejected)
    name = f"{FOLDER}/{shard.number:06d}.{rows}.{rejected}.{digits}.safetensors"
    commit(folder / name, data)
    return ShardFile(name, shard.number, rows, rejected, digits)


def read_shard(folder: Path, job: str, file: ShardFile) -> Shard:
    """Read a shard; a damaged one is removed, to be made again (DamagedShardError)."""
    from safetensors.numpy import load

    data = (folder / file.name).read_bytes()
    if _digits(data) != file.digits:
        remove_file(folder / file.name)
        raise damaged(folder, [file.name])
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    outer = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    header = json.loads(outer["__metadata__"][_HEADER])
    if header["job"] != job or header["number"] != file.number:
        raise CheckpointError(
            f"{folder}: {file.name} is from another job; remove it, and start the job again"
        )
    rejected = {int(place): str(reason) for place, reason in header["rejected"]}
    return Shard(file.number, header["places"], rejected, header["about"], load(data))


def commit_named(folder: Path, stem: str, data: bytes) -> str:
    """Commit a file that shards share, named by its digest, as two machines may write two."""
    name = f"{stem}.{_digits(data)}.safetensors"
    commit(folder / name, data)
    return name


def read_named(folder: Path, name: str) -> bytes:
    data = (folder / name).read_bytes()
    if name.split(".")[-2] != _digits(data):
        raise CheckpointError(f"{folder}: {name} is damaged; start the job again in another folder")
    return data


def _digits(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def damaged(folder: Path, names: Sequence[str]) -> CheckpointError:
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return DamagedShardError(
        f"{folder}: {len(names)} shard(s) are damaged ({some}) and were removed; run the same "
        "command again to make them again"
    )
