"""Embed the images of a manifest in shards, and make an index from them.

A shard holds the rows that an index keeps of its images.  It has whole batches, so that the model
sees the same batches as in ``cxrtext index build``, and the index has exactly the same vectors.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation import Prompts
from cxrtext.evaluation.classification.calibration import prompts_beside
from cxrtext.evaluation.data import reports_of
from cxrtext.files import sha256
from cxrtext.images.cache_store import READER_VERSION
from cxrtext.images.reader_pool import ReaderPool
from cxrtext.images.sandbox_worker import cores
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
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.regions import EMBED_BATCH, embed_files
from cxrtext.records import Sentence, checked_manifest

CONSTANT = ("model", "basis", "landmark_vectors", "storage", "prompts")
"""A catalogue's notes that never change while the index is filled."""

BESIDE = ("calibration.json", "familiar.safetensors", "heads.safetensors")
"""Files beside a checkpoint's weights that affect what an index keeps."""

SHARD = 500  # images, rounded up to whole batches


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions(JobOptions):
    reports: Path | None = None  # a table of reports; by default as for ``index build``
    storage: str = "float16"  # how regions are kept, or "int8"
    prompts: Mapping[str, Prompts] | None = None  # for the labels; the checkpoint's by default


@dataclass(frozen=True, slots=True)
class EmbedWork:
    """Makes the shards, in any process; all machines must see its paths."""

    folder: Path  # of the job
    readers: int
    model: str  # folder of the checkpoint

    @contextmanager
    def open(self, device: str) -> Iterator[Do]:
        import torch

        from cxrtext.device import choose_device

        folder = Path(self.model)
        plan = read_plan(self.folder, _Embed.kind)
        require_here(self.model, "model", _model_digest(folder) == plan.definition["model"])
        torch.set_num_threads(THREADS)
        keep_memory()
        model = load_model(folder, str(choose_device(device)))
        with closing(ReaderPool(self.readers or cores())) as readers:
            make = partial(_shard, model, plan.shared["notes"], readers)
            yield lambda task: commit_shard(self.folder, plan.digest, make(task))


def _shard(
    model: ImageTextModel, notes: Mapping[str, str], readers: ReaderPool, task: Task
) -> Shard:
    paths = list(map(Path, task.rows))
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
    return Shard(task.number, places, rejected, {"labels": labels}, arrays)


