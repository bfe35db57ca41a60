"""From the shards that are missing to those that are there.

Nothing is kept here that is needed later: a driver that is killed is started again and finds on the
storage what is done.  Two drivers of one job do no harm, as a shard has the same bytes whoever
makes it; they only do some work twice, which :class:`EveryNth` avoids.

A shard that cannot be made counts as failed, and the next run tries it once more.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import InputError, WorkError
from cxrtext.files.storage import Storage
from cxrtext.jobs import cluster as processes
from cxrtext.jobs.cluster import Cluster, Outcome, Task, Work
from cxrtext.jobs.plan import Plan
from cxrtext.jobs.shards import committed
from cxrtext.jobs.status import JobStatus, failures, forget_failure, note_failure, status_of

REFRESH_S = 2.0  # how often the storage is asked what others have done, at most,
REFRESH_SHARE = 50  # and after how many times the time that it takes to ask


@dataclass(frozen=True, slots=True)
class EveryNth:
    """Which shards a driver makes: all, or every ``of``-th from the ``number``-th, from 1."""

    number: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise ValueError("a part is written I/N, with I from 1 to N")

    def has(self, shard: int) -> bool:
        return shard % self.of == self.number - 1


@dataclass(frozen=True, slots=True)
class Running:
    part: EveryNth = EveryNth()
    say: Callable[[str], None] = lambda _: None
    progress: Callable[[JobStatus], None] = lambda _: None


def drive(
    storage: Storage,
    plan: Plan,
    tasks: Iterable[Task],
    work: Work,
    cluster: Cluster,
    running: Running | None = None,
    shared: Sequence[Path] = (),
) -> JobStatus:
    """Make the shards that are missing; ``tasks`` are those of all shards, in order."""
    running = running or Running()
    done = committed(storage)
    missing = [n for n in range(plan.shards) if running.part.has(n) and n not in done]
    if missing:
        running.progress(status_of(plan, done, {}))
        asked = begun = time.monotonic()
        wanted = (one for one in tasks if running.part.has(one.number) and one.number not in done)
        made = processes.outcomes(work, wanted, cluster, len(missing), shared)
        failed: dict[int, str] = {}
        with closing(made):
            for outcome in made:
                if outcome is not None and (why := _why_not(outcome)):
                    failed[outcome.number] = why
                    note_failure(storage, outcome.number, why)
                    running.say(f"shard {outcome.number}: {why}")
                begun = time.monotonic()
                if begun >= asked:
                    done.update(committed(storage))
                    running.progress(status_of(plan, done, failed))
                    now = time.monotonic()
                    asked = now + max(REFRESH_S, REFRESH_SHARE * (now - begun))
    done, noted = committed(storage), failures(storage)
    for number in noted.keys() & done.keys():
        forget_failure(storage, number)
    status = status_of(plan, done, noted)
    running.progress(status)
    if ours := {n: why for n, why in status.failures.items() if running.part.has(n)}:
        number, why = min(ours.items())
        raise WorkError(
            f"{storage.address}: {len(ours)} of {plan.shards} shards could not be made, the first "
            f"{number}: {why}; run the same command again to try them again"
        )
    return status


def _why_not(outcome: Outcome) -> str | None:
    if isinstance(outcome.error, InputError):
        raise outcome.error
    if outcome.lost:
        return (
            f"its worker was lost ({outcome.lost}): look at its memory and device, or take fewer "
            "workers or a smaller --shard"
        )
    return str(outcome.error) if outcome.error else None
