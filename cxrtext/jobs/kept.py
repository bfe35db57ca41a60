"""What a worker process opens for a job, kept from task to task."""

import atexit
from collections.abc import Callable
from typing import Generic, TypeVar

W = TypeVar("W")  # the work, which says what is opened
T = TypeVar("T")


class Kept(Generic[W, T]):
    """Opens what a work needs, and keeps it until another work comes or the process ends.

    Args:
        open_for: Opens it.
        close: Ends what it started, such as processes.
    """

    def __init__(
        self, open_for: Callable[[W], T], close: Callable[[T], object] = lambda _: None
    ) -> None:
        self._open, self._end = open_for, close
        self._kept: tuple[W, T] | None = None
        atexit.register(self.close)

    def __call__(self, work: W) -> T:
        """What is open for a work; what was open for another is closed first."""
        if self._kept is None or self._kept[0] != work:
            self.close()
            self._kept = work, self._open(work)
        return self._kept[1]

    def close(self) -> None:
        """Close what is open."""
        if self._kept is not None:
            (_, opened), self._kept = self._kept, None
            self._end(opened)
