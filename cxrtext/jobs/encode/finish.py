"""From the shards of an encode job to a folder of features: the list of images, and what it is."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from cxrtext.errors import CheckpointError, DataError, NotFoundError
from cxrtext.files.storage import Storage
from cxrtext.images.cache_store import READER_VERSION
from cxrtext.jobs.finishing import every_shard, records_by_shard, require_ready, shard_sizes
from cxrtext.jobs.plan import Plan
from cxrtext.jobs.shards import Shard, ShardFile, digest_of_names, read_shard
from cxrtext.models.features.folder import (
    COLUMNS,
    IMAGES,
    REJECTED,
    SIZES,
    FeatureFolder,
    FeatureShard,
    open_features,
    write_features,
)
from cxrtext.records import ImageRecord, RowWriter


def finish_encode(
    storage: Storage,
    folder: Path,
    plan: Plan,
    manifest: Path,
    max_rejected: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> FeatureFolder:
    """See that each image is there once, and make the folder one of features.

    Raises:
        DataError: Shards are missing, or too many images were rejected.
        CheckpointError: A shard is damaged, or of other images.
    """
    done = require_ready(storage, plan, max_rejected)
    shards = [
        FeatureShard(done[number].name, done[number].rows, done[number].digits)
        for number in range(plan.shards)
    ]
    with_features = _finished(folder)
    if with_features is not None and with_features.shards == shards:
        for shard in every_shard(storage, plan, done, None):  # what is damaged is made again
            progress(min((shard.number + 1) * plan.definition["--shard"], plan.rows), plan.rows)
        return with_features
    if not any(shard.rows for shard in shards):
        listed = write_rejected(storage, folder, plan, manifest, done)
        raise DataError(f"{manifest}: no image can be read; {listed} says why")
    shared = plan.shared
    _write_images(storage, folder, plan, manifest, done, progress)
    write_rejected(storage, folder, plan, manifest, done)
    height, width, channels = shared["shape"]
    write_features(
        folder,
        backbone=shared["backbone"],
        feature_map=shared["map_note"],
        views=plan.definition["--views"],
        shape=(height, width, channels),
        shards=shards,
        rejected=sum(file.rejected for file in done.values()),
        files={"map": shared["map"], "golden": shared["golden"]},
        more={
            "cxrtext": version("cxrtext"),
            "command": shared["command"],
            "manifest": plan.definition["manifest"],
            "rows": plan.rows,
            "reader": READER_VERSION,
            "seed": plan.definition["--seed"],
            "precision": plan.definition["--precision"],
        },
    )
    return open_features(folder)


def _finished(folder: Path) -> FeatureFolder | None:
    """The features that are there, with lists that are whole; None where they are to be made."""
    try:
        found = open_features(folder)
        found.check_lists()
    except (CheckpointError, NotFoundError):
        return None
    return found


def write_rejected(
    storage: Storage, folder: Path, plan: Plan, manifest: Path, done: Mapping[int, ShardFile]
) -> Path:
    """List the images that could not be read in ``rejected.csv``, with the reasons."""
    path = folder / REJECTED
    with RowWriter(path, {"item": "text", "reason": "text"}) as writer:
        if any(file.rejected for file in done.values()):
            for number, records in enumerate(records_by_shard(plan, manifest)):
                if number in done and done[number].rejected:
                    shard = read_shard(storage, plan.digest, done[number])
                    for place, reason in sorted(shard.rejected.items()):
                        writer.write({"item": records[place].name, "reason": reason})
    return path


def _write_images(
    storage: Storage,
    folder: Path,
    plan: Plan,
    manifest: Path,
    done: Mapping[int, ShardFile],
    progress: Callable[[int, int], None],
) -> None:
    size = plan.definition["--shard"]
    with RowWriter(folder / IMAGES, COLUMNS) as writer:
        shards = every_shard(storage, plan, done, shard_sizes(plan))
        for shard, records in zip(shards, records_by_shard(plan, manifest), strict=True):
            number = shard.number
            _require_images(storage, done[number], shard, records)
            for row, place in enumerate(shard.places):
                height, width = map(int, shard.arrays[SIZES][row])
                name = records[place].name
                writer.write(
                    {"image": name, "shard": number, "row": row, "height": height, "width": width}
                )
            progress(min((number + 1) * size, plan.rows), plan.rows)


def _require_images(
    storage: Storage, file: ShardFile, shard: Shard, records: list[ImageRecord]
) -> None:
    if digest_of_names(records[place].name for place in shard.places) != shard.about["images"]:
        raise CheckpointError(
            f"{storage.address}: {file.name} is of other images; remove it, and run the same "
            "command again"
        )
