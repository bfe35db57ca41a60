"""What the process of a run does beside its work: tells how far it is, and ends with its parent."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Protocol

from cxrtext.files import read_sealed, write_sealed
from cxrtext.training import Listener

SPENT, TRAINED = "spent.json", "trained.json"
"""Seconds spent on training so far, and what the training came to."""

NOTE_SECONDS = 2.0
"""How often a line is printed and the seconds spent are noted."""


class _Step(Protocol):
    """What is read of a step's report."""

    @property
    def step(self) -> int:
        """The step, from 1."""

    @property
    def loss(self) -> float:
        """Its mean loss."""


def end_with_parent() -> None:
    """Stop as on Ctrl-C when standard input closes, as it does when the parent dies."""

    def wait() -> None:
        # Not through sys.stdin: its lock, held by this thread, would break the end of Python.
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def say(text: str) -> None:
    """Print a line."""
    print(text, flush=True)  # noqa: T201


def seconds_spent(folder: Path) -> float:
    """Seconds spent on training so far, earlier processes of the run included."""
    try:
        return float(read_sealed(folder / SPENT)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def listener_of(folder: Path) -> Listener:
    """Who prints a run's steps and notes the seconds spent in its folder."""
    before, begun = seconds_spent(folder), time.monotonic()
    last = [begun]

    def step(report: _Step, total: int) -> None:
        now = time.monotonic()
        if report.step < total and now - last[0] < NOTE_SECONDS:
            return
        last[0] = now
        write_sealed(folder / SPENT, {"seconds": round(before + now - begun, 1)})
        say(f"step {report.step}/{total}  loss {report.loss:.4f}")

    return Listener(say=say, step=step)
