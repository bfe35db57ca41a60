"""What a kind of job is, and how one is begun, made and read when it is finished.

A kind is one file beside this one: a :class:`Kind`, which its driver asks; a :class:`Work`, which
its workers have; and a function that finishes, which :func:`every_shard` gives the shards.
"""

import atexit
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar

from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.files.storage import Storage, is_remote, open_storage
from cxrtext.images.sandbox_worker import cores
from cxrtext.jobs.driver import Running, drive
from cxrtext.jobs.engines.engine import Engine, Task
from cxrtext.jobs.engines.engine import Work as AnyWork
from cxrtext.jobs.plan import NAME as PLAN
from cxrtext.jobs.plan import Contents, Definition, Plan, begin, begun, read_plan
from cxrtext.jobs.shards import (
    DamagedShardError,
    Shard,
    ShardFile,
    commit_shard,
    committed,
    damaged,
    digest_of_names,
    read_shard,
)
from cxrtext.jobs.status import JobStatus
from cxrtext.records import ImageRecord, Rejects, stream_manifest

START_S, ROW_S = 300.0, 5.0
"""What a worker may take for a shard and for each of its rows before it counts as lost."""

SHARD = 500
"""Rows of a shard where nothing else is asked for."""

Make = Callable[[Task], Shard]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Who does the work of a job, and in what portions."""

    shard: int | None = None  # rows; None: as many as the kind of job has
    threads: int = 1  # of a worker's model; sums depend on it, so it is the job's
    device: str = "cpu"
    workers: int | None = None  # None: one a core
    cluster: str | None = None  # address of a Dask scheduler; None: processes of this machine

    @property
    def gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def readers(self) -> int:
        """Processes that decode for a worker; 0 for :func:`readers_here`."""
        if self.cluster is not None:
            return 0 if self.gpu else 1
        cores = os.cpu_count() or 1
        return max(1, cores // (self.workers or cores))

    def start(self, work: AnyWork, shared: Sequence[Path]) -> Engine:
        if self.cluster is None:
            from cxrtext.jobs.engines.local import LocalEngine

            return LocalEngine(work, self.workers)
        from cxrtext.jobs.engines.dask import DaskEngine

        if self.workers is not None:
            raise ConfigError("--workers: a cluster has its own; leave it out with --address")
        return DaskEngine(work, self.cluster, gpu=self.gpu, shared=shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWorkers(Workers):
    allow_outside: bool = False  # whether images may lie outside the manifest's folder


def readers_here(readers: int) -> int:
    """Processes that decode for the worker that this process is."""
    return readers or cores()


# --- at a worker


@dataclass(frozen=True, slots=True)
class Work(ABC):
    """Makes the shards of a job, in any process; picklable, with paths that every machine sees."""

    address: str  # of the job

    kind: ClassVar[str]

    @abstractmethod
    def open(self, plan: Plan) -> AbstractContextManager[Make]:
        """Open what makes the rows of a shard: a model, processes that read."""

    def __call__(self, task: Task) -> None:
        storage, plan, make = _open(self)
        commit_shard(storage, plan.digest, make(task))


def require_here(path: str, what: str, same: bool) -> None:
    if not same:
        raise CheckpointError(
            f"{path}: is another {what} here than the one that the job was begun with; copy that "
            "one to every machine"
        )


_kept: tuple[Work, Storage, Plan, Make] | None = None
_ends = ExitStack()


def _open(work: Work) -> tuple[Storage, Plan, Make]:
    global _kept
    if _kept is None or _kept[0] != work:
        _close()
        storage = open_storage(work.address)
        plan = read_plan(storage, work.kind)
        _kept = work, storage, plan, _ends.enter_context(work.open(plan))
    return _kept[1:]


@atexit.register
def _close() -> None:
    global _kept
    _kept = None
    _ends.close()


# --- at the driver


class Kind(ABC):
    """A kind of job, of which a driver was asked for one."""

    name: ClassVar[str]
    workers: Workers

    def __init__(self, address: str | Path, workers: Workers) -> None:
        self.storage, self.workers = open_storage(address), workers

    @abstractmethod
    def definition(self) -> Definition:
        """What must be the same when the job is started again."""

    @abstractmethod
    def contents(self) -> Contents:
        """Look at all rows, and commit what the shards need of each other; once for a job."""

    @abstractmethod
    def work(self) -> Work:
        """What workers have."""

    @abstractmethod
    def tasks(self) -> Iterable[Task]:
        """The task of every shard, in order, its rows read when they are wanted."""

    def shared(self) -> list[Path]:
        """Files that every machine must see."""
        return []

    def begin(self) -> Plan:
        job = self.storage, self.name, self.definition()
        return begun(*job) or begin(*job, self.contents())

    def make(self, plan: Plan, running: Running | None = None) -> JobStatus:
        location, shared = self.storage.location, self.shared()
        if not is_remote(location):
            shared.insert(0, Path(location) / PLAN)
        start = partial(self.workers.start, self.work(), shared)
        return drive(self.storage, plan, self.tasks(), start, running)

    def run(self, running: Running | None = None) -> JobStatus:
        return self.make(self.begin(), running)


class ImageKind(Kind):
    """A kind of job whose rows are the images of a manifest."""

    workers: ImageWorkers
    row_s: float = ROW_S

    def __init__(
        self, address: str | Path, manifest: Path, workers: ImageWorkers, shard: int
    ) -> None:
        super().__init__(address, workers)
        self.manifest, self.images_a_shard = manifest, shard

    def contents_of(self, rows: int, shared: Mapping[str, Any]) -> Contents:
        """So many images, and what their shards have in common beside where they lie."""
        lie = {"source": str(self.manifest.resolve()), "allow_outside": self.workers.allow_outside}
        return Contents(rows, -(-rows // self.images_a_shard), {**lie, **shared})

    def records(self) -> Iterator[ImageRecord]:
        return stream_manifest(self.manifest, allow_outside=self.workers.allow_outside)

    def shared(self) -> list[Path]:
        return [self.manifest, next(self.records()).path]

    def tasks(self) -> Iterator[Task]:
        """The task of each shard, its rows (path, name)."""
        left = ((str(record.path), record.name) for record in self.records())
        for number in count():
            if not (rows := tuple(islice(left, self.images_a_shard))):
                return
            yield Task(number, rows, limit_s=START_S + self.row_s * len(rows))


# --- when it is finished


@dataclass(frozen=True, slots=True)
class Made:
    storage: Storage
    plan: Plan
    done: Mapping[int, ShardFile]


def ready_job(address: str, kind: str, max_rejected: int) -> Made:
    """A job to be finished, see :func:`require_ready`."""
    storage = open_storage(address)
    return require_ready(storage, read_plan(storage, kind), max_rejected)


def require_ready(storage: Storage, plan: Plan, max_rejected: int) -> Made:
    """A job with all of its shards; says at once what would end the work after hours."""
    done = committed(storage)
    if missing := [number for number in range(plan.shards) if number not in done]:
        some = ", ".join(map(str, missing[:3])) + (", …" if len(missing) > 3 else "")
        raise DataError(
            f"{storage.address}: {len(missing)} of {plan.shards} shards are missing ({some}); run "
            f"'{plan.command}' again until 'cxrtext job status' says that all are there"
        )
    if (rejected := sum(file.rejected for file in done.values())) > max_rejected:
        raise DataError(
            f"{storage.address}: {rejected} rows were rejected, more than --max-rejected "
            f"{max_rejected}; with a higher limit they are listed beside the output, each with its "
            "reason"
        )
    return Made(storage, plan, done)


def require_same(made: Made, now: Mapping[str, object]) -> None:
    """Refuse to finish a job with another table or model than it was begun with (DataError)."""
    for name, value in now.items():
        if made.plan.definition[name] != value:
            raise DataError(
                f"{made.storage.address}: the {name} is another one than when the job was "
                "begun; name the former, or start the job anew"
            )


def every_shard(made: Made) -> Iterator[Shard]:
    """Read the shards of a job that is ready in order, each checked by its digest."""
    removed: list[str] = []
    for number in range(made.plan.shards):
        try:
            shard = read_shard(made.storage, made.plan.digest, made.done[number])
        except DamagedShardError:
            removed.append(made.done[number].name)
        if not removed:  # else the others are still looked at: one start makes all of them again
            yield shard
    if removed:
        raise damaged(made.storage, removed)


def records_by_shard(plan: Plan, manifest: Path) -> Iterator[list[ImageRecord]]:
    """The images of each shard, in order, read as they are wanted."""
    records = stream_manifest(manifest, allow_outside=plan.shared["allow_outside"])
    for _ in range(plan.shards):
        yield list(islice(records, plan.definition["--shard"]))


def every_shard_of_images(
    made: Made, manifest: Path, rejects: Rejects | None = None
) -> Iterator[tuple[Shard, list[ImageRecord]]]:
    """Every shard with the images that it is of, and those that were rejected noted with why."""
    for shard, records in zip(
        every_shard(made), records_by_shard(made.plan, manifest), strict=True
    ):
        if sorted([*shard.places, *shard.rejected]) != list(range(len(records))):
            raise CheckpointError(
                f"{made.storage.address}: shard {shard.number} does not have each of its rows "
                "once; remove it, and start the job again"
            )
        if shard.about["images"] != digest_of_names(records[place].name for place in shard.places):
            raise CheckpointError(
                f"{made.storage.address}: {made.done[shard.number].name} is of other images; "
                "remove it, and start the job again"
            )
        if rejects is not None:
            for place, reason in sorted(shard.rejected.items()):
                rejects.add(records[place].name, reason)
        yield shard, records


def digest_of_images(task: Task, places: Iterable[int]) -> str:
    """A digest of the names of a shard's images, by which it is known for one of them."""
    return digest_of_names(task.rows[place][1] for place in places)
