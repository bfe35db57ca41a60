"""``cxrtext encode``: the images of a manifest as region features of a backbone, in shards.

The folder of features is the job's folder: its shards are used as they are, and at the end the list
of images and ``features.json`` are added.  Memory use does not grow with the manifest.

The map of features is fitted to a sample of the training images, chosen by their names.
"""

import hashlib
import heapq
import json
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.device import choose_device
from cxrtext.errors import CheckpointError, DataError, ImageError
from cxrtext.files import sha256
from cxrtext.images.cache_store import READER_VERSION
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.images.sandbox_worker import cores
from cxrtext.jobs.cluster import Do, Task
from cxrtext.jobs.job import (
    THREADS,
    Job,
    JobOptions,
    Say,
    Stage,
    require_here,
    silent,
)
from cxrtext.jobs.plan import Definition, read_plan
from cxrtext.jobs.shards import Shard, commit_named, commit_shard, read_named
from cxrtext.memory import keep_memory
from cxrtext.models.features.folder import (
    BESIDE_BYTES,
    COLUMNS,
    IMAGES,
    LOOKS,
    REGIONS,
    REJECTED,
    SIZES,
    FeatureFolder,
    FeatureShard,
    open_features,
    write_features,
)
from cxrtext.models.regions import normalized
from cxrtext.records import ImageRecord, RowWriter, checked_manifest

if TYPE_CHECKING:
    from cxrtext.models.features import FeatureMap
    from cxrtext.models.foreign import Backbone
    from cxrtext.models.foreign.backbone import Precision

BATCH = 16
"""Images that pass through the backbone at once; always this many, so that the last bits of an
image's features do not depend on the number of others."""

MAP_IMAGES = 256
"""Training images to fit the map of features to."""

