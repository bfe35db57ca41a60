"""How often a key may ask: a bucket of tokens each."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_BUCKETS = 10_000
"""Keys remembered at a time; the one unheard of for longest is forgotten first."""


class RateLimit:
    """Lets each key ask so often a minute (0: any number), in bursts of a quarter of that."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60
        self._burst = max(1.0, per_minute / 4)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key_id: str) -> int:
        """Take a token of a key; gives 0, or the whole seconds until there is one."""
        if not self._rate:
            return 0
        now = self._clock()
        tokens, then = self._buckets.pop(key_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        allowed = tokens >= 1
        self._buckets[key_id] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - tokens) / self._rate - 1e-6))
