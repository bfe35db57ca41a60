"""How fast and how often to ask a peer: through its busy times and its restarts."""

import math
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from cxrtext.errors import WorkError
from cxrtext.pacs.faults import BusyError, GoneError
from cxrtext.pacs.peers import Limits

Answer = TypeVar("Answer")

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
LONGEST_ASKED_S = 300.0  # the longest wait that a peer can ask for
TRIES = 5  # how often to ask a followed peer that is busy or gone


def back_off(attempt: int, asked: float | None = None) -> float:
    """Seconds to wait after a failure: what the peer asks for, else doubling, with jitter."""
    if asked is not None:
        return min(max(asked, 0.0), LONGEST_ASKED_S)
    longest = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Throttle:
    """Spaces the requests of all threads by a peer's limits."""

    def __init__(
        self, limits: Limits, stopped: threading.Event | None = None, *, tries: int | None = None
    ) -> None:
        self._between = 1.0 / limits.requests_per_second
        self._tries = tries or TRIES
        self._lock = threading.Lock()
        self._next = -math.inf
        self.stopped = stopped or threading.Event()

    def patiently(self, peer: str, ask: Callable[[], Answer]) -> Answer:
        """Ask, and ask again a few times while the peer is busy or gone (PeerError)."""
        tries = 0
        while not self.stopped.is_set():
            self._wait()
            try:
                return ask()
            except (GoneError, BusyError) as error:
                tries += 1
                if tries >= self._tries:
                    raise
                with self._lock:  # the other threads wait, too
                    hold = time.monotonic() + back_off(tries, error.retry_after)
                    self._next = max(self._next, hold)
        raise WorkError(f"{peer}: stopped")

    def _wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._between
        if at > now:
            self.stopped.wait(at - now)
