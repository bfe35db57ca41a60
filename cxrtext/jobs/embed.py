"""``cxrtext job embed``: the images of a manifest, embedded in shards, and an index made of them.

A shard holds the rows that an index keeps of its images.  It is of whole batches, so that the
model sees the images in the company in which ``cxrtext index build`` shows them to it, and the
index made of the shards has the very same vectors.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import CheckpointError, DataError
from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import prompts_beside
from cxrtext.files import sha256
from cxrtext.files.storage import Storage
from cxrtext.images.cache_store import READER_VERSION
from cxrtext.images.reader_pool import ReaderPool
from cxrtext.index.build import (
    EmbeddedImages,
    add_sentences,
    check_columns,
    distinct,
    index_notes,
    note_start,
    packed_images,
    said_in,
)
from cxrtext.index.changes import add_images
from cxrtext.index.store.catalogue import Catalogue
from cxrtext.index.store.writer import SUMMARY, IndexSummary, write_summary, writing
from cxrtext.index.structure import refresh_structure
from cxrtext.jobs.driver import Running
from cxrtext.jobs.engines.engine import Task
from cxrtext.jobs.kind import (
    SHARD,
    ImageKind,
    ImageWorkers,
    Made,
    Make,
    Work,
    digest_of_images,
    every_shard_of_images,
    readers_here,
    ready_job,
    require_here,
    require_same,
)
from cxrtext.jobs.plan import Contents, Definition, Plan, digest_of_table
from cxrtext.jobs.shards import Shard, commit_named, read_named
from cxrtext.jobs.status import JobStatus
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.regions import EMBED_BATCH, STORAGES, embed_files
from cxrtext.records import Rejects, Sentence, checked_manifest, stream_manifest

if TYPE_CHECKING:
    from torch import Tensor

KIND = "embed"

CONSTANT = ("model", "basis", "landmark_vectors", "storage", "prompts")
"""What a catalogue notes of an index and never changes while it is filled."""

BESIDE = ("calibration.json", "familiar.safetensors")
"""Files beside a checkpoint's weights that change what an index keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions(ImageWorkers):
    """What comes out, and who does it; a shard is rounded up to whole batches."""

    reports: Path | None = None  # a table of reports; by default as ``index build`` finds it
    storage: str = "float16"  # how regions are kept, or "int8"
    prompts: Mapping[str, Prompts] | None = None  # of the labels; CheX5's by default

    def __post_init__(self) -> None:
        if self.storage not in STORAGES:
            raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {self.storage}")
        if any(one is not None and one < 1 for one in (self.shard, self.threads, self.workers)):
            raise ValueError("shard, threads and workers must be at least 1")


@dataclass(frozen=True, slots=True)
class EmbedWork(Work):
    model: str  # folder of the checkpoint
    device: str = "cpu"
    readers: int = 1  # processes that decode

    kind = KIND

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Make]:
        import torch

        folder = Path(self.model)
        require_here(self.model, "model", _model_digest(folder) == plan.definition["model"])
        torch.set_num_threads(plan.definition["threads"])
        model = load_model(folder, self.device)
        with closing(ReaderPool(readers_here(self.readers))) as readers:
            yield partial(_shard, model, plan.shared["notes"], readers)


def _shard(
    model: ImageTextModel, notes: Mapping[str, str], readers: ReaderPool, task: Task
) -> Shard:
    paths = [Path(path) for path, _ in task.rows]
    places: list[int] = []
    rejected: dict[int, str] = {}
    some: list[EmbeddedImages] = []
    for part in packed_images(model, notes, embed_files(model, paths, readers=readers)):
        places += part.rows
        rejected |= dict(part.failed)
        if part.rows:
            some.append(part)
    arrays: dict[str, NDArray[Any]] = {}
    labels: list[str] = []
    if some:
        labels = list(some[0].labels)
        for name in some[0].vectors:
            arrays[name] = np.concatenate([part.vectors[name] for part in some])
        arrays["sizes"] = np.concatenate([np.array(part.sizes, np.int32) for part in some])
        columns = [np.stack([part.labels[name] for name in labels], axis=1) for part in some]
        arrays["labels"] = np.concatenate(columns)
    about = {"labels": labels, "images": digest_of_images(task, places)}
    return Shard(task.number, places, rejected, about, arrays)


