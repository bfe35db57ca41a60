"""Encoding a manifest from begin to end: estimate, map, shards, folder."""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files.storage import Storage, open_storage
from cxrtext.jobs.driver import Running, drive, image_tasks
from cxrtext.jobs.encode.begin import (
    Estimate,
    begin_job,
    estimate_of,
    fitted_map,
    require_room,
    shape_of,
    survey_of,
)
from cxrtext.jobs.encode.finish import finish_encode, write_rejected
from cxrtext.jobs.encode.options import KIND, EncodeOptions, definition_of
from cxrtext.jobs.encode.work import EncodeWork, Reader
from cxrtext.jobs.engines import open_engine
from cxrtext.jobs.engines.engine import Start, readers_for, readers_here
from cxrtext.jobs.plan import Plan, begun, plan_file
from cxrtext.jobs.shards import DamagedShardError, committed
from cxrtext.jobs.status import JobStatus
from cxrtext.models.features.folder import BESIDE_BYTES, FeatureFolder
from cxrtext.records import stream_manifest

START_S, IMAGE_S = 300.0, 30.0
"""What a worker may take for a shard and for each view of an image before it counts as lost."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What came of it."""

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
    start: Start | None = None,
) -> Encoded:
    """Encode the images of a manifest by a backbone; one that was stopped goes on.

    Args:
        manifest: Table of images.
        backbone: Folder of the model.
        folder: Of the features; only its owner may read it.
        options: What comes out, and who does it.
        running: Which of the shards, and whom to tell.
        only_estimate: Whether to stop after the estimate.
        stage: Called with what is done before and after the shards, "fitting" the map or "listing"
            the images, and with (done, total) images.
        start: Starts the engine with the work; by default the one that the options name.

    Raises:
        ConfigError: An option is out of range.
        DataError: The manifest is wrong, the job was begun with another table, backbone or option,
            or too many images cannot be read.
        CheckpointError: The backbone cannot be used.
        WorkError: The disk has too little room, or shards could not be made; the others were.
    """
    from cxrtext.models.backbones import load_backbone
    from cxrtext.models.backbones.golden import make_golden

    options, running = options or EncodeOptions(), running or Running()
    options.check()
    model = load_backbone(
        backbone, size=options.size, device=options.device, precision=options.precision
    )
    shape = shape_of(model, options)
    image_bytes = 2 * options.views * math.prod(shape) + BESIDE_BYTES
    storage = open_storage(folder)
    definition = definition_of(manifest, model, options, options.images_a_shard(image_bytes))
    plan, estimate = begun(storage, KIND, definition), None
    if plan is None or only_estimate:
        survey = survey_of(manifest, options)
        readers = readers_here(_readers(options))
        with closing(Reader(model.preprocessing, readers, options.cache)) as reader:
            golden = make_golden(model)
            estimate = estimate_of(folder, survey, model, reader, image_bytes, options)
            running.say(estimate.line())
            if only_estimate:
                return Encoded(estimate, None, None)
            require_room(folder, survey.rows, image_bytes)
            made = fitted_map(survey, model, reader, options, partial(stage, "fitting"))
        plan = begin_job(storage, manifest, model, made, golden, definition, survey, options)
    left = plan.rows - sum(file.rows + file.rejected for file in committed(storage).values())
    require_room(folder, left, image_bytes)

    def made_and_finished() -> tuple[JobStatus, FeatureFolder | None]:
        status = _shards(storage, folder, manifest, backbone, plan, options, running, start)
        if not status.is_done:
            return status, None
        listing = partial(stage, "listing")
        return status, finish_encode(storage, folder, plan, manifest, options.max_rejected, listing)

    try:
        return Encoded(estimate, *made_and_finished())
    except DamagedShardError:
        running.say("damaged shards were removed; they are made again")
        return Encoded(estimate, *made_and_finished())


def _shards(
    storage: Storage,
    folder: Path,
    manifest: Path,
    backbone: Path,
    plan: Plan,
    options: EncodeOptions,
    running: Running,
    start: Start | None,
) -> JobStatus:
    """Make the shards that are missing."""
    gpu = options.device.startswith("cuda")
    work = EncodeWork(
        storage.location,
        str(backbone.resolve()),
        options.device,
        _readers(options),
        str(options.cache.resolve()) if options.cache else None,
    )
    first = next(stream_manifest(manifest, allow_outside=options.allow_outside))
    seen = [manifest, *plan_file(storage), first.path]
    chosen = start or (
        lambda work: open_engine(
            options.engine, work, options.workers, address=options.cluster, gpu=gpu, shared=seen
        )
    )

    def progress(status: JobStatus) -> None:
        running.progress(status)
        if status.rejected > options.max_rejected:
            listed = write_rejected(storage, folder, plan, manifest, committed(storage))
            raise DataError(
                f"{folder}: {status.rejected} images cannot be read, more than --max-rejected "
                f"{options.max_rejected}; {listed} says why; what is done is kept"
            )

    records = stream_manifest(manifest, allow_outside=options.allow_outside)
    tasks = image_tasks(records, plan.definition["--shard"], START_S, IMAGE_S * options.views)
    return drive(storage, plan, tasks, lambda: chosen(work), replace(running, progress=progress))


def _readers(options: EncodeOptions) -> int:
    """Processes that decode for each worker."""
    gpu = options.device.startswith("cuda")
    return readers_for(options.workers, options.cluster, gpu=gpu)