def _model_digest(folder: Path) -> str:
    """A digest of the parts of a checkpoint that affect what an index keeps."""
    files = {name: sha256(folder / name) for name in BESIDE if (folder / name).is_file()}
    whole = json.dumps([checkpoint_fingerprint(folder), files], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


class _Embed(Job):
    kind, title = "embed", "embedding"

    def __init__(
        self, folder: Path, manifest: Path, checkpoint: Path, options: EmbedOptions, stage: Stage
    ) -> None:
        batches = -(-(options.shard or SHARD) // EMBED_BATCH)
        super().__init__(folder, manifest, options, batches * EMBED_BATCH, stage)
        self.checkpoint, self._options = checkpoint, options

    def definition(self) -> Definition:
        options = self._options
        reports = options.reports or reports_of(self.manifest)
        asked = options.prompts or {}
        noted = {name: [*each.positive, "|", *each.negative] for name, each in asked.items()}
        return {
            "manifest": sha256(self.manifest),
            "table of reports": reports and sha256(reports),
            "model": _model_digest(self.checkpoint),
            "set of prompts": hashlib.sha256(json.dumps(noted).encode()).hexdigest(),
            "--storage": options.storage,
            "images a shard": self.images_a_shard,
            "threads": THREADS,
            "version of the image reader": READER_VERSION,
        }

    def said(self, studies: Collection[str]) -> list[Sentence]:
        return said_in(self.manifest, self._options.reports, studies)

    def contents(self) -> tuple[int, dict[str, Any]]:
        import torch
        from safetensors.numpy import save

        options = self._options
        records = checked_manifest(self.manifest, allow_outside=options.allow_outside)
        studies = Counter(record.study_id for record in records)
        torch.set_num_threads(THREADS)
        model = load_model(self.checkpoint, options.device)
        texts = distinct(self.said(studies))
        vectors = list(model.embed_sentences(texts).cpu()) if texts else []
        stacked = torch.stack(vectors).numpy() if vectors else np.empty((0, 0), np.float32)
        prompts = options.prompts or prompts_beside(model)
        shared = {
            "notes": index_notes(model, vectors, prompts, options.storage),
            "sentences": commit_named(self.folder, "sentences", save({"sentences": stacked})),
        }
        return studies.total(), shared

    def work(self) -> EmbedWork:
        model = str(self.checkpoint.resolve())
        return EmbedWork(self.folder.absolute(), self._options.readers, model)


def embed_job(
    manifest: Path,
    checkpoint: Path,
    folder: Path,
    index: Path,
    options: EmbedOptions | None = None,
    *,
    say: Say = silent,
    stage: Stage = silent,
) -> IndexSummary:
    """Embed the images of a manifest in shards, and index them; a stopped job resumes.

    ``stage`` gets the progress of "embedding" and "indexing", ``say`` the shards that failed.
    """
    job = _Embed(folder, manifest, checkpoint, options or EmbedOptions(), stage)
    if index.resolve().is_relative_to(job.folder.resolve()):
        raise ConfigError(f"{index}: is in the folder of the job; name one beside it")
    check_columns(manifest, [next(job.records())])
    job.make(say)
    rejects = job.rejects()
    made = _make_index(job, index)
    rejects.write(index)
    return made


def _make_index(job: _Embed, folder: Path) -> IndexSummary:
    """Make an index from the shards, or continue one."""
    import torch
    from safetensors.numpy import load

    plan, root = job.plan, str(job.manifest.parent.resolve())
    names, studies = set[str](), set[str]()
    for record in job.records():
        names.add(record.name)
        studies.add(record.study_id)
    torch.set_num_threads(THREADS)
    model = load_model(job.checkpoint, job.options.device)
    said = job.said(studies)
    vectors = load(read_named(job.folder, plan.shared["sentences"]))["sentences"]
    texts = dict(zip(distinct(said), torch.from_numpy(vectors), strict=True))
    with _begun_index(folder, job.checkpoint, plan.shared["notes"], names) as catalogue:
        known, done = catalogue.known_images(), 0
        for shard, records in job.every_shard():
            of_shard, part = [records[place] for place in shard.places], _embedded(shard)
            if new := [i for i, record in enumerate(of_shard) if record.name not in known]:
                images = [part.image(i, of_shard[i], root) for i in new]
                arrays = {name: rows[new] for name, rows in part.vectors.items()}
                add_images(folder, catalogue, images, arrays)
            done += len(records)
            job.stage("indexing", done, plan.rows)
        add_sentences(catalogue, model, said, texts)
        refresh_structure(folder, catalogue)
        return IndexSummary.of(write_summary(folder, catalogue))


@contextmanager
def _begun_index(
    folder: Path, checkpoint: Path, notes: Mapping[str, str], names: set[str]
) -> Iterator[Catalogue]:
    """Open the index for the images: a new one, or one that was begun."""
    with writing(folder, create=True) as catalogue:
        noted = catalogue.meta()
        if "model" not in noted:
            note_start(catalogue, checkpoint, notes)
        else:
            other = any(noted[name] != notes[name] for name in CONSTANT)
            if other or catalogue.known_images().keys() - names:
                raise DataError(f"{folder}: holds another index; name a new folder")
        (folder / SUMMARY).unlink(missing_ok=True)  # until the index is complete
        yield catalogue


def _embedded(shard: Shard) -> EmbeddedImages:
    vectors = {k: v for k, v in shard.arrays.items() if k not in ("sizes", "labels")}
    if not shard.places:
        return EmbeddedImages([], [], {}, {}, [])
    sizes = [(int(height), int(width)) for height, width in shard.arrays["sizes"]]
    columns = dict(zip(shard.about["labels"], shard.arrays["labels"].T, strict=True))
    return EmbeddedImages(shard.places, sizes, vectors, columns, [])
