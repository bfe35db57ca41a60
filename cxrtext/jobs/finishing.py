"""What finishing a job of any kind needs: all shards, checked, and the tables it was begun with."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files.storage import Storage
from cxrtext.jobs.plan import Definition, Plan, slices
from cxrtext.jobs.shards import DamagedShardError, Shard, ShardFile, committed, damaged, read_shard
from cxrtext.records import ImageRecord, stream_manifest


def require_ready(storage: Storage, plan: Plan, max_rejected: int) -> dict[int, ShardFile]:
    """The shards of a job that can be finished; says at once what would end the work after hours.

    Raises:
        DataError: Some are missing, or too many rows were rejected.
    """
    done = committed(storage)
    missing = [number for number in range(plan.shards) if number not in done]
    if missing:
        some = ", ".join(map(str, missing[:3])) + (", …" if len(missing) > 3 else "")
        raise DataError(
            f"{storage.address}: {len(missing)} of {plan.shards} shards are missing ({some}); run "
            f"'{plan.command}' again until 'cxrtext job status' says that all are there"
        )
    rejected = sum(file.rejected for file in done.values())
    if rejected > max_rejected:
        raise DataError(
            f"{storage.address}: {rejected} rows were rejected, more than --max-rejected "
            f"{max_rejected}; with a higher limit they are listed beside the output, each with its "
            "reason"
        )
    return done


def shard_sizes(plan: Plan) -> list[int]:
    """How many images each shard of a manifest has."""
    return [end - start for start, end in slices(plan.rows, plan.definition["--shard"])]


def records_by_shard(plan: Plan, manifest: Path) -> Iterator[list[ImageRecord]]:
    """The images of each shard, in order, read as they are wanted."""
    records = stream_manifest(manifest, allow_outside=plan.shared["allow_outside"])
    for _ in range(plan.shards):
        yield list(islice(records, plan.definition["--shard"]))


def every_shard(
    storage: Storage, plan: Plan, done: Mapping[int, ShardFile], sizes: Sequence[int] | None
) -> Iterator[Shard]:
    """Read the shards of a job in order, each checked by its digest.

    Args:
        done: What :func:`require_ready` gave.
        sizes: Rows of each shard: its places are then every one of them exactly once.

    Raises:
        CheckpointError: One is damaged, or has a row twice or not at all.
    """
    removed: list[str] = []
    for number in range(plan.shards):
        try:
            shard = read_shard(storage, plan.digest, done[number])
        except DamagedShardError:
            removed.append(done[number].name)
        if removed:  # the others are looked at still: then one start makes all of them again
            continue
        if sizes is not None:
            places = sorted([*shard.places, *shard.rejected])
            if places != list(range(sizes[number])):
                raise CheckpointError(
                    f"{storage.address}: shard {number} does not have each of its rows once; "
                    "remove it, and start the job again"
                )
        yield shard
    if removed:
        raise damaged(storage, removed)


def require_same(
    storage: Storage, plan: Plan, now: Mapping[str, object], names: Iterable[str]
) -> None:
    """Refuse to finish a job with another table or model than it was begun with (DataError)."""
    definition: Definition = plan.definition
    for name in names:
        if definition[name] != now[name]:
            raise DataError(
                f"{storage.address}: the {name} is another one than when the job was begun; name "
                "the former, or start the job anew"
            )
