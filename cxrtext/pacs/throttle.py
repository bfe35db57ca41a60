"""How fast and when a peer is asked: requests a second, hours of the day, waits after failures."""

import math
import random
import threading
import time
from collections.abc import Callable
from datetime import datetime

from cxrtext.pacs.peers import Limits

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
LONGEST_ASKED_S = 300.0
"""A peer that asks for a longer wait is asked again after this one."""


def back_off(attempt: int, asked: float | None = None) -> float:
    """Seconds to wait after a failure: twice as long each time, with chance, or as asked for."""
    if asked is not None:
        return min(max(asked, 0.0), LONGEST_ASKED_S)
    longest = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Throttle:
    """Lets requests of all threads through one after the other, within a peer's limits."""

    def __init__(self, limits: Limits, say: Callable[[str], None] | None = None) -> None:
        self._between = 1.0 / limits.requests_per_second
        self._window = limits.window
        self._say = say
        self._lock = threading.Lock()
        self._next = -math.inf
        self.stopped = threading.Event()

    def wait(self) -> None:
        """Wait until a request may be sent; at once after `stopped` is set."""
        while self._window is not None and not self.stopped.is_set():
            closed = self._window.opens_in(datetime.now().astimezone()).total_seconds()
            if closed <= 0:
                break
            if self._say is not None:
                self._say(f"outside of {self._window}: waiting")
                self._say = None
            self.stopped.wait(min(closed, 60.0))
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._between
        self.pause(at - now)

    def hold(self, seconds: float) -> None:
        """Let no request through for some time: the peer asked for it."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)

    def pause(self, seconds: float) -> None:
        """Sleep, or less where `stopped` is set."""
        if seconds > 0:
            self.stopped.wait(seconds)
