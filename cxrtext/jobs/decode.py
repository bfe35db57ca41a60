"""``cxrtext job decode``: the images of a manifest as 8-bit squares, and a cache filled with them.

Training and indexing then read the cache and decode nothing.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache, DecodedFile, digest_of
from cxrtext.images.cache_store import READER_VERSION, Stamp, stamp_of
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.jobs.driver import Running
from cxrtext.jobs.engines.engine import Task
from cxrtext.jobs.kind import (
    SHARD,
    ImageKind,
    ImageWorkers,
    Make,
    Work,
    digest_of_images,
    every_shard_of_images,
    ready_job,
    require_same,
)
from cxrtext.jobs.plan import Contents, Definition, Plan, digest_of_table
from cxrtext.jobs.shards import Shard
from cxrtext.jobs.status import JobStatus
from cxrtext.records import Rejects, checked_manifest

KIND = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions(ImageWorkers):
    resize: int = 512  # side of the squares, as ``data.resize`` of a training, in pixels


@dataclass(frozen=True, slots=True)
class DecodeWork(Work):
    readers: int = 1  # processes that decode

    kind = KIND

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Make]:
        size = int(plan.definition["--resize"])
        with closing(ReaderPool(self.readers)) as pool:
            yield partial(_decoded, Preprocessing(resize=size, crop=size), pool)


def _looked_at(path: Path) -> tuple[Stamp | None, bytes | None]:
    stamp = stamp_of(path)
    digest = digest_of(path) if stamp else None
    return (stamp, digest) if stamp == stamp_of(path) else (None, None)


def _decoded(preprocessing: Preprocessing, pool: ReaderPool, task: Task) -> Shard:
    paths = [Path(path) for path, _ in task.rows]
    rejected: dict[int, str] = {}
    places: list[int] = []
    squares, numbers, digests = [], [], []
    with ThreadPoolExecutor(2) as threads:
        looked = threads.map(_looked_at, paths)
        given = zip(paths, looked, pool.map(paths, square=preprocessing), strict=True)
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
    return Shard(task.number, places, rejected, {"images": digest_of_images(task, places)}, arrays)


class _Decode(ImageKind):
    name = KIND

    def __init__(self, address: str, manifest: Path, options: DecodeOptions) -> None:
        super().__init__(address, manifest, options, options.shard or SHARD)
        self._options = options

    def definition(self) -> Definition:
        return {
            "manifest": digest_of_table(self.manifest),
            "--resize": self._options.resize,
            "--shard": self.images_a_shard,
            "version of the image reader": READER_VERSION,
        }

    def contents(self) -> Contents:
        outside = self._options.allow_outside
        rows = sum(1 for _ in checked_manifest(self.manifest, allow_outside=outside))
        return self.contents_of(rows, {})

    def work(self) -> DecodeWork:
        return DecodeWork(self.storage.location, self._options.readers)


def decode_job(
    manifest: Path,
    address: str,
    options: DecodeOptions | None = None,
    running: Running | None = None,
) -> JobStatus:
    """Decode the images of a manifest in shards; a job that was stopped goes on."""
    options = options or DecodeOptions()
    Preprocessing(resize=options.resize, crop=options.resize)  # refuses what is out of range
    return _Decode(address, manifest, options).run(running)


@dataclass(frozen=True, slots=True)
class FinishedDecoding:
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
    """Fill a cache of decoded images with the shards of a decode job."""
    made = ready_job(address, KIND, max_rejected)
    plan = made.plan
    manifest = manifest or Path(plan.shared["source"])
    now = {"manifest": digest_of_table(manifest), "version of the image reader": READER_VERSION}
    require_same(made, now)
    rejects = Rejects(max_rejected)

    def files() -> Iterator[DecodedFile]:
        seen = 0
        for shard, records in every_shard_of_images(made, manifest, rejects):
            for i, place in enumerate(shard.places):
                height, width, *stamp = map(int, shard.arrays["files"][i])
                image = ReadImage(shard.arrays["squares"][i][np.newaxis], height, width)
                digest = shard.arrays["digests"][i].tobytes()
                yield DecodedFile(records[place].path, Stamp(*stamp), digest, image)
            seen += len(records)
            progress(seen, plan.rows)

    added = DecodedCache(out, say).take(int(plan.definition["--resize"]), files())
    return FinishedDecoding(plan.rows, added, len(rejects.rows), rejects.write(out))
