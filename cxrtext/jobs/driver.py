"""From the shards that are missing to those that are there.

Nothing is kept here that is needed later: a driver that is killed is started again and finds on the
storage what is done.  Two drivers of one job do no harm, as a shard has the same bytes whoever
makes it; they only do some work twice, which :class:`EveryNth` avoids.

A shard whose process is lost is tried again.  Lost again, it counts as failed, and the next run
tries it once more: images are decoded in processes of their own, which none of them outlives, so
that what ends a worker is its memory or its device.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cxrtext.errors import InputError, WorkError
from cxrtext.files.storage import Storage
from cxrtext.jobs.engines.engine import Engine, Outcome, Task
from cxrtext.jobs.plan import Plan
from cxrtext.jobs.shards import ShardFile, committed
from cxrtext.jobs.status import JobStatus, failures, forget_failure, note_failure, status_of

TRIES = 2  # how often something is tried whose process is lost
REFRESH_S = 2.0  # how often the storage is asked what others have done, at most,
REFRESH_SHARE = 50  # and after how many times the time that it takes to ask
WAIT_S = 1.0


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
    start: Callable[[], Engine],
    running: Running | None = None,
) -> JobStatus:
    running = running or Running()
    done = committed(storage)
    if any(n not in done and running.part.has(n) for n in range(plan.shards)):
        engine = start()
        try:
            _Drive(storage, plan, engine, running, done).run(tasks)
        finally:
            engine.close()
    done, failed = committed(storage), failures(storage)
    for number in failed.keys() & done.keys():
        forget_failure(storage, number)
    status = status_of(plan, done, failed)
    running.progress(status)
    if ours := {n: why for n, why in status.failures.items() if running.part.has(n)}:
        number, why = min(ours.items())
        raise WorkError(
            f"{storage.address}: {len(ours)} of {plan.shards} shards could not be made, the first "
            f"{number}: {why}; run the same command again to try them again"
        )
    return status


class _Drive:
    def __init__(
        self,
        storage: Storage,
        plan: Plan,
        engine: Engine,
        running: Running,
        done: dict[int, ShardFile],
    ) -> None:
        self._storage, self._plan, self._engine, self._running = storage, plan, engine, running
        self._done = done
        self._failed: dict[int, str] = {}
        self._tries: Counter[int] = Counter()
        self._under_way = 0
        self._ask_at = time.monotonic() + REFRESH_S

    def run(self, tasks: Iterable[Task]) -> None:
        wanted = (
            task
            for task in tasks
            if self._running.part.has(task.number) and task.number not in self._done
        )
        self._running.progress(status_of(self._plan, self._done, {}))
        more = True
        while more or self._under_way:
            while more and self._under_way < 2 * self._engine.slots:
                task = next(wanted, None)
                if task is None:
                    more = False
                else:
                    self._submit(task)
            if self._under_way and (outcome := self._engine.next(WAIT_S)) is not None:
                self._under_way -= 1
                self._take(outcome)
            self._look_around()

    def _submit(self, task: Task) -> None:
        self._engine.submit(task)
        self._under_way += 1

    def _take(self, outcome: Outcome) -> None:
        number, lost = outcome.task.number, outcome.lost
        if isinstance(outcome.error, InputError):
            raise outcome.error
        if outcome.error is None and lost is None:
            return
        self._tries[number] += 1
        if lost is None:  # a disk or a network
            if self._tries[number] > TRIES:
                self._fail(number, str(outcome.error))
            else:
                self._submit(outcome.task)
        elif self._tries[number] < TRIES:
            self._running.say(f"shard {number}: its worker is gone ({lost}); it is made again")
            self._submit(outcome.task)
        else:
            self._fail(
                number,
                f"its worker was lost {TRIES} times ({lost}): look at its memory and device, or "
                "take fewer workers or a smaller --shard",
            )

    def _fail(self, number: int, reason: str) -> None:
        self._failed[number] = reason
        note_failure(self._storage, number, reason)
        self._running.say(f"shard {number}: {reason}")

    def _look_around(self) -> None:
        begun = time.monotonic()
        if begun >= self._ask_at:
            self._done = committed(self._storage)
            self._running.progress(status_of(self._plan, self._done, self._failed))
            self._ask_at = begun + max(REFRESH_S, REFRESH_SHARE * (time.monotonic() - begun))
