"""Threads for work that would block the event loop, with a bounded queue before them."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from cxrtext.pausing import Pausing
from cxrtext_api.asking import Busy, asking
from cxrtext_api.places import Pace
from cxrtext_api.watch import Watch

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Busy", "Workers"]


class Workers:
    """Threads that take one call each at a time.

    Args:
        name: Name of the threads.
        threads: How many.
        limit: How many calls may be running or waiting.
        seconds: How long a call may take, where no request sets another limit.
        watch: Told of the queue and of times.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        limit: int,
        seconds: float = 30.0,
        watch: Watch | None = None,
    ) -> None:
        self._name = name
        self._watch = watch or Watch()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threading.BoundedSemaphore(limit)
        self._seconds = seconds
        self._pace = Pace(threads)
        self._waiting = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on one of the threads.

        Raises:
            Busy: The queue is full, or the answer is not wanted any more before it is there.
        """
        return await self._run(lambda _: function(*args, **kwargs))

    async def work(self, work: Pausing[T]) -> T:
        """Do work that pauses on one of the threads; it ends where its result is not wanted.

        Raises:
            Busy: As of :meth:`run`.
        """

        def go_on(wanted: Callable[[], bool]) -> T:
            try:
                while wanted():
                    next(work)
            except StopIteration as end:
                result: T = end.value
                return result
            work.close()
            raise Busy

        return await self._run(go_on)

    async def _run(self, function: Callable[[Callable[[], bool]], T]) -> T:
        """Call a function, which is told how to find out whether its result is still wanted."""
        given_up = threading.Event()

        def timed() -> T:
            begun = time.perf_counter()
            try:
                return function(lambda: not given_up.is_set())
            finally:
                seconds = time.perf_counter() - begun
                self._pace.note(seconds)
                self._watch.stage(self._name, seconds)

        if not self._places.acquire(blocking=False):
            raise Busy(self._pace.wait(self._waiting))
        try:
            future = self._pool.submit(timed)
        except BaseException:
            self._places.release()
            raise
        self._waiting += 1
        self._watch.queue(self._name, self._waiting)
        # The place is free when the call is over, or taken back before it began, and not already
        # when the caller has gone away.
        future.add_done_callback(lambda _: self._places.release())
        try:
            return await asking(self._seconds).outcome(asyncio.wrap_future(future))
        except BaseException:
            given_up.set()
            future.cancel()  # at once, where it waits
            raise
        finally:
            self._waiting -= 1
            self._watch.queue(self._name, self._waiting)

    def close(self) -> None:
        """Finish what was accepted."""
        self._pool.shutdown(wait=True)
