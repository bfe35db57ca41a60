"""A shard as a file: arrays, what they are of, and the digest of it all in its name.

``shards/000012.509.3.0123456789abcdef.safetensors`` is shard 12 with 509 rows and 3 rejected ones,
and its bytes have a SHA-256 that begins so.  A list of names therefore says how far a job is, and a
shard that is not what was written is known when it is read.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError
from cxrtext.files.digests import DIGITS
from cxrtext.files.storage import Storage

FOLDER = "shards/"
FORMAT = "cxrtext shard"
_NAME = re.compile(rf"shards/(\d{{6,}})\.(\d+)\.(\d+)\.([0-9a-f]{{{DIGITS}}})\.safetensors")
_HEADER = "shard"  # the one entry of the file's metadata
_LENGTH_BYTES = 8


class DamagedShardError(CheckpointError):
    """A shard is not what was written."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard that was committed, as its name says it."""

    name: str
    number: int  # from 0
    rows: int
    rejected: int
    digits: str  # the beginning of its SHA-256

    @classmethod
    def of(cls, name: str) -> "ShardFile | None":
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        number, rows, rejected = map(int, found.groups()[:3])
        return cls(name, number, rows, rejected, found[4])


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    places: list[int]  # of its rows in the plan's shard, rising; one row of each array a place
    rejected: dict[int, str]  # the other places, and why
    about: Mapping[str, Any]  # what the kind of job notes beside
    arrays: Mapping[str, NDArray[Any]]


def digest_of_names(names: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()


def committed(storage: Storage) -> dict[int, ShardFile]:
    """The shards that are there, by number.

    Where two machines made one, with other last bits or one of them without rows that ended its
    process, the one with the fewest rejected rows counts for everyone, and then the first by name.
    """
    found: dict[int, ShardFile] = {}
    for name in storage.names(FOLDER):
        if (shard := ShardFile.of(name)) is None:
            continue
        before = found.setdefault(shard.number, shard)
        if shard.rejected < before.rejected:
            found[shard.number] = shard
    return found


def commit_shard(storage: Storage, job: str, shard: Shard) -> ShardFile:
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
    digits = hashlib.sha256(data).hexdigest()[:DIGITS]
    rows, rejected = len(shard.places), len(shard.rejected)
    name = f"{FOLDER}{shard.number:06d}.{rows}.{rejected}.{digits}.safetensors"
    storage.commit(name, data)
    return ShardFile(name, shard.number, rows, rejected, digits)


def read_shard(storage: Storage, job: str, file: ShardFile) -> Shard:
    """Read a shard; a damaged one is removed, so that it is made again (DamagedShardError)."""
    from safetensors.numpy import load

    data = storage.read(file.name)
    if hashlib.sha256(data).hexdigest()[:DIGITS] != file.digits:
        storage.remove(file.name)
        raise damaged(storage, [file.name])
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    outer = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    header = json.loads(outer["__metadata__"][_HEADER])
    if header["job"] != job or header["number"] != file.number:
        raise CheckpointError(
            f"{storage.folder}: {file.name} is of another job; remove it, and start the job again "
            "to make it"
        )
    rejected = {int(place): str(reason) for place, reason in header["rejected"]}
    return Shard(file.number, header["places"], rejected, header["about"], load(data))


def commit_named(storage: Storage, stem: str, data: bytes) -> str:
    """Commit a file that shards share, named by its digest: two that begin a job write two."""
    name = f"{stem}.{hashlib.sha256(data).hexdigest()[:DIGITS]}.safetensors"
    storage.commit(name, data)
    return name


def read_named(storage: Storage, name: str) -> bytes:
    data = storage.read(name)
    if name.split(".")[-2] != hashlib.sha256(data).hexdigest()[:DIGITS]:
        raise CheckpointError(
            f"{storage.folder}: {name} is damaged; start the job anew in another folder"
        )
    return data


def damaged(storage: Storage, names: Sequence[str]) -> CheckpointError:
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return DamagedShardError(
        f"{storage.folder}: {len(names)} shard(s) are damaged ({some}) and were removed; run the "
        "same command again, which makes them again"
    )
