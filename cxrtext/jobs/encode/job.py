"""``cxrtext encode`` from begin to end: estimate, map, shards, folder of features."""

import json
import math
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError, DataError, NotFoundError
from cxrtext.files.storage import open_storage
from cxrtext.images.cache_store import READER_VERSION
from cxrtext.images.sandbox_worker import cores
from cxrtext.jobs.cluster import Task
from cxrtext.jobs.driver import Running
from cxrtext.jobs.encode.begin import (
    EncodeOptions,
    Estimate,
    Survey,
    estimate_of,
    fitted_map,
    require_room,
    shape_of,
    survey_of,
)
from cxrtext.jobs.encode.encoder import Encoder, Reader, full_batches
from cxrtext.jobs.job import Job, JobWork, Made, Make, digest_of_images, require_here
from cxrtext.jobs.plan import Contents, Definition, Plan, digest_of_table
from cxrtext.jobs.shards import (
    Shard,
    commit_named,
    committed,
    read_named,
    read_shard,
)
from cxrtext.jobs.status import JobStatus
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
from cxrtext.records import RowWriter

if TYPE_CHECKING:
    from cxrtext.models.backbones import Backbone
    from cxrtext.models.features import FeatureMap

VIEW_S = 30.0
"""What a worker may take for a view of an image before it counts as lost."""


@dataclass(frozen=True, slots=True)
class EncodeWork(JobWork):
    backbone: str  # folder
    cache: str | None = None  # folder of decoded images

    kind = "encode"

    @contextmanager
    def making(self, plan: Plan) -> Iterator[Make]:
        """Load the backbone, which is the job's and gives what it gave where the job was begun."""
        import torch
        from safetensors.numpy import load as load_arrays
        from safetensors.torch import load

        from cxrtext.models.backbones import load_backbone
        from cxrtext.models.backbones.golden import check_golden
        from cxrtext.models.features import FeatureMap

        storage = open_storage(self.location)
        asked, shared = plan.definition, plan.shared
        torch.set_num_threads(asked["threads"])
        backbone = load_backbone(
            Path(self.backbone),
            size=asked["--size"],
            device=self.device,
            precision=asked["--precision"],
        )
        require_here(self.backbone, "backbone", backbone.digest == asked["backbone"])
        check_golden(backbone, load_arrays(read_named(storage, shared["golden"])))
        encoder = Encoder(backbone, views=asked["--views"], seed=asked["--seed"])
        tensors = load(read_named(storage, shared["map"]))
        feature_map = FeatureMap.from_note(shared["map_note"], tensors).to(self.device)
        cache = Path(self.cache) if self.cache else None
        with closing(Reader(backbone.preprocessing, self.readers or cores(), cache)) as reader:
            yield partial(_encoded, encoder, feature_map, reader)


def _encoded(encoder: Encoder, feature_map: "FeatureMap", reader: Reader, task: Task) -> Shard:
    from cxrtext.models.familiar import looks

    preprocessing = encoder.backbone.preprocessing
    seen: list[NDArray[np.float64]] = []
    places: list[int] = []
    rejected: dict[int, str] = {}
    features: list[NDArray[np.float16]] = []
    sizes: list[tuple[int, int]] = []
    names = [name for _, name in task.rows]
    with closing(reader.squares([Path(path) for path, _ in task.rows])) as read:
        for rows, images, failed in full_batches(read):
            rejected |= dict(failed)
            if images:
                squares = [image.pixels for image in images]
                named = [names[row] for row in rows]
                features.append(encoder.features(squares, named, feature_map))
                seen.append(looks(np.stack(squares), preprocessing))
                places += rows
                sizes += [(image.height, image.width) for image in images]
    arrays: dict[str, NDArray[Any]] = {}
    if places:
        arrays = {
            REGIONS: np.concatenate(features),
            SIZES: np.array(sizes, np.int32),
            LOOKS: np.concatenate(seen).astype(np.float32),
        }
    return Shard(task.number, places, rejected, {"images": digest_of_images(task, places)}, arrays)


