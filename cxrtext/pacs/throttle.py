"""How fast and how often a peer is asked: through its busy times and its restarts."""

import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Self, TypeVar

from cxrtext.errors import WorkError
from cxrtext.pacs.faults import BusyError, GoneError
from cxrtext.pacs.peers import Limits, Peer

Item = TypeVar("Item")
Answer = TypeVar("Answer")

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
LONGEST_ASKED_S = 300.0  # a peer that asks for a longer wait is asked again after this one
TRIES = 5  # how often the same is asked of a peer that is busy or gone


def back_off(attempt: int, asked: float | None = None) -> float:
    """Seconds to wait after a failure: twice as long each time, with chance, or as asked for."""
    if asked is not None:
        return min(max(asked, 0.0), LONGEST_ASKED_S)
    longest = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Throttle:
    """Lets requests of all threads through one after the other, within a peer's limits."""

    def __init__(self, limits: Limits, stopped: threading.Event | None = None) -> None:
        self._between = 1.0 / limits.requests_per_second
        self._lock = threading.Lock()
        self._next = -math.inf
        self.stopped = stopped or threading.Event()

    def wait(self) -> None:
        """Wait until a request may be sent; at once after `stopped` is set."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._between
        if at > now:
            self.stopped.wait(at - now)

    def hold(self, seconds: float) -> None:
        """Let no request through for some time: the peer is busy or gone."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


class Retrying:
    """Asks one peer with patience, on several threads; a context manager."""

    def __init__(self, peer: Peer, throttle: Throttle) -> None:
        self._peer, self._throttle = peer, throttle
        # The same ones for all: a thread keeps its connections to the peer.
        self._pool = ThreadPoolExecutor(peer.limits.parallel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def patiently(self, ask: Callable[[], Answer]) -> Answer:
        """Ask, and some times again where the peer is busy or gone (PeerError)."""
        tries = 0
        while not self._throttle.stopped.is_set():
            try:
                return ask()
            except (GoneError, BusyError) as error:
                tries += 1
                if tries == TRIES:
                    raise
                self._throttle.hold(back_off(tries, error.retry_after))
        raise WorkError(f"{self._peer.name}: stopped")

    def each(
        self, items: Iterable[Item], work: Callable[[Item], Answer]
    ) -> Iterator[tuple[Item, Answer]]:
        """Work on items on the threads that the peer allows; an error ends it after those begun."""
        running: dict[Future[Answer], Item] = {}
        try:
            for item in items:
                running[self._pool.submit(work, item)] = item
                if len(running) >= 2 * self._peer.limits.parallel:
                    yield from _done(running)
            while running:
                yield from _done(running)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                self._throttle.stopped.set()
            for future in running:
                future.cancel()
            wait(running)
            raise


def _done(running: "dict[Future[Answer], Item]") -> Iterator[tuple[Item, Answer]]:
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in finished:
        yield running.pop(future), future.result()
