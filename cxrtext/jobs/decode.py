"""``cxrtext job decode``: the images of a manifest as 8-bit squares, and a cache filled with them.

Training and indexing then read the cache and decode nothing.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.files.storage import Storage, open_storage
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache, DecodedFile, digest_of
from cxrtext.images.cache_store import READER_VERSION, Stamp, stamp_of
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.jobs.driver import Running, drive, image_tasks
from cxrtext.jobs.engines import open_engine
from cxrtext.jobs.engines.engine import Start, Task, readers_for
from cxrtext.jobs.finishing import (
    every_shard,
    records_by_shard,
    require_ready,
    require_same,
    shard_sizes,
)
from cxrtext.jobs.kept import Kept
from cxrtext.jobs.plan import Plan, begin, begun, digest_of_table, plan_file, read_plan
from cxrtext.jobs.shards import Shard, commit_shard
from cxrtext.jobs.status import JobStatus
from cxrtext.records import Rejects, checked_manifest, stream_manifest

KIND = "decode"
SHARD = 500
START_S, IMAGE_S = 300.0, 5.0
"""What a worker may take for a shard and for each of its images before it counts as lost."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What comes out, and who does it."""

    resize: int = 512  # side of the squares, as ``data.resize`` of a training, in pixels
    allow_outside: bool = False  # whether images may lie outside the manifest's folder
    shard: int = SHARD  # images a shard
    workers: int | None = None  # None: one a core
    engine: str = "local"
    cluster: str | None = None  # address of one that runs, for the engine "dask"


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Decodes the images of a task and commits their shard."""

    address: str  # of the job
    readers: int = 1  # processes that decode

    def __call__(self, task: Task) -> None:
        """Make a shard."""
        storage, plan, pool = _opened(self)
        size = int(plan.definition["--resize"])
        shard = _decoded(task, Preprocessing(resize=size, crop=size), pool)
        commit_shard(storage, plan.digest, shard)


def _open(work: DecodeWork) -> tuple[Storage, Plan, ReaderPool]:
    storage = open_storage(work.address)
    return storage, read_plan(storage, KIND), ReaderPool(work.readers)


_opened = Kept(_open, lambda opened: opened[2].close())


def _looked_at(path: Path) -> tuple[Stamp | None, bytes | None]:
    stamp = stamp_of(path)
    digest = digest_of(path) if stamp else None
    return (stamp, digest) if stamp == stamp_of(path) else (None, None)


def _decoded(task: Task, preprocessing: Preprocessing, pool: ReaderPool) -> Shard:
    paths = [Path(path) for path, _ in task.rows]
    rejected: dict[int, str] = {}
    places: list[int] = []
    squares, numbers, digests = [], [], []
    with ThreadPoolExecutor(2) as threads:
        looked = threads.map(_looked_at, paths)
        read = pool.map(paths, square=preprocessing)
        given = zip(paths, looked, read, strict=True)
        for place, (path, (stamp, digest), image) in enumerate(given):
            if isinstance(image, ImageError):
                rejected[place] = str(image)
            elif stamp is None or digest is None or stamp_of(path) != stamp:
                rejected[place] = (
                    f"{path}: changed while it was read; run again when it is complete"
                )
            else:
                places.append(place)
                squares.append(image.pixels)
                numbers.append((image.height, image.width, *stamp))
                digests.append(np.frombuffer(digest, np.uint8))
    arrays: dict[str, Any] = {}
    if places:
        arrays = {
            "squares": np.concatenate(squares),
            "files": np.array(numbers, np.int64),
            "digests": np.stack(digests),
        }
    return Shard(task.number, places, rejected, {}, arrays)


def decode_job(
    manifest: Path,
    address: str,
    options: DecodeOptions | None = None,
    running: Running | None = None,
    *,
    start: Start | None = None,
) -> JobStatus:
    """Decode the images of a manifest in shards; a job that was stopped goes on.

    Arguments and errors are those of :func:`cxrtext.jobs.embed.embed_job`.
    """
    options, running = options or DecodeOptions(), running or Running()
    Preprocessing(resize=options.resize, crop=options.resize)  # refuses what is out of range
    storage = open_storage(address)
    definition = {
        "manifest": digest_of_table(manifest),
        "--resize": options.resize,
        "--shard": options.shard,
        "version of the image reader": READER_VERSION,
    }
    plan = begun(storage, KIND, definition)
    if plan is None:
        rows = sum(1 for _ in checked_manifest(manifest, allow_outside=options.allow_outside))
        shared = {"source": str(manifest.resolve()), "allow_outside": options.allow_outside}
        shards = -(-rows // options.shard)
        plan = begin(storage, KIND, definition, rows=rows, shards=shards, shared=shared)
    work = DecodeWork(storage.location, readers_for(options.workers, options.cluster))
    records = partial(stream_manifest, manifest, allow_outside=options.allow_outside)
    seen = [manifest, *plan_file(storage), next(records()).path]
    chosen = start or (
        lambda work: open_engine(
            options.engine, work, options.workers, address=options.cluster, shared=seen
        )
    )
    tasks = image_tasks(records(), options.shard, START_S, IMAGE_S)
    return drive(storage, plan, tasks, lambda: chosen(work), running)


@dataclass(frozen=True, slots=True)
class FinishedDecoding:
    """What ``finish`` made of a decode job."""

    planned: int  # images of the manifest
    added: int  # squares that the cache did not have; equal files have one
    rejected: int
    rejected_list: Path | None


def finish_decode(
    address: str,
    out: Path,
    *,
    manifest: Path | None = None,
    max_rejected: int = 100,
    say: Callable[[str], None] = lambda _: None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> FinishedDecoding:
    """Fill a cache of decoded images with the shards of a decode job.

    Raises:
        DataError: Shards are missing, the manifest is another one, too many images were rejected,
            or the folder cannot be written.
        CheckpointError: A shard is damaged.
        WorkError: The disk is full, or another process adds to the cache.
    """
    storage = open_storage(address)
    plan = read_plan(storage, KIND)
    done = require_ready(storage, plan, max_rejected)
    manifest = manifest or Path(plan.shared["source"])
    now = {"manifest": digest_of_table(manifest), "version of the image reader": READER_VERSION}
    require_same(storage, plan, now, now)
    rejects = Rejects(max_rejected)

    def files() -> Iterator[DecodedFile]:
        shards, seen = every_shard(storage, plan, done, shard_sizes(plan)), 0
        for shard, records in zip(shards, records_by_shard(plan, manifest), strict=True):
            for place, reason in sorted(shard.rejected.items()):
                rejects.add(records[place].name, reason)
            for i, place in enumerate(shard.places):
                height, width, *stamp = map(int, shard.arrays["files"][i])
                square = shard.arrays["squares"][i][np.newaxis]
                digest = shard.arrays["digests"][i].tobytes()
                image = ReadImage(square, height, width)
                yield DecodedFile(records[place].path, Stamp(*stamp), digest, image)
            seen += len(records)
            progress(seen, plan.rows)

    added = DecodedCache(out, say).take(int(plan.definition["--resize"]), files())
    return FinishedDecoding(plan.rows, added, len(rejects.rows), rejects.write(out))