class _Encode(Job):
    kind = "encode"

    def __init__(
        self,
        manifest: Path,
        backbone: "Backbone",
        options: EncodeOptions,
        folder: Path,
        image_bytes: int,
        running: Running,
        fitting: Callable[[int, int], None],
    ) -> None:
        super().__init__(folder, manifest, options, options.images_a_shard(image_bytes))
        self.row_s = VIEW_S * options.views
        self.estimated: Estimate | None = None
        self._backbone, self._options, self._folder = backbone, options, folder
        self._image_bytes, self._running, self._fitting = image_bytes, running, fitting

    def definition(self) -> Definition:
        options = self._options
        return {
            "manifest": digest_of_table(self.manifest),
            "--size": options.size,
            "preprocessing": self._backbone.preprocessing.to_dict(),
            "backbone": self._backbone.digest,
            "--grid": options.grid,
            "--reduce": options.reduce,
            "--views": options.views,
            "--seed": options.seed,
            "--precision": options.precision,
            "--shard": self.images_a_shard,
            "threads": options.threads,
            "version of the image reader": READER_VERSION,
        }

    def reader(self) -> closing[Reader]:
        readers = self._options.readers or cores()
        return closing(Reader(self._backbone.preprocessing, readers, self._options.cache))

    def estimate(self, survey: Survey, reader: Reader) -> Estimate:
        self.estimated = estimate_of(
            self._folder, survey, self._backbone, reader, self._image_bytes, self._options
        )
        self._running.say(self.estimated.line())
        return self.estimated

    def contents(self) -> Contents:
        from safetensors.numpy import save as save_arrays
        from safetensors.torch import save

        from cxrtext.models.backbones.golden import make_golden

        options, backbone = self._options, self._backbone
        survey = survey_of(self.manifest, options)
        with self.reader() as reader:
            golden = make_golden(backbone)
            self.estimate(survey, reader)
            require_room(self._folder, survey.rows, self._image_bytes)
            made = fitted_map(survey, backbone, reader, options, self._fitting)
        tensors = {name: tensor.cpu().contiguous() for name, tensor in made.state_dict().items()}
        shared = {
            "folder of the backbone": str(backbone.folder.resolve()),
            "backbone": json.loads(json.dumps(backbone.note())),
            "map": commit_named(self.storage, "map", save(tensors)),
            "map_note": {**made.note(), "images": len(survey.sample)},
            "golden": commit_named(self.storage, "golden", save_arrays(golden)),
            "shape": shape_of(backbone, options),
            "command": _command_of(self.manifest, backbone.folder, options),
        }
        return self.contents_of(survey.rows, shared)

    def work(self) -> EncodeWork:
        options = self._options
        cache = str(options.cache.resolve()) if options.cache else None
        folder = str(self._backbone.folder.resolve())
        location = self.storage.location
        return EncodeWork(location, options.worker_device, options.readers, folder, cache)


def _command_of(manifest: Path, backbone: Path, options: EncodeOptions) -> str:
    """The command that begins, goes on with and mends features, up to --out."""
    words: list[Any] = ["cxrtext", "encode", manifest.resolve(), "--backbone", backbone.resolve()]
    usual = EncodeOptions()
    for name in (
        "size", "grid", "reduce", "views", "seed", "precision", "shard", "threads", "max_rejected",
    ):  # fmt: skip
        if getattr(options, name) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", getattr(options, name)]
    words += ["--allow-outside"] if options.allow_outside else []
    return shlex.join(map(str, words))


@dataclass(frozen=True, slots=True)
class Encoded:
    estimate: Estimate | None  # None where the job had been begun
    status: JobStatus | None  # None where only the estimate was asked for
    features: FeatureFolder | None  # None where shards of other parts are missing


