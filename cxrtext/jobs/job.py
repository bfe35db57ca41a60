"""A job over the images of a manifest: begin it, make its shards, and read them when all are there.

All state is on disk: after a kill, run the command again, and it finds what is done.  A shard that
cannot be made does not stop the others, and is tried again then.

A kind of job is a file beside this one: a :class:`Job`, the work for its workers, and a function
that finishes the job with :meth:`Job.every_shard`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from cxrtext.errors import CheckpointError, ConfigError, DataError, DiskError, InputError, WorkError
from cxrtext.images.sandbox_worker import cores
from cxrtext.jobs import cluster as processes
from cxrtext.jobs.cluster import Cluster, Task, Work
from cxrtext.jobs.plan import NAME as PLAN
from cxrtext.jobs.plan import Definition, Plan, begin
from cxrtext.jobs.shards import DamagedShardError, Shard, ShardFile, committed, damaged, read_shard
from cxrtext.records import ImageRecord, Rejects, stream_manifest

THREADS = 1  # of a worker's model; sums depend on the number

Say = Callable[[str], None]
Stage = Callable[[str, int, int], None]
"""Called with the name of the stage, and (done, total) images."""


def silent(*_: object) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(Cluster):
    shard: int | None = None  # rows; None: the default of the kind of job
    allow_outside: bool = False  # whether images may be outside the manifest's folder
    max_rejected: int = 100

    def __post_init__(self) -> None:
        if self.address and self.workers is not None:
            raise ConfigError("--workers: a cluster has its own; leave it out with --address")

    @property
    def readers(self) -> int:
        """Processes that decode for a worker; 0 for one per core."""
        if self.address:
            return 0 if self.device.startswith("cuda") else 1
        return max(1, cores() // self.here())


def make_missing(
    folder: Path,
    plan: Plan,
    tasks: Iterable[Task],
    work: Work,
    cluster: Cluster,
    shared: Sequence[Path] = (),
    *,
    say: Say = silent,
    progress: Callable[[Mapping[int, ShardFile]], None] = silent,
) -> dict[int, ShardFile]:
    """Make the missing shards; ``tasks`` are those of all shards, in order."""
    done, failed = committed(folder), dict[int, str]()
    missing = plan.shards - len(done)
    progress(done)
    if not missing:
        return done
    wanted = (task for task in tasks if task.number not in done)
    with closing(processes.outcomes(work, wanted, cluster, missing, shared)) as made:
        for outcome in made:
            if outcome.made is not None:
                done[outcome.number] = outcome.made
                progress(done)
                continue
            if isinstance(outcome.error, InputError | DiskError):
                raise outcome.error
            lost = (
                f"its worker was lost ({outcome.lost}): look at its memory and device, or use "
                "fewer workers"
            )
            failed[outcome.number] = str(outcome.error or lost)
            say(f"shard {outcome.number}: {failed[outcome.number]}")
    if failed:
        number, why = min(failed.items())
        raise WorkError(
            f"{folder}: {len(failed)} of {plan.shards} shards could not be made, the "
            f"first {number}: {why}; run the same command again to try them again"
        )
    return committed(folder)


def require_here(path: str, what: str, same: bool) -> None:
    if not same:
        raise CheckpointError(
            f"{path}: is another {what} here than where the job began; copy the same one to every "
            "machine"
        )


class Job(ABC):
    """A job; each kind is a subclass."""

    kind: ClassVar[str]
    title: ClassVar[str]  # of its progress
    plan: Plan
    done: Mapping[int, ShardFile]

    def __init__(
        self,
        folder: Path,
        manifest: Path,
        options: JobOptions,
        images_a_shard: int,
        stage: Stage,
    ) -> None:
        self.folder, self.manifest, self.stage = folder, manifest, stage
        self.options, self.images_a_shard = options, images_a_shard

    @abstractmethod
    def definition(self) -> Definition:
        """What must be the same when the job is started again."""

    @abstractmethod
    def contents(self) -> tuple[int, dict[str, Any]]:
        """Read and count all rows, and commit what the shards share; once per job."""

    @abstractmethod
    def work(self) -> Work:
        """What workers need to make shards."""

    def make(self, say: Say) -> None:
        """Begin or continue the job until all of its shards are there."""
        shared = [self.manifest, next(self.records()).path]
        plan = self.plan = begin(
            self.folder, self.kind, self.definition(), self.images_a_shard, self.contents
        )
        shared.append(self.folder / PLAN)

        def progress(done: Mapping[int, ShardFile]) -> None:
            self.done = done
            rejected = sum(file.rejected for file in done.values())
            self.stage(self.title, sum(file.rows for file in done.values()) + rejected, plan.rows)
            if rejected > self.options.max_rejected:
                self.rejects()

        given = self.folder, plan, self.tasks(), self.work(), self.options, shared
        self.done = make_missing(*given, say=say, progress=progress)

    def records(self) -> Iterator[ImageRecord]:
        return stream_manifest(self.manifest, allow_outside=self.options.allow_outside)

    def records_by_shard(self) -> Iterator[list[ImageRecord]]:
        """The images of each shard, in order, read as they are needed."""
        records = self.records()
        while some := list(islice(records, self.images_a_shard)):
            yield some

    def tasks(self) -> Iterator[Task]:
        """The task of each shard; its rows are the images' paths."""
        for number, records in enumerate(self.records_by_shard()):
            yield Task(number, tuple(str(record.path) for record in records))

    def rejects(self) -> Rejects:
        """The images that could not be read, and why (DataError: too many)."""
        rejects = Rejects(self.options.max_rejected)
        for number, records in enumerate(self.records_by_shard()):
            if number in self.done and self.done[number].rejected:
                shard = read_shard(self.folder, self.plan.digest, self.done[number])
                for place, reason in sorted(shard.rejected.items()):
                    rejects.add(records[place].name, reason)
        if len(rejects.rows) == self.plan.rows:
            raise DataError(f"{self.manifest}: no image can be read: {rejects.rows[-1][1]}")
        return rejects

    def every_shard(self) -> Iterator[tuple[Shard, list[ImageRecord]]]:
        """Every shard, checked by its digest, with its images."""
        removed = list[str]()
        for number, records in enumerate(self.records_by_shard()):
            file = self.done[number]
            try:
                shard = read_shard(self.folder, self.plan.digest, file)
            except DamagedShardError:
                removed.append(file.name)
            if (
                not removed
            ):  # after a damaged one, check the rest, to make all of them again at once
                yield shard, records
        if removed:
            raise damaged(self.folder, removed)
