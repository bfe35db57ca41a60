"""One thread that runs the model, and puts the work of several requests together.

It never waits for more to come: while it is busy the next batch gathers by itself.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from cxrtext_api.asking import Busy, asking
from cxrtext_api.batch import Batch, Outcome, do_together
from cxrtext_api.places import Budget, Pace
from cxrtext_api.watch import Watch

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Job:
    """An item that waits for its batch."""

    __slots__ = ("batch", "future", "item", "loop")

    def __init__(self, batch: Batch[Any, Any], item: Any, future: "asyncio.Future[Any]") -> None:
        self.batch, self.item, self.future = batch, item, future
        self.loop = future.get_loop()


class Engine:
    """A thread for the model, with a bounded queue before it.

    A request takes a place when it first wants the model, and keeps it until it is answered: what
    was let in is finished, and what is too much is turned away before it cost anything.

    Args:
        limit: Requests that may hold a place.
        seconds: How long work may take, where no request sets another limit.
        watch: Told of batches, times and the queue.
    """

    def __init__(self, limit: int, seconds: float = 30.0, watch: Watch | None = None) -> None:
        self._places = Budget(limit)
        self._seconds = seconds
        self._watch = watch or Watch()
        self._pace = Pace()
        self._calls: Batch[Callable[[], Any], Any] = Batch("call", _call_each, 1)
        self._jobs: deque[_Job] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="model", daemon=True)
        self._thread.start()

    def enter(self) -> Callable[[], None]:
        """Take a place, if the request has none yet.

        Returns:
            What ends the place where there is no request that keeps it.

        Raises:
            Busy: There is none left.
        """
        request = asking(self._seconds)
        if request.holds(self):
            return _nothing
        if not self._places.take(1):
            raise Busy(self._pace.wait(self._places.taken))
        give_back = partial(self._places.give, 1)
        if request.current:
            request.hold(self, give_back)
            return _nothing
        return give_back

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on the thread.

        Raises:
            Busy: The queue is full, or the answer is not wanted any more before it is there.
        """
        ask: Callable[[], T] = partial(function, *args, **kwargs)
        result: T = await self.do(self._calls, ask)
        return result

    async def do(self, batch: Batch[Item, Result], item: Item) -> Result:
        """Do an item together with what else of its kind waits.

        Raises:
            Busy: As of :meth:`call`.
        """
        leave = self.enter()
        try:
            future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            job = _Job(batch, item, future)
            with self._ready:
                if self._closed:
                    raise Busy
                self._jobs.append(job)
                self._ready.notify()
            self._watch.queue("model", len(self._jobs))
            future.add_done_callback(partial(self._forget, job))
            return await asking(self._seconds).outcome(future)
        finally:
            leave()

    def _forget(self, job: _Job, future: "asyncio.Future[Any]") -> None:
        """Take out what is no longer wanted, and what it holds in memory."""
        if not future.cancelled():
            return
        with self._ready:
            if job in self._jobs:
                self._jobs.remove(job)

    def _serve(self) -> None:
        while True:
            with self._ready:
                while not self._jobs and not self._closed:
                    self._ready.wait()
                if not self._jobs:
                    return
                # Those given up a moment ago may not be taken out yet.
                jobs = [job for job in self._take() if not job.future.cancelled()]
            if jobs:
                self._do(jobs)

    def _take(self) -> list[_Job]:
        """The job that has waited longest, and others of its kind."""
        first = self._jobs.popleft()
        taken = [first]
        others: list[_Job] = []
        while self._jobs and len(taken) < first.batch.most:
            job = self._jobs.popleft()
            (taken if job.batch is first.batch else others).append(job)
        self._jobs.extendleft(reversed(others))
        return taken

    def _do(self, jobs: list[_Job]) -> None:
        batch, begun = jobs[0].batch, time.perf_counter()
        outcomes = do_together(batch, [job.item for job in jobs])
        seconds = time.perf_counter() - begun
        self._pace.note(seconds / len(jobs))
        for loop in {job.loop for job in jobs}:
            told = [
                (job.future, outcome)
                for job, outcome in zip(jobs, outcomes, strict=True)
                if job.loop is loop
            ]
            try:
                loop.call_soon_threadsafe(_tell, told)
            except RuntimeError:  # the loop is closed: nobody waits any more
                continue
        self._watch.stage(batch.name, seconds)
        self._watch.batch(batch.name, len(jobs))
        self._watch.queue("model", len(self._jobs))

    def close(self) -> None:
        """Finish what was accepted, and end the thread; not to be called on the event loop."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join()


def _nothing() -> None:
    pass


def _call_each(functions: Any) -> list[Any]:
    return [function() for function in functions]


def _tell(told: "list[tuple[asyncio.Future[Any], Outcome]]") -> None:
    for future, (result, error) in told:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
