"""From the shards that are missing to those that are there.

Nothing is kept here that is needed later: a driver that is killed is started again and finds on the
storage what is done.  Two drivers of one job do no harm, as a shard has the same bytes whoever
makes it; they only do some work twice, which :class:`Part` avoids.

A shard whose process is lost is tried again.  Lost again, its rows are tried in halves, without
committing anything, until the rows are found that end a process each time they are tried alone;
those are noted in ``aside/`` and the shard is made without them.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice

from cxrtext.errors import InputError, NotFoundError, WorkError
from cxrtext.files.storage import Storage
from cxrtext.jobs.engines.engine import Engine, Outcome, Task
from cxrtext.jobs.plan import Plan
from cxrtext.jobs.shards import ShardFile, committed
from cxrtext.jobs.status import JobStatus, failures, forget_failure, note_failure, status_of
from cxrtext.records import ImageRecord

ASIDE = "aside/"
"""Folder of notes on rows that were set aside, one ``000012.json`` a shard."""

TRIES = 2  # how often something is tried whose process is lost
MAX_ASIDE = 8  # rows of one shard that may be set aside: more than that is no matter of rows
REFRESH_S = 2.0  # how often the storage is asked what others have done, at most,
REFRESH_SHARE = 50  # and after how many times the time that it takes to ask
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """Which shards a driver makes: all, or every ``of``-th from the ``number``-th, from 1."""

    number: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise ValueError("a part is written I/N, with I from 1 to N")

    def has(self, shard: int) -> bool:
        """Whether a shard, from 0, is of this part."""
        return shard % self.of == self.number - 1


@dataclass(frozen=True, slots=True)
class Running:
    """How a driver works, and whom it tells."""

    part: Part = Part()
    say: Callable[[str], None] = lambda _: None
    progress: Callable[[JobStatus], None] = lambda _: None


@dataclass(slots=True)
class _Search:
    """Which rows of a shard end the process that has them."""

    task: Task  # the whole shard
    left: list[tuple[int, ...]]  # indices of rows, to be tried together
    tries: int = 0  # of the first of them
    found: dict[int, str] = field(default_factory=dict)  # places, and how their process ended

    @classmethod
    def of(cls, task: Task) -> "_Search":
        # First no row at all: what ends a process even so is no fault of an image.
        return cls(task, [(), *_halves(tuple(range(len(task.rows))))])

    def next(self) -> Task:
        """The part to be tried now."""
        chosen = self.left[0]
        return replace(
            self.task,
            rows=tuple(self.task.rows[i] for i in chosen),
            places=tuple(self.task.places[i] for i in chosen),
            keep=False,
        )

    def take(self, lost: str | None) -> None:
        """Take what became of the part; raises WorkError where no row is to blame."""
        some, self.tries = self.left[0], self.tries + 1
        if lost is not None and len(some) <= 1 and self.tries < TRIES:
            return
        self.left.pop(0)
        self.tries = 0
        if lost is None:
            return
        if not some:
            raise WorkError(
                f"a worker ends ({lost}) before it has an image: look at its memory and device, "
                "or take fewer workers; what is done is kept"
            )
        if len(some) == 1:
            self.found[self.task.places[some[0]]] = lost
        else:
            self.left[:0] = _halves(some)


def _halves(rows: tuple[int, ...]) -> list[tuple[int, ...]]:
    middle = len(rows) // 2
    return [half for half in (rows[:middle], rows[middle:]) if half]


def aside_of(storage: Storage) -> dict[int, dict[int, str]]:
    """Places that were set aside, and why, by shard."""
    found = {}
    for name in storage.names(ASIDE):
        try:
            noted = json.loads(storage.read(name))
        except NotFoundError:  # removed meanwhile, so that its rows are tried again
            continue
        found[int(noted["number"])] = {int(place): str(why) for place, why in noted["places"]}
    return found


def without(task: Task, aside: Mapping[int, str]) -> Task:
    """A task without the rows that were set aside."""
    kept = [i for i, place in enumerate(task.places) if place not in aside]
    return replace(
        task,
        rows=tuple(task.rows[i] for i in kept),
        places=tuple(task.places[i] for i in kept),
        aside=tuple(sorted({**dict(task.aside), **aside}.items())),
    )


def image_tasks(
    records: Iterable[ImageRecord], size: int, start_s: float, each_s: float
) -> Iterator[Task]:
    """The task of each shard of so many images, its rows (path, name) read when they are wanted.

    It may take ``start_s`` seconds and ``each_s`` for each image before its worker counts as lost.
    """
    left = iter(records)
    for number in count():
        rows = tuple((str(record.path), record.name) for record in islice(left, size))
        if not rows:
            return
        yield Task(number, rows, tuple(range(len(rows))), limit_s=start_s + each_s * len(rows))


def drive(
    storage: Storage,
    plan: Plan,
    tasks: Iterable[Task],
    start: Callable[[], Engine],
    running: Running | None = None,
) -> JobStatus:
    """Make the shards that are missing.

    Args:
        storage: Where they are committed.
        plan: The job.
        tasks: The task of every shard, in order; read as far ahead as the engine needs.
        start: Starts the engine; called only where something is missing.
        running: Which of the shards, and whom to tell.

    Returns:
        How far the job is then.

    Raises:
        WorkError: Some shards could not be made; all others were.
        InputError: The input is wrong on the machine that works; nothing more was tried.
    """
    running = running or Running()
    done = committed(storage)
    missing = [n for n in range(plan.shards) if n not in done and running.part.has(n)]
    if missing:
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
    ours = {n: why for n, why in status.failures.items() if running.part.has(n)}
    if ours:
        number, why = min(ours.items())
        raise WorkError(
            f"{storage.address}: {len(ours)} of {plan.shards} shards could not be made, the first "
            f"{number}: {why}; run the same command again to try them again"
        )
    return status


class _Drive:
    """One run of a driver."""

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
        self._aside = aside_of(storage)
        self._tries: Counter[int] = Counter()
        self._searches: dict[int, _Search] = {}
        self._searched: set[int] = set()
        self._under_way = 0
        self._ask_at = time.monotonic() + REFRESH_S

    def run(self, tasks: Iterable[Task]) -> None:
        wanted = self._wanted(tasks)
        self._running.progress(status_of(self._plan, self._done, {}))
        more = True
        while more or self._under_way:
            while more and self._under_way < 2 * self._engine.slots:
                task = next(wanted, None)
                if task is None:
                    more = False
                else:
                    self._submit(task)
            if self._under_way:
                outcome = self._engine.next(WAIT_S)
                if outcome is not None:
                    self._under_way -= 1
                    self._take(outcome)
            self._look_around()

    def _wanted(self, tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            if self._running.part.has(task.number) and task.number not in self._done:
                yield without(task, self._aside.get(task.number, {}))

    def _submit(self, task: Task) -> None:
        self._engine.submit(task)
        self._under_way += 1

    def _take(self, outcome: Outcome) -> None:
        number = outcome.task.number
        if isinstance(outcome.error, InputError):
            raise outcome.error
        lost = outcome.lost
        if outcome.error is not None:  # a disk or a network, and no fault of a row
            self._again_or_fail(outcome.task, str(outcome.error))
        elif number in self._searches:
            self._go_on_searching(self._searches[number], lost)
        elif lost is None:
            return
        else:
            self._tries[number] += 1
            if self._tries[number] < TRIES:
                self._running.say(f"shard {number}: its worker is gone ({lost}); it is made again")
                self._submit(outcome.task)
            elif number in self._searched or not outcome.task.rows:
                self._fail(number, f"its worker was lost {TRIES} times ({lost})")
            else:
                self._running.say(
                    f"shard {number}: its worker is gone again ({lost}); looking for the "
                    f"{self._plan.unit} that end it"
                )
                self._searches[number] = search = _Search.of(outcome.task)
                self._submit(search.next())

    def _go_on_searching(self, search: _Search, lost: str | None) -> None:
        search.take(lost)
        is_over = len(search.found) > MAX_ASIDE
        if search.left and not is_over:
            self._submit(search.next())
            return
        number = search.task.number
        del self._searches[number]
        self._searched.add(number)
        self._tries[number] = 0
        if is_over:
            what = f"more than {MAX_ASIDE} of its {self._plan.unit} each end a worker"
            self._fail(number, f"{what} ({lost}): look at its memory, its device and the files")
            return
        aside = {place: f"ended its process ({how})" for place, how in search.found.items()}
        if aside:
            noted = {"number": number, "places": sorted(aside.items())}
            self._storage.commit(f"{ASIDE}{number:06d}.json", json.dumps(noted).encode())
            self._running.say(
                f"shard {number}: {len(aside)} of {len(search.task.rows)} {self._plan.unit} set "
                "aside: alone, they end the process that has them"
            )
        self._submit(without(search.task, aside))

    def _again_or_fail(self, task: Task, reason: str) -> None:
        self._searches.pop(task.number, None)
        self._tries[task.number] += 1
        if self._tries[task.number] > TRIES or not task.keep:
            self._fail(task.number, reason)
        else:
            self._submit(task)

    def _fail(self, number: int, reason: str) -> None:
        self._failed[number] = reason
        note_failure(self._storage, number, reason)
        self._running.say(f"shard {number}: {reason}")

    def _look_around(self) -> None:
        """Ask the storage what is done, by others, too."""
        begun = time.monotonic()
        if begun >= self._ask_at:
            self._done = committed(self._storage)
            self._running.progress(status_of(self._plan, self._done, self._failed))
            taken = time.monotonic() - begun
            self._ask_at = begun + max(REFRESH_S, REFRESH_SHARE * taken)
