"""Before the first shard: what the manifest holds, what encoding it takes, and the map of features.

A sample of the training images stands for all: of some the time is measured, and all are what the
map is fitted to.  Which they are follows from the seed and their names.
"""

import hashlib
import heapq
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import DataError, WorkError
from cxrtext.files.digests import DIGITS
from cxrtext.files.storage import Storage
from cxrtext.jobs.encode.encoder import Encoder, full_batches
from cxrtext.jobs.encode.options import KIND, EncodeOptions, command_of
from cxrtext.jobs.encode.work import Reader
from cxrtext.jobs.plan import Definition, Plan, begin
from cxrtext.records import ImageRecord, checked_manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from cxrtext.models.backbones import Backbone
    from cxrtext.models.features import FeatureMap

MAP_IMAGES = 256
"""Training images that the map of features is fitted to."""

ESTIMATE_IMAGES = 10


@dataclass(frozen=True, slots=True)
class Survey:
    """What a manifest holds."""

    rows: int
    sample: list[ImageRecord]  # some of its training images, in an order drawn by their names


@dataclass(frozen=True, slots=True)
class Estimate:
    """What encoding a manifest takes."""

    images: int
    image_bytes: int  # of the features of one image, all views
    bytes: int  # of all features; lists and headers take about 100 more an image
    free: int  # bytes of the disk
    image_seconds: float  # that one worker takes for an image, all views
    workers: int | None  # None where a cluster has them
    seconds: float  # that the workers take; one, where a cluster has them

    def line(self) -> str:
        """What the user is told."""
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
    """Read a manifest once, check it, and choose the sample.

    Raises:
        DataError: The manifest is wrong, or has no training images.
    """
    chosen: list[tuple[int, int, ImageRecord]] = []  # a heap, the last of the sample first
    rows = 0
    for record in checked_manifest(manifest, allow_outside=options.allow_outside):
        rows += 1
        if record.split != "train":
            continue
        drawn = hashlib.blake2b(f"{options.seed} {record.name}".encode(), digest_size=8).digest()
        entry = (-int.from_bytes(drawn, "big"), -rows, record)
        if len(chosen) < MAP_IMAGES:
            heapq.heappush(chosen, entry)
        elif entry > chosen[0]:
            heapq.heapreplace(chosen, entry)
    if not chosen:
        raise DataError(
            f"{manifest}: no row has the split 'train'; the scale and the components of features "
            "are fitted to training images"
        )
    return Survey(rows, [record for *_, record in sorted(chosen, reverse=True)])


def estimate_of(
    folder: Path,
    survey: Survey,
    backbone: "Backbone",
    reader: Reader,
    image_bytes: int,
    options: EncodeOptions,
) -> Estimate:
    """Encode ten images and say what all will take."""
    import torch

    encoder = Encoder(backbone, views=options.views, seed=options.seed)

    paths = [record.path for record in survey.sample[:ESTIMATE_IMAGES]]
    names = [record.name for record in survey.sample[:ESTIMATE_IMAGES]]
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
    workers = None if options.cluster else min(options.workers or os.cpu_count() or 1, shards)
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
    """What the disk of a folder, which need not be there yet, has free."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    status = os.statvfs(there)
    return status.f_bavail * status.f_frsize


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
    """Fit the map of features to the sample.

    Raises:
        DataError: None of it can be read, or it has too few regions.
    """
    from cxrtext.models.features import fit_feature_map

    encoder = Encoder(backbone)

    def regions() -> "Iterator[Tensor]":
        names = [record.name for record in survey.sample]
        with closing(reader.squares([record.path for record in survey.sample])) as read:
            done = 0
            for rows, images, failed in full_batches(read):
                done += len(images) + len(failed)
                progress(done, len(names))
                if not images:
                    continue
                squares = [image.pixels for image in images]
                for found in encoder.regions(squares, [names[row] for row in rows]):
                    yield found[: len(images)]

    return fit_feature_map(regions(), backbone.channels, options.grid, options.reduce)


def begin_job(
    storage: Storage,
    manifest: Path,
    backbone: "Backbone",
    made: "FeatureMap",
    golden: "dict[str, NDArray[Any]]",
    definition: Definition,
    survey: Survey,
    options: EncodeOptions,
) -> Plan:
    """Commit the map, the golden image and the plan."""
    from safetensors.numpy import save as save_arrays
    from safetensors.torch import save

    tensors = {name: tensor.cpu().contiguous() for name, tensor in made.state_dict().items()}
    shard = definition["--shard"]
    return begin(
        storage,
        KIND,
        definition,
        rows=survey.rows,
        shards=-(-survey.rows // shard),
        shared={
            "source": str(manifest.resolve()),
            "allow_outside": options.allow_outside,
            "folder of the backbone": str(backbone.folder.resolve()),
            "backbone": json.loads(json.dumps(backbone.note())),
            "map": _commit(storage, "map", save(tensors)),
            "map_note": {**made.note(), "images": len(survey.sample)},
            "golden": _commit(storage, "golden", save_arrays(golden)),
            "shape": shape_of(backbone, options),
            "command": command_of(manifest, backbone.folder, options),
        },
    )


def shape_of(backbone: "Backbone", options: EncodeOptions) -> list[int]:
    """(g, g, R) of what is kept of a backbone's regions (ConfigError where it cannot be)."""
    from cxrtext.models.features import FeatureMap

    made = FeatureMap(backbone.channels, options.grid, options.reduce)
    return [*made.grid_of(backbone.grid), made.width]


def _commit(storage: Storage, stem: str, data: bytes) -> str:
    """Commit a file under a name with its digest: two that begin a job write two files."""
    name = f"{stem}.{hashlib.sha256(data).hexdigest()[:DIGITS]}.safetensors"
    storage.commit(name, data)
    return name
