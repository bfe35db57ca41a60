"""Stopping between two steps instead of in the middle of one."""

import signal
import threading
from types import FrameType, TracebackType


class StopRequest:
    """Holds back SIGINT and SIGTERM while it is open; ``requested`` tells whether one came.

    A second signal is not held back: it raises ``KeyboardInterrupt`` at once.  Outside the main
    thread, where Python allows no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, object] = {}

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
