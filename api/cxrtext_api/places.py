"""How much may wait at a time, and how long it will take."""

import math

LONGEST_WAIT = 60


class Pace:
    """The time that a piece of work has taken lately.

    Args:
        at_once: Pieces that are done at a time.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._seconds: float | None = None

    def note(self, seconds: float) -> None:
        """Count a piece of work; the last ten or so make the mean."""
        before = seconds if self._seconds is None else self._seconds
        self._seconds = before + 0.1 * (seconds - before)

    def wait(self, ahead: int) -> int:
        """Whole seconds until as many pieces are done, 1 at least, as Retry-After wants them."""
        seconds = (self._seconds or 0.0) * (ahead + 1) / self._at_once
        return max(1, min(LONGEST_WAIT, math.ceil(seconds)))


class Budget:
    """An amount of which parts are taken and given back, on the event loop.

    Args:
        amount: All of it.
    """

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.taken = 0

    def take(self, part: int) -> bool:
        """Take a part, if it is there."""
        if self.taken + part > self.amount:
            return False
        self.taken += part
        return True

    def give(self, part: int) -> None:
        """Give a part back."""
        self.taken -= part
