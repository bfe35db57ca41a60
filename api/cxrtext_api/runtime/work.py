"""Threads for blocking work, and how much may wait for them."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.scope import Busy, RequestScope

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads that each take one call at a time; at most ``limit`` calls may run or wait.

    Every call belongs to a request.  It raises :class:`.Busy` if the queue is full, or if nobody
    waits for the answer any more.
    """

    def __init__(self, name: str, threads: int, limit: int, metrics: Metrics) -> None:
        self._name = name
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threading.BoundedSemaphore(limit)
        self._waiting = 0

    async def run(
        self, scope: RequestScope, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def timed() -> T:
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._metrics.stages.labels(self._name).observe(time.perf_counter() - begun)

        if not self._places.acquire(blocking=False):
            raise Busy
        try:
            future = self._pool.submit(timed)
        except BaseException:
            self._places.release()
            raise
        self._waiting += 1
        self._metrics.queue.labels(self._name).set(self._waiting)
        # The place becomes free when the call has ended or was canceled before it began, not when
        # the caller goes away.
        future.add_done_callback(lambda _: self._places.release())
        try:
            return await scope.outcome(asyncio.wrap_future(future))
        except BaseException:
            future.cancel()  # works at once if it still waits
            raise
        finally:
            self._waiting -= 1
            self._metrics.queue.labels(self._name).set(self._waiting)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
