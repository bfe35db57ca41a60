"""One thread that runs the model, and batches the work of several requests.

It never waits for a fuller batch: while it is busy, the next one gathers by itself.  Long work is
done in short turns, with other batches in between.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from cxrtext.pausing import Pausing
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.scope import Budget, Busy, RequestScope

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

TURN_SECONDS = 0.01  # how long one turn of pausing work lasts

Outcome = tuple[Any, BaseException | None]  # a result, or the error


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Generic[Item, Result]):
    """A kind of work that is faster for several items together."""

    name: str  # for metrics
    work: Callable[[Sequence[Item]], Sequence[Result]]  # gives one result per item
    max_weight: int  # of the items done together; a single one may weigh more
    weigh: Callable[[Item], int] = lambda _: 1  # by default items are counted


@dataclass(slots=True, eq=False)
class _Job:
    batch: Batch[Any, Any]
    item: Any
    future: "asyncio.Future[Any]"
    seconds: float = 0.0


class Engine:
    """A thread for the model, with a bounded queue.

    A request takes one of ``limit`` places when it first needs the model, and keeps it until it is
    answered: accepted requests are finished, others are turned away before they cost anything.
    Calls raise :class:`.Busy` if the queue is full, or if nobody waits for the answer any more.
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self._places = Budget(limit)
        self._metrics = metrics
        self._calls: Batch[Callable[[], Any], Any] = Batch(
            "call", lambda calls: [call() for call in calls], 1
        )
        self._turns: Batch[Pausing[Any], Any] = Batch("turns", list, 1)
        self._jobs: deque[_Job] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="model", daemon=True)
        self._thread.start()

    def enter(self, scope: RequestScope) -> None:
        if scope.holds(self):
            return
        if not self._places.take(1):
            raise Busy
        scope.hold(self, partial(self._places.give, 1))

    async def call(
        self, scope: RequestScope, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        call: Callable[[], T] = partial(function, *args, **kwargs)
        result: T = await self.do(scope, self._calls, call)
        return result

    async def work(self, scope: RequestScope, work: Pausing[T]) -> T:
        """Do work in turns on the thread; it ends when nobody waits for its result any more."""
        result: T = await self.do(scope, self._turns, work)
        return result

    async def do(self, scope: RequestScope, batch: Batch[Item, Result], item: Item) -> Result:
        """Do an item together with waiting items of its kind."""
        self.enter(scope)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        job = _Job(batch, item, future)
        with self._ready:
            if self._closed:
                raise Busy
            self._jobs.append(job)
            self._ready.notify()
        self._metrics.queue.labels("model").set(len(self._jobs))
        future.add_done_callback(partial(self._forget, job))
        return await scope.outcome(future)

    def _forget(self, job: _Job, future: "asyncio.Future[Any]") -> None:
        if not future.cancelled():
            return
        with self._ready:
            if job in self._jobs:
                self._jobs.remove(job)

    def _serve(self) -> None:
        while True:
            with self._ready:
                jobs = self._next()
            if jobs is None:
                return
            # Jobs canceled a moment ago may still be in the queue.
            wanted = [job for job in jobs if not job.future.cancelled()]
            if not wanted:
                continue
            begun = time.perf_counter()
            if wanted[0].batch is self._turns:
                self._go_on(wanted[0])
            else:
                outcomes = _do_together(wanted[0].batch, [job.item for job in wanted])
                self._settle(wanted, outcomes, time.perf_counter() - begun)

    def _next(self) -> list[_Job] | None:
        """The jobs to do next, once there are some; None at the end."""
        while not self._jobs:
            if self._closed:
                return None
            self._ready.wait()
        return self._take()

    def _take(self) -> list[_Job]:
        first = self._jobs.popleft()
        taken, weight = [first], first.batch.weigh(first.item)
        others: list[_Job] = []
        while self._jobs and weight < first.batch.max_weight:
            job = self._jobs.popleft()
            if job.batch is first.batch:
                weight += job.batch.weigh(job.item)
            fits = job.batch is first.batch and weight <= first.batch.max_weight
            (taken if fits else others).append(job)
        self._jobs.extendleft(reversed(others))
        return taken

    def _go_on(self, job: _Job) -> None:
        """Do one turn of pausing work; unfinished work queues for its next turn."""
        begun = time.perf_counter()
        result: Any = None
        failure: Exception | None = None
        done = False
        try:
            while time.perf_counter() - begun < TURN_SECONDS and not job.future.cancelled():
                next(job.item)
        except StopIteration as end:
            result, done = end.value, True
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            failure, done = error, True
        job.seconds += time.perf_counter() - begun
        if done:
            self._settle([job], [(result, failure)], job.seconds)
        elif job.future.cancelled():
            job.item.close()
        else:
            with self._ready:
                self._jobs.append(job)

    def _settle(self, jobs: list[_Job], outcomes: list[Outcome], seconds: float) -> None:
        batch = jobs[0].batch
        futures = [job.future for job in jobs]  # all on the server's only loop
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            futures[0].get_loop().call_soon_threadsafe(_set_results, futures, outcomes)
        self._metrics.stages.labels(batch.name).observe(seconds)
        self._metrics.observe_batch(batch.name, len(jobs))
        self._metrics.queue.labels("model").set(len(self._jobs))

    def close(self) -> None:
        """Finish accepted work and end the thread; do not call it on the event loop."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join()


def _set_results(futures: "list[asyncio.Future[Any]]", outcomes: list[Outcome]) -> None:
    for future, (result, error) in zip(futures, outcomes, strict=True):
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _do_together(batch: Batch[Any, Any], items: Sequence[Any]) -> list[Outcome]:
    try:
        results = list(batch.work(items))
        if len(results) != len(items):
            raise RuntimeError(f"{len(results)} results of {len(items)} items")
        return [(result, None) for result in results]
    except Exception as error:  # noqa: BLE001 - raised where it was asked for
        if len(items) == 1:
            return [(None, error)]
    return [outcome for item in items for outcome in _do_together(batch, [item])]
