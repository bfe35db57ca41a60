"""Which shard of an index a study is in: its images, sentences and patients stay together."""

import hashlib


def shard_of(study_id: str, shards: int) -> int:
    """The shard of a study, from 0 to ``shards`` - 1; the same on every machine.

    Studies spread evenly, and with twice the shards each shard becomes two.
    """
    if shards < 1:
        raise ValueError(f"shards must be at least 1, got {shards}")
    digest = hashlib.blake2b(study_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * shards >> 64


def shard_name(number: int, shards: int) -> str:
    """The folder of a shard below that of the whole index, such as ``shard-00003-of-00010``."""
    return f"shard-{number:05d}-of-{shards:05d}"
