"""Waiting for what must happen, for longer than the busiest machine needs."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 600.0


def until(happened: Callable[[], object]) -> None:
    """Look until it has happened, and fail where it does not."""
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, f"it has not happened within {PATIENCE_S:g} s"
        time.sleep(0.005)


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