def encode_images(
    manifest: Path,
    backbone: Path,
    folder: Path,
    options: EncodeOptions | None = None,
    running: Running | None = None,
    *,
    only_estimate: bool = False,
    stage: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> Encoded:
    """Encode the images of a manifest by a backbone; one that was stopped goes on.

    ``stage`` hears what is done beside the shards, "fitting" the map or "listing" the images, and
    (done, total) images.
    """
    from cxrtext.models.backbones import load_backbone

    options, running = options or EncodeOptions(), running or Running()
    options.check()
    model = load_backbone(
        backbone, size=options.size, device=options.device, precision=options.precision
    )
    image_bytes = 2 * options.views * math.prod(shape_of(model, options)) + BESIDE_BYTES
    job = _Encode(manifest, model, options, folder, image_bytes, running, partial(stage, "fitting"))
    if only_estimate:
        with job.reader() as reader:
            return Encoded(job.estimate(survey_of(manifest, options), reader), None, None)
    plan, storage = job.begin(), job.storage
    left = plan.rows - sum(file.rows + file.rejected for file in committed(storage).values())
    require_room(folder, left, image_bytes)

    def progress(status: JobStatus) -> None:
        running.progress(status)
        if status.rejected > options.max_rejected:
            listed = _write_rejected(Made(job, plan, committed(storage)), folder)
            raise DataError(
                f"{folder}: {status.rejected} images cannot be read, more than --max-rejected "
                f"{options.max_rejected}; {listed} says why; what is done is kept"
            )

    finish = partial(_finish, folder=folder, progress=partial(stage, "listing"))
    return Encoded(job.estimated, *job.complete(plan, replace(running, progress=progress), finish))


def _finish(made: Made, folder: Path, progress: Callable[[int, int], None]) -> FeatureFolder:
    plan, done = made.plan, made.done
    files = [done[number] for number in range(plan.shards)]
    shards = [FeatureShard(file.name, file.rows, file.digits) for file in files]
    with_features = _finished(folder)
    if with_features is not None and with_features.shards == shards:
        for shard in made.every_shard():  # what is damaged is made again
            progress(min((shard.number + 1) * plan.definition["--shard"], plan.rows), plan.rows)
        return with_features
    if not any(shard.rows for shard in shards):
        listed = _write_rejected(made, folder)
        raise DataError(f"{made.job.manifest}: no image can be read; {listed} says why")
    shared = plan.shared
    _write_images(made, folder, progress)
    _write_rejected(made, folder)
    height, width, channels = shared["shape"]
    write_features(
        folder,
        backbone=shared["backbone"],
        feature_map=shared["map_note"],
        views=plan.definition["--views"],
        shape=(height, width, channels),
        shards=shards,
        rejected=sum(file.rejected for file in files),
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
    with suppress(CheckpointError, NotFoundError):
        found = open_features(folder)
        found.check_lists()
        return found
    return None


def _write_rejected(made: Made, folder: Path) -> Path:
    path, done = folder / REJECTED, made.done
    with RowWriter(path, {"item": "text", "reason": "text"}) as writer:
        if made.rejected:
            for number, records in enumerate(made.job.records_by_shard()):
                if number in done and done[number].rejected:
                    shard = read_shard(made.job.storage, made.plan.digest, done[number])
                    for place, reason in sorted(shard.rejected.items()):
                        writer.write({"item": records[place].name, "reason": reason})
    return path


def _write_images(made: Made, folder: Path, progress: Callable[[int, int], None]) -> None:
    size, rows = made.plan.definition["--shard"], made.plan.rows
    with RowWriter(folder / IMAGES, COLUMNS) as writer:
        for shard, records in made.every_shard_of_images():
            number = shard.number
            for row, place in enumerate(shard.places):
                height, width = map(int, shard.arrays[SIZES][row])
                found = {"image": records[place].name, "shard": number, "row": row}
                writer.write({**found, "height": height, "width": width})
            progress(min((number + 1) * size, rows), rows)