def _model_digest(folder: Path) -> str:
    """A digest of what of a checkpoint changes what an index keeps."""
    files = {name: sha256(folder / name) for name in BESIDE if (folder / name).is_file()}
    whole = json.dumps([checkpoint_fingerprint(folder), files], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def _inputs(manifest: Path, reports: Path | None, checkpoint: Path) -> Definition:
    from cxrtext.evaluation.data import reports_of

    reports = reports or reports_of(manifest)
    return {
        "manifest": digest_of_table(manifest),
        "table of reports": reports and digest_of_table(reports),
        "model": _model_digest(checkpoint),
    }


class _Embed(ImageKind):
    name = KIND

    def __init__(
        self, address: str, manifest: Path, checkpoint: Path, options: EmbedOptions
    ) -> None:
        batches = -(-(options.shard or SHARD) // EMBED_BATCH)
        super().__init__(address, manifest, options, batches * EMBED_BATCH)
        self._checkpoint, self._options = checkpoint, options

    def definition(self) -> Definition:
        options = self._options
        asked = options.prompts or {}
        noted = {name: [*each.positive, "|", *each.negative] for name, each in asked.items()}
        return {
            **_inputs(self.manifest, options.reports, self._checkpoint),
            "set of prompts": hashlib.sha256(json.dumps(noted).encode()).hexdigest(),
            "--storage": options.storage,
            "--shard": self.images_a_shard,
            "threads": options.threads,
            "version of the image reader": READER_VERSION,
        }

    def contents(self) -> Contents:
        import torch
        from safetensors.numpy import save

        options = self._options
        records = checked_manifest(self.manifest, allow_outside=options.allow_outside)
        studies = Counter(record.study_id for record in records)
        torch.set_num_threads(options.threads)
        model = load_model(self._checkpoint, options.device)
        texts = distinct(said_in(self.manifest, options.reports, studies))
        vectors = list(model.embed_sentences(texts).cpu()) if texts else []
        stacked = torch.stack(vectors).numpy() if vectors else np.empty((0, 0), np.float32)
        shared = {
            "notes": index_notes(
                model, vectors, options.prompts or prompts_beside(model), options.storage
            ),
            "sentences": commit_named(self.storage, "sentences", save({"sentences": stacked})),
            "reports": str(options.reports.resolve()) if options.reports else None,
            "checkpoint": str(self._checkpoint.resolve()),
        }
        return self.contents_of(studies.total(), shared)

    def work(self) -> EmbedWork:
        checkpoint, options = str(self._checkpoint.resolve()), self._options
        return EmbedWork(self.storage.location, checkpoint, options.device, options.readers)


def embed_job(
    manifest: Path,
    checkpoint: Path,
    address: str,
    options: EmbedOptions | None = None,
    running: Running | None = None,
) -> JobStatus:
    """Embed the images of a manifest in shards; a job that was stopped goes on."""
    kind = _Embed(address, manifest, checkpoint, options or EmbedOptions())
    check_columns(manifest, [next(kind.records())])
    return kind.run(running)


@dataclass(frozen=True, slots=True)
class FinishedEmbedding:
    planned: int  # images of the manifest
    rejected: int  # images that are named in ``rejected_list`` instead
    rejected_list: Path | None
    index: IndexSummary

    def as_dict(self) -> dict[str, Any]:
        listed = str(self.rejected_list) if self.rejected_list else None
        return {**asdict(self), "rejected_list": listed, "index": self.index.as_dict()}


def finish_embed(
    address: str,
    out: Path,
    *,
    manifest: Path | None = None,
    reports: Path | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
    max_rejected: int = 100,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> FinishedEmbedding:
    """Make an index of the shards of an embed job; one that was stopped goes on.

    Args:
        manifest: Where the manifest, the reports and the checkpoint lie now; by default where they
            lay when the job was begun.  They are compared with the job's digests.
    """
    import torch

    made = ready_job(address, KIND, max_rejected)
    plan = made.plan
    manifest = manifest or Path(plan.shared["source"])
    checkpoint = checkpoint or Path(plan.shared["checkpoint"])
    reports = reports or (Path(plan.shared["reports"]) if plan.shared["reports"] else None)
    require_same(made, _inputs(manifest, reports, checkpoint))
    torch.set_num_threads(plan.definition["threads"])
    names, studies = set[str](), set[str]()
    for record in stream_manifest(manifest, allow_outside=plan.shared["allow_outside"]):
        names.add(record.name)
        studies.add(record.study_id)
    model = load_model(checkpoint, device)
    said = said_in(manifest, reports, studies)
    texts = _vectors_of(made.storage, plan, said)
    rejects = Rejects(max_rejected)
    with _begun_index(out, checkpoint, plan.shared["notes"], names) as catalogue:
        _add_shards(made, manifest, catalogue, rejects, progress)
        rejected = rejects.write(out)
        if len(rejects.rows) == plan.rows:
            raise DataError(f"{manifest}: no image can be read: {rejects.rows[-1][1]}")
        _prove(names - {name for name, _ in rejects.rows}, out, catalogue)
        add_sentences(catalogue, model, said, texts)
        refresh_structure(out, catalogue)
        index = IndexSummary.of(write_summary(out, catalogue))
    return FinishedEmbedding(plan.rows, len(rejects.rows), rejected, index)


def _vectors_of(storage: Storage, plan: Plan, said: Sequence[Sentence]) -> "dict[str, Tensor]":
    import torch
    from safetensors.numpy import load

    data, texts = read_named(storage, plan.shared["sentences"]), distinct(said)
    return dict(zip(texts, torch.from_numpy(load(data)["sentences"]), strict=True))


@contextmanager
def _begun_index(
    folder: Path, checkpoint: Path, notes: Mapping[str, str], names: set[str]
) -> Iterator[Catalogue]:
    """Open the index that images go into: a new one, or that of a ``finish`` that was stopped."""
    with writing(folder, create=True) as catalogue:
        noted = catalogue.meta()
        if "model" not in noted:
            note_start(catalogue, checkpoint, notes)
        else:
            other = any(noted[name] != notes[name] for name in CONSTANT)
            if other or catalogue.known_images().keys() - names:
                raise DataError(f"{folder}: holds another index; name a new folder")
        (folder / SUMMARY).unlink(missing_ok=True)  # until the index is whole
        yield catalogue


def _add_shards(
    made: Made,
    manifest: Path,
    catalogue: Catalogue,
    rejects: Rejects,
    progress: Callable[[int, int], None],
) -> None:
    """Add the rows of every shard to the index, in the manifest's order."""
    known, root = catalogue.known_images(), str(manifest.parent.resolve())
    added = 0
    for shard, records in every_shard_of_images(made, manifest, rejects):
        of_shard = [records[place] for place in shard.places]
        part = _embedded(shard)
        chosen = [i for i, record in enumerate(of_shard) if record.name not in known]
        if chosen:
            images = [part.image(i, of_shard[i], root) for i in chosen]
            arrays = {name: rows[chosen] for name, rows in part.vectors.items()}
            add_images(catalogue.path.parent, catalogue, images, arrays)
        added += len(records)
        progress(added, made.plan.rows)


def _embedded(shard: Shard) -> EmbeddedImages:
    vectors = {k: v for k, v in shard.arrays.items() if k not in ("sizes", "labels")}
    if not shard.places:
        return EmbeddedImages([], [], {}, {}, [])
    sizes = [(int(height), int(width)) for height, width in shard.arrays["sizes"]]
    columns = dict(zip(shard.about["labels"], shard.arrays["labels"].T, strict=True))
    return EmbeddedImages(shard.places, sizes, vectors, columns, [])


def _prove(names: set[str], folder: Path, catalogue: Catalogue) -> None:
    """See that each image that was not rejected is in the index exactly once."""
    found = catalogue.known_images().keys()  # a name can be in a catalogue only once
    if found != names:
        raise CheckpointError(
            f"{folder}: {len(names - found)} images are missing and {len(found - names)} are "
            "too many; remove the folder, and finish the job again"
        )
