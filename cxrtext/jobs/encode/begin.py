"""Before the first shard: what is asked for, what encoding it takes, and the map of features.

A sample of the training images stands for all: of some the time is measured, and all are what the
map is fitted to.  Which they are follows from the seed and their names.
"""

import hashlib
import heapq
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.errors import DataError, WorkError
from cxrtext.jobs.encode.encoder import BATCH, Encoder, Reader, full_batches
from cxrtext.jobs.job import JobOptions, require_positive
from cxrtext.records import ImageRecord, checked_manifest

if TYPE_CHECKING:
    from torch import Tensor

    from cxrtext.models.backbones import Backbone
    from cxrtext.models.backbones.backbone import Precision
    from cxrtext.models.features import FeatureMap

MAP_IMAGES = 256
"""Training images that the map of features is fitted to."""

ESTIMATE_IMAGES = 10

SHARD_BYTES = 2**26
SHARD_ROWS = 128
"""A shard is of so many bytes or of so many images, whichever are fewer, but of a batch at least.

An image takes seconds in a large backbone, and a worker that is killed loses its shard.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeOptions(JobOptions):
    size: int | None = None  # side of the model's input in pixels; None for its own
    grid: int | None = None  # most cells along each axis; None keeps the backbone's own
    reduce: int | None = None  # principal components that are kept; None keeps every channel
    views: int = 1  # of each image: the first is the center crop, the others are drawn
    seed: int = 0  # of the views, and of the images that the map is fitted to
    precision: "Precision" = "float32"  # or "bfloat16": of the backbone's arithmetic
    cache: Path | None = None  # decoded images that are there already

    def check(self) -> None:
        JobOptions.check(self)
        for name in ("size", "grid", "reduce", "views"):
            require_positive(name, getattr(self, name))

    def images_a_shard(self, image_bytes: int) -> int:
        """Images a shard, in whole batches, where each has features of so many bytes."""
        if self.shard is not None:
            return -(-self.shard // BATCH) * BATCH
        return max(BATCH, min(SHARD_ROWS, SHARD_BYTES // image_bytes) // BATCH * BATCH)


@dataclass(frozen=True, slots=True)
class Survey:
    rows: int
    sample: list[ImageRecord]  # some of its training images, in an order drawn by their names


@dataclass(frozen=True, slots=True)
class Estimate:
    images: int
    image_bytes: int  # of the features of one image, all views
    bytes: int  # of all features; lists and headers take about 100 more an image
    free: int  # bytes of the disk
    image_seconds: float  # that one worker takes for an image, all views
    workers: int | None  # None where a cluster has them
    seconds: float  # that the workers take; one, where a cluster has them

    def line(self) -> str:
        by = "one worker" if self.workers in (None, 1) else f"{self.workers} workers"
        return (
            f"{self.images} images take {_size(self.bytes)} ({self.image_bytes} bytes an image; "
            f"{_size(self.free)} are free) and about {_time(self.seconds)} of {by} "
            f"({self.image_seconds:.2g} s an image, measured on {ESTIMATE_IMAGES})"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e8 else f"{count / 1e6:.3g} MB"


def _time(seconds: float) -> str:
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def survey_of(manifest: Path, options: EncodeOptions) -> Survey:
    rows = 0

    def training() -> Iterator[ImageRecord]:
        nonlocal rows
        for record in checked_manifest(manifest, allow_outside=options.allow_outside):
            rows += 1
            if record.split != "train":
                continue
            yield record

    def drawn(record: ImageRecord) -> bytes:
        return hashlib.blake2b(f"{options.seed} {record.name}".encode(), digest_size=8).digest()

    sample = heapq.nsmallest(MAP_IMAGES, training(), key=drawn)
    if not sample:
        raise DataError(
            f"{manifest}: no row has the split 'train'; the scale and the components of features "
            "are fitted to training images"
        )
    return Survey(rows, sample)


def estimate_of(
    folder: Path,
    survey: Survey,
    backbone: "Backbone",
    reader: Reader,
    image_bytes: int,
    options: EncodeOptions,
) -> Estimate:
    import torch

    encoder = Encoder(backbone, views=options.views, seed=options.seed)
    some = survey.sample[:ESTIMATE_IMAGES]
    paths, names = [record.path for record in some], [record.name for record in some]
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        with closing(reader.squares(paths[:1])) as first:
            list(first)  # starts a process that reads
        begun = time.perf_counter()
        with closing(reader.squares(paths)) as read:
            batches = list(full_batches(read))
        seconds = (time.perf_counter() - begun) / len(paths)
        for rows, images, _ in batches:
            if images:
                begun = time.perf_counter()
                squares, named = [image.pixels for image in images], [names[row] for row in rows]
                for _ in encoder.regions(squares, named, fill=False):
                    pass
                seconds += (time.perf_counter() - begun) / len(images)
    finally:
        torch.set_num_threads(threads)
    shards = -(-survey.rows // options.images_a_shard(image_bytes))
    workers = None if options.address else min(options.here(), shards)
    return Estimate(
        images=survey.rows,
        image_bytes=image_bytes,
        bytes=survey.rows * image_bytes,
        free=free_bytes(folder),
        image_seconds=seconds,
        workers=workers,
        seconds=survey.rows * seconds / (workers or 1),
    )


def free_bytes(folder: Path) -> int:
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return shutil.disk_usage(there).free


def require_room(folder: Path, images: int, image_bytes: int) -> None:
    """Refuse to encode what the disk has no room for (WorkError)."""
    wanted, free = images * image_bytes, free_bytes(folder)
    if wanted > free:
        raise WorkError(
            f"{folder}: the features of {images} images take {_size(wanted)} and the disk has "
            f"{_size(free)} free; make room, name another folder, or keep less of each image with "
            "--grid, --reduce or fewer --views"
        )


def fitted_map(
    survey: Survey,
    backbone: "Backbone",
    reader: Reader,
    options: EncodeOptions,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> "FeatureMap":
    from cxrtext.models.features import fit_feature_map

    encoder = Encoder(backbone)

    def regions() -> "Iterator[Tensor]":
        names = [record.name for record in survey.sample]
        with closing(reader.squares([record.path for record in survey.sample])) as read:
            done = 0
            for rows, images, failed in full_batches(read):
                done += len(images) + len(failed)
                progress(done, len(names))
                if images:
                    squares = [image.pixels for image in images]
                    for found in encoder.regions(squares, [names[row] for row in rows]):
                        yield found[: len(images)]

    return fit_feature_map(regions(), backbone.channels, options.grid, options.reduce)


def shape_of(backbone: "Backbone", options: EncodeOptions) -> list[int]:
    """(g, g, R) of what is kept of a backbone's regions (ConfigError where it cannot be)."""
    from cxrtext.models.features import FeatureMap

    made = FeatureMap(backbone.channels, options.grid, options.reduce)
    return [*made.grid_of(backbone.grid), made.width]
