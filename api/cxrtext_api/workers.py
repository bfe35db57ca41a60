"""Threads for work that would block the event loop, with a bounded queue before each."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Busy(Exception):  # noqa: N818 - a state to wait out rather than an error
    """More requests wait than the server takes; the caller should come back."""


class Workers:
    """Threads that take one call each at a time.

    Args:
        name: Name of the threads.
        threads: How many.
        limit: How many calls may be running or waiting.
    """

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threading.BoundedSemaphore(limit)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on one of the threads.

        Raises:
            Busy: The queue is full.
        """
        if not self._places.acquire(blocking=False):
            raise Busy
        try:
            future = self._pool.submit(function, *args, **kwargs)
        except BaseException:
            self._places.release()
            raise
        # The place is free when the call is over, or taken back before it began, and not already
        # when the caller has gone away.
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let running calls end and forget those that wait."""
        self._pool.shutdown(wait=True, cancel_futures=True)
