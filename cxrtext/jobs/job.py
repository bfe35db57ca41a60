"""A job over the images of a manifest: how it is begun, made, and read when all shards are there.

A kind of job is a file beside this one: a :class:`Job`, which its driver asks; a :class:`JobWork`,
which its workers have; and a function that finishes, which :func:`every_shard` gives the shards.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.files.storage import is_remote, open_storage
from cxrtext.images.sandbox_worker import cores
from cxrtext.jobs.cluster import Cluster, Do, Task
from cxrtext.jobs.driver import Running, drive
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

Make = Callable[[Task], Shard]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(Cluster):
    shard: int | None = None  # rows; None: as many as the kind of job has
    threads: int = 1  # of a worker's model; sums depend on it, so it is the job's
    allow_outside: bool = False  # whether images may lie outside the manifest's folder
    max_rejected: int = 100

    def check(self) -> None:
        """Refuse what is out of range (ConfigError)."""
        for name in ("shard", "threads", "workers"):
            require_positive(name, getattr(self, name))
        if self.address and self.workers is not None:
            raise ConfigError("--workers: a cluster has its own; leave it out with --address")

    @property
    def readers(self) -> int:
        """Processes that decode for a worker; 0 for as many as it has cores."""
        if self.address:
            return 0 if self.gpu else 1
        return max(1, cores() // self.here())


def require_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ConfigError(f"--{name} {value}: must be at least 1")


@dataclass(frozen=True, slots=True)
class JobWork(ABC):
    """Makes the shards of a job, in any process; its paths are those that every machine sees."""

    location: str  # of the job
    device: str
    readers: int  # processes that decode, see :attr:`JobOptions.readers`

    kind: ClassVar[str]

    @abstractmethod
    def making(self, plan: Plan) -> AbstractContextManager[Make]:
        """Open what makes the rows of a shard: a model, processes that read."""

    @contextmanager
    def open(self) -> Iterator[Do]:
        storage = open_storage(self.location)
        plan = read_plan(storage, self.kind)
        with self.making(plan) as make:
            yield lambda task: commit_shard(storage, plan.digest, make(task))


def require_here(path: str, what: str, same: bool) -> None:
    if not same:
        raise CheckpointError(
            f"{path}: is another {what} here than the one that the job was begun with; copy that "
            "one to every machine"
        )


class Job(ABC):
    """A kind of job, of which a driver was asked for one."""

    kind: ClassVar[str]
    row_s: float = ROW_S

    def __init__(
        self, address: str | Path, manifest: Path, options: JobOptions, images_a_shard: int
    ) -> None:
        self.storage, self.manifest = open_storage(address), manifest
        self.options, self.images_a_shard = options, images_a_shard

    @abstractmethod
    def definition(self) -> Definition:
        """What must be the same when the job is started again."""

    @abstractmethod
    def contents(self) -> Contents:
        """Look at all rows, and commit what the shards need of each other; once for a job."""

    @abstractmethod
    def work(self) -> JobWork:
        """What workers have."""

    def contents_of(self, rows: int, shared: Mapping[str, Any]) -> Contents:
        """So many images, and what their shards have in common."""
        return Contents(rows, -(-rows // self.images_a_shard), shared)

    def records(self) -> Iterator[ImageRecord]:
        return stream_manifest(self.manifest, allow_outside=self.options.allow_outside)

    def records_by_shard(self) -> Iterator[list[ImageRecord]]:
        """The images of each shard, in order, read as they are wanted."""
        records = self.records()
        while some := list(islice(records, self.images_a_shard)):
            yield some

    def tasks(self) -> Iterator[Task]:
        """The task of each shard, its rows (path, name)."""
        for number, records in zip(count(), self.records_by_shard(), strict=False):
            rows = tuple((str(record.path), record.name) for record in records)
            yield Task(number, rows, limit_s=START_S + self.row_s * len(rows))

    def begin(self) -> Plan:
        job = self.storage, self.kind, self.definition()
        return begun(*job) or begin(*job, self.contents())

    def complete(
        self, plan: Plan, running: Running, finish: Callable[["Made"], T]
    ) -> tuple[JobStatus, T | None]:
        """Make what is missing, and finish the job where all shards are there then."""
        shared = [self.manifest, next(self.records()).path]
        if not is_remote(self.storage.location):
            shared.append(Path(self.storage.location) / PLAN)
        for again in (False, True):
            status = drive(
                self.storage, plan, self.tasks(), self.work(), self.options, running, shared
            )
            if not status.is_done:
                return status, None
            try:
                return status, finish(self._ready(plan))
            except DamagedShardError:
                if again:
                    raise
                running.say("damaged shards were removed; they are made again")
        raise AssertionError

    def _ready(self, plan: Plan) -> "Made":
        """The job with all of its shards; says at once what would end the work after hours."""
        made = Made(self, plan, committed(self.storage))
        if (rejected := made.rejected) > (limit := self.options.max_rejected):
            raise DataError(
                f"{self.storage.address}: {rejected} rows were rejected, more than --max-rejected "
                f"{limit}; with a higher limit they are listed beside the output, each with its "
                "reason"
            )
        return made


@dataclass(frozen=True, slots=True)
class Made:
    """What a job has made."""

    job: Job
    plan: Plan
    done: Mapping[int, ShardFile]

    @property
    def rejected(self) -> int:
        return sum(file.rejected for file in self.done.values())

    def every_shard(self) -> Iterator[Shard]:
        """Read the shards of a job that has all, in order, each checked by its digest."""
        storage, removed = self.job.storage, list[str]()
        for number in range(self.plan.shards):
            try:
                shard = read_shard(storage, self.plan.digest, self.done[number])
            except DamagedShardError:
                removed.append(self.done[number].name)
            if not removed:  # else the others are still looked at: all are made again at once
                yield shard
        if removed:
            raise damaged(storage, removed)

    def every_shard_of_images(
        self, rejects: Rejects | None = None
    ) -> Iterator[tuple[Shard, list[ImageRecord]]]:
        """Every shard with the images that it is of; ``rejects`` takes those not read, and why."""
        address = self.job.storage.address
        for shard, records in zip(self.every_shard(), self.job.records_by_shard(), strict=True):
            if sorted([*shard.places, *shard.rejected]) != list(range(len(records))):
                raise CheckpointError(
                    f"{address}: shard {shard.number} does not have each of its rows once; remove "
                    "it, and start the job again"
                )
            names = (records[place].name for place in shard.places)
            if shard.about["images"] != digest_of_names(names):
                raise CheckpointError(
                    f"{address}: {self.done[shard.number].name} is of other images; remove it, and "
                    "start the job again"
                )
            if rejects is not None:
                for place, reason in sorted(shard.rejected.items()):
                    rejects.add(records[place].name, reason)
            yield shard, records


def digest_of_images(task: Task, places: Iterable[int]) -> str:
    """A digest of the names of a shard's images, by which it is known for one of them."""
    return digest_of_names(task.rows[place][1] for place in places)