SHARD_BYTES = 2**26
SHARD_ROWS = 128
"""A shard has this many bytes or images, whichever is less, but at least one batch.

An image takes seconds in a large backbone, and a killed worker loses its shard.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeOptions(JobOptions):
    size: int | None = None  # side of the model's input in pixels; None for its own
    grid: int | None = None  # most cells along each axis; None for the backbone's
    reduce: int | None = None  # principal components to keep; None keeps all channels
    precision: "Precision" = "float32"  # of the backbone's arithmetic, or "bfloat16"


@dataclass(frozen=True, slots=True)
class EncodeWork:
    """Makes the shards, in any process; all machines must see its paths."""

    folder: Path  # of the job
    readers: int
    backbone: str  # folder

    @contextmanager
    def open(self, device: str) -> Iterator[Do]:
        """Load the backbone, and check that it gives the same as where the job began."""
        from safetensors.numpy import load as load_arrays
        from safetensors.torch import load

        from cxrtext.models.features import FeatureMap
        from cxrtext.models.foreign import load_backbone
        from cxrtext.models.foreign.golden import check_golden

        plan = read_plan(self.folder, _Encode.kind)
        asked, shared = plan.definition, plan.shared
        torch.set_num_threads(THREADS)
        keep_memory()
        backbone = load_backbone(
            Path(self.backbone),
            size=asked["--size"],
            device=choose_device(device),
            precision=asked["--precision"],
        )
        require_here(self.backbone, "backbone", backbone.digest == asked["backbone"])
        check_golden(backbone, load_arrays(read_named(self.folder, shared["golden"])))
        tensors = load(read_named(self.folder, shared["map"]))
        feature_map = FeatureMap.from_note(shared["map_note"], tensors).to(device)
        with closing(ReaderPool(self.readers or cores())) as readers:
            make = partial(_shard, backbone, feature_map, readers)
            yield lambda task: commit_shard(self.folder, plan.digest, make(task))


def _shard(
    backbone: "Backbone", feature_map: "FeatureMap", readers: ReaderPool, task: Task
) -> Shard:
    from cxrtext.models.familiar import looks

    seen: list[NDArray[np.float64]] = []
    places: list[int] = []
    rejected: dict[int, str] = {}
    features: list[NDArray[np.float16]] = []
    sizes: list[tuple[int, int]] = []
    paths = list(map(Path, task.rows))
    read = readers.map(paths, square=backbone.preprocessing, ahead=BATCH)
    for rows, images, failed in full_batches(read):
        rejected |= dict(failed)
        if images:
            squares = [image.pixels for image in images]
            features.append(features_of(backbone, squares, feature_map))
            seen.append(looks(np.stack(squares), backbone.preprocessing))
            places += rows
            sizes += [(image.height, image.width) for image in images]
    arrays: dict[str, NDArray[Any]] = {}
    if places:
        arrays = {
            REGIONS: np.concatenate(features),
            SIZES: np.array(sizes, np.int32),
            LOOKS: np.concatenate(seen).astype(np.float32),
        }
    return Shard(task.number, places, rejected, {}, arrays)


def regions_of(backbone: "Backbone", squares: Sequence[NDArray[np.uint8]]) -> Tensor:
    """A backbone's regions [BATCH, h, w, C] in float32 for up to a batch of squares [1, R, R].

    The batch is filled up with the first image.
    """
    device = next(iter(backbone.parameters())).device
    filled = [*squares, *[squares[0]] * (BATCH - len(squares))]
    stack = torch.from_numpy(np.stack(filled)).to(device)
    with torch.inference_mode():
        regions: Tensor = backbone(normalized(stack, backbone.preprocessing))
    if not bool(torch.isfinite(regions).all()):
        raise CheckpointError(
            f"{backbone.folder}: the backbone gives infinite or undefined values; try --precision "
            "float32, or check its weights"
        )
    return regions


def features_of(
    backbone: "Backbone", squares: Sequence[NDArray[np.uint8]], feature_map: "FeatureMap"
) -> NDArray[np.float16]:
    """The features to keep for up to a batch of squares, one view of each, [n, 1, g, g, R]."""
    most = torch.finfo(torch.float16).max
    with torch.inference_mode():
        mapped = feature_map(regions_of(backbone, squares)).clamp(-most, most).half()
    features: NDArray[np.float16] = mapped[: len(squares), None].cpu().numpy()
    return features


Batch = tuple[list[int], list[ReadImage], list[tuple[int, str]]]
"""Rows of images and the images; rows and reasons of those that failed before or between them."""


def full_batches(read: Iterable[ReadImage | ImageError]) -> Iterator[Batch]:
    """Group images into batches, in order; the last may be smaller."""
    rows: list[int] = []
    images: list[ReadImage] = []
    failed: list[tuple[int, str]] = []
    for row, image in enumerate(read):
        if isinstance(image, ImageError):
            failed.append((row, str(image)))
        else:
            rows.append(row)
            images.append(image)
        if len(images) == BATCH:
            yield rows, images, failed
            rows, images, failed = [], [], []
    if images or failed:
        yield rows, images, failed


class _Encode(Job):
    kind, title = "encode", "encoding"

    def __init__(
        self,
        manifest: Path,
        backbone: "Backbone",
        options: EncodeOptions,
        folder: Path,
        stage: Stage,
    ) -> None:
        from cxrtext.models.features import FeatureMap

        made = FeatureMap(backbone.channels, options.grid, options.reduce)
        self.shape = *made.grid_of(backbone.grid), made.width
        image_bytes = 2 * math.prod(self.shape) + BESIDE_BYTES
        images = options.shard or min(SHARD_ROWS, SHARD_BYTES // image_bytes // BATCH * BATCH)
        batches = max(1, -(-images // BATCH))
        super().__init__(folder, manifest, options, batches * BATCH, stage)
        self._backbone, self._options = backbone, options

    def definition(self) -> Definition:
        options = self._options
        return {
            "manifest": sha256(self.manifest),
            "--size": options.size,
            "preprocessing": self._backbone.preprocessing.to_dict(),
            "backbone": self._backbone.digest,
            "--grid": options.grid,
            "--reduce": options.reduce,
            "--views": 1,  # the center crop
            "--seed": 0,
            "--precision": options.precision,
            "--shard": self.images_a_shard,
            "threads": THREADS,
            "version of the image reader": READER_VERSION,
        }

    def contents(self) -> tuple[int, dict[str, Any]]:
        from safetensors.numpy import save as save_arrays
        from safetensors.torch import save

        from cxrtext.models.foreign.golden import make_golden

        backbone, rows = self._backbone, 0

        def training() -> Iterator[ImageRecord]:
            nonlocal rows
            for record in checked_manifest(self.manifest, allow_outside=self.options.allow_outside):
                rows += 1
                if record.split == "train":
                    yield record

        sample = heapq.nsmallest(MAP_IMAGES, training(), key=_drawn)
        if not sample:
            raise DataError(
                f"{self.manifest}: no row has the split 'train'; the scale and the components of "
                "features are fitted to training images"
            )
        golden, made = make_golden(backbone), self._fitted_map(sample)
        tensors = {name: tensor.cpu().contiguous() for name, tensor in made.state_dict().items()}
        shared = {
            "folder of the backbone": str(backbone.folder.resolve()),
            "backbone": json.loads(json.dumps(backbone.note())),
            "map": commit_named(self.folder, "map", save(tensors)),
            "map_note": {**made.note(), "images": len(sample)},
            "golden": commit_named(self.folder, "golden", save_arrays(golden)),
            "shape": self.shape,
            "command": _command_of(self.manifest, backbone.folder, self._options),
        }
        return rows, shared

    def _fitted_map(self, sample: list[ImageRecord]) -> "FeatureMap":
        from cxrtext.models.features import fit_feature_map

        backbone, options = self._backbone, self._options

        def regions() -> Iterator[Tensor]:
            paths, done = [record.path for record in sample], 0
            with closing(ReaderPool(options.readers or cores())) as readers:
                read = readers.map(paths, square=backbone.preprocessing, ahead=BATCH)
                for rows, images, failed in full_batches(read):
                    done += len(rows) + len(failed)
                    self.stage("fitting", done, len(paths))
                    if images:
                        squares = [image.pixels for image in images]
                        yield regions_of(backbone, squares)[: len(images)]

        return fit_feature_map(regions(), backbone.channels, options.grid, options.reduce)

    def work(self) -> EncodeWork:
        backbone = str(self._backbone.folder.resolve())
        return EncodeWork(self.folder.absolute(), self._options.readers, backbone)


def _drawn(record: ImageRecord) -> bytes:
    return hashlib.blake2b(f"0 {record.name}".encode(), digest_size=8).digest()


def _command_of(manifest: Path, backbone: Path, options: EncodeOptions) -> str:
    """The command that begins, resumes and repairs features, without --out."""
    words: list[Any] = ["cxrtext", "encode", manifest.resolve(), "--backbone", backbone.resolve()]
    usual = EncodeOptions()
    for name in ("size", "grid", "reduce", "precision", "max_rejected"):
        if getattr(options, name) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", getattr(options, name)]
    return shlex.join(map(str, words))


def encode_images(
    manifest: Path,
    backbone: Path,
    folder: Path,
    options: EncodeOptions | None = None,
    *,
    say: Say = silent,
    stage: Stage = silent,
) -> FeatureFolder:
    """Encode the images of a manifest with a backbone; a stopped job resumes.

    ``stage`` gets the progress of "fitting" the map, "encoding" and "listing", ``say`` the shards
    that failed.
    """
    from cxrtext.models.foreign import load_backbone

    options = options or EncodeOptions()
    model = load_backbone(
        backbone, size=options.size, device=options.device, precision=options.precision
    )
    job = _Encode(manifest, model, options, folder, stage)
    job.make(say)
    rejects = job.rejects().rows
    with RowWriter(folder / REJECTED, {"item": "text", "reason": "text"}) as writer:
        for item, reason in rejects:
            writer.write({"item": item, "reason": reason})
    _write_images(job, folder)
    plan, shared = job.plan, job.plan.shared
    files = [job.done[number] for number in range(plan.shards)]
    height, width, channels = shared["shape"]
    write_features(
        folder,
        backbone=shared["backbone"],
        feature_map=shared["map_note"],
        shape=(height, width, channels),
        shards=[FeatureShard(file.name, file.rows, file.digits) for file in files],
        rejected=len(rejects),
        files={"map": shared["map"], "golden": shared["golden"]},
        more={
            "cxrtext": version("cxrtext"),
            "command": shared["command"],
            "manifest": plan.definition["manifest"],
            "rows": plan.rows,
            "reader": READER_VERSION,
            "seed": 0,
            "precision": plan.definition["--precision"],
        },
    )
    return open_features(folder)


def _write_images(job: _Encode, folder: Path) -> None:
    done = 0
    with RowWriter(folder / IMAGES, COLUMNS) as writer:
        for shard, records in job.every_shard():
            for row, place in enumerate(shard.places):
                height, width = map(int, shard.arrays[SIZES][row])
                listed = {"image": records[place].name, "shard": shard.number, "row": row}
                writer.write({**listed, "height": height, "width": width})
            done += len(records)
            job.stage("listing", done, job.plan.rows)
