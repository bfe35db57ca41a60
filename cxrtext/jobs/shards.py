"""The files of a job: shards, which are arrays and what they are of, and what these share.

``shards/000012.509.3.0123456789abcdef.safetensors`` is shard 12 with 509 rows and 3 rejected ones,
and its bytes have a SHA-256 that begins so.  A list of names therefore says how far a job is, and a
shard that is not what was written is known when it is read.
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
    """A shard is not what was written."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard that was committed, as its name says it."""

    name: str  # below the job's folder
    number: int  # from 0
    rows: int
    rejected: int
    digits: str  # the beginning of its SHA-256


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    places: list[int]  # of its rows in the plan's shard, rising; one row of each array a place
    rejected: dict[int, str]  # the other places, and why
    about: Mapping[str, Any]  # what the kind of job notes beside
    arrays: Mapping[str, NDArray[Any]]


def commit(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file of a job whole or not at all, in a folder for its owner alone.

    ``new`` refuses (FileExistsError) a path that is there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path, new=new) as temporary:
        temporary.write_bytes(data)


def committed(folder: Path) -> dict[int, ShardFile]:
    """The shards that are there, by number.

    Where two machines made one, with other last bits or one of them without rows that ended its
    process, the one with the fewest rejected rows counts for everyone, and then the first by name.
    """
    found: dict[int, ShardFile] = {}
    for path in sorted((folder / FOLDER).glob("*")):
        if (match := _NAME.fullmatch(path.name)) is None:
            continue
        number, rows, rejected = map(int, match.groups()[:3])
        shard = ShardFile(f"{FOLDER}/{path.name}", number, rows, rejected, match[4])
        if number not in found or rejected < found[number].rejected:
            found[number] = shard
    return found


def commit_shard(folder: Path, job: str, shard: Shard) -> ShardFile:
    """Commit a shard of the job of a digest; the same shard has the same bytes."""
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
    # One entry only: safetensors writes several in no fixed order.
    data = save(arrays, metadata={_HEADER: json.dumps(header, sort_keys=True, ensure_ascii=False)})
    digits = _digits(data)
    rows, rejected = len(shard.places), len(shard.rejected)
    name = f"{FOLDER}/{shard.number:06d}.{rows}.{rejected}.{digits}.safetensors"
    commit(folder / name, data)
    return ShardFile(name, shard.number, rows, rejected, digits)


def read_shard(folder: Path, job: str, file: ShardFile) -> Shard:
    """Read a shard; a damaged one is removed, so that it is made again (DamagedShardError)."""
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
            f"{folder}: {file.name} is of another job; remove it, and start the job again to make "
            "it"
        )
    rejected = {int(place): str(reason) for place, reason in header["rejected"]}
    return Shard(file.number, header["places"], rejected, header["about"], load(data))


def commit_named(folder: Path, stem: str, data: bytes) -> str:
    """Commit a file that shards share, named by its digest: two that begin a job write two."""
    name = f"{stem}.{_digits(data)}.safetensors"
    commit(folder / name, data)
    return name


def read_named(folder: Path, name: str) -> bytes:
    data = (folder / name).read_bytes()
    if name.split(".")[-2] != _digits(data):
        raise CheckpointError(f"{folder}: {name} is damaged; start the job anew in another folder")
    return data


def _digits(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def damaged(folder: Path, names: Sequence[str]) -> CheckpointError:
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return DamagedShardError(
        f"{folder}: {len(names)} shard(s) are damaged ({some}) and were removed; run the same "
        "command again, which makes them again"
    )
