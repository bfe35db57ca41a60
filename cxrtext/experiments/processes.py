"""Runs side by side, a process each: started, watched, stopped."""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from cxrtext.experiments.options import ExperimentListener

LOG = "log.txt"
"""What a run says, in its folder."""

POLL_SECONDS = 0.2
STOP_SECONDS = 120.0
"""How long a run may take to save its state when it is stopped."""

_STEP = re.compile(rb"^step (\d+)/\d+ ", re.MULTILINE)


class Run(Protocol):
    """What can be started: a training of a row, with a folder of its own."""

    @property
    def name(self) -> str:
        """As a person is told of it."""

    @property
    def key(self) -> tuple[str, int]:
        """Its row and seed."""

    @property
    def folder(self) -> Path:
        """Holds what the module is to do and what it leaves."""

    @property
    def steps(self) -> int:
        """How many there are to be."""

    @property
    def module(self) -> str:
        """Is run with the folder as its argument."""

    def is_done(self) -> bool:
        """Whether there is nothing left to do."""


@dataclass(slots=True)
class Child:
    """A run under way.

    Args:
        run: The run.
        process: Its process.
        begun: When it was started, by the monotonic clock.
    """

    run: Run
    process: "subprocess.Popen[bytes]"
    begun: float


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _wait_for_lock(lock: IO[str], run: Run, listener: ExperimentListener) -> None:
    """Take the lock of a run's folder, after a process that a killed experiment left there."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        listener.say(f"{run.name}: waiting for the process of a stopped experiment to end")
        fcntl.flock(lock, fcntl.LOCK_EX)


def start(run: Run, threads: int, listener: ExperimentListener) -> Child:
    """Start a run.

    Args:
        run: The run.
        threads: How many it may compute with.
        listener: Hears when another process has to end first.
    """
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
    }
    with (run.folder / "lock").open("a") as lock, (run.folder / LOG).open("ab") as log:
        # The child inherits the lock and holds it as long as it lives, whatever becomes of us.
        _wait_for_lock(lock, run, listener)
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", run.module, str(run.folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock.fileno(),),
            env=environment,
            # Ctrl-C in a terminal reaches us alone; we tell the children.
            start_new_session=True,
        )
    return Child(run, process, time.monotonic())


def stop(children: Sequence[Child]) -> None:
    """Stop runs and wait until their states are saved."""
    for child in children:
        if child.process.stdin:
            child.process.stdin.close()
    until = time.monotonic() + STOP_SECONDS
    for child in children:
        try:
            child.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()


@contextmanager
def _stopping(children: list[Child]) -> Iterator[None]:
    try:
        yield
    finally:
        stop(children)


def _tail(path: Path, size: int = 4096) -> bytes:
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - size))
            return handle.read()
    except OSError:
        return b""


def steps_done(run: Run) -> int:
    """How far a run says that it is."""
    if run.is_done():
        return run.steps
    said = _STEP.findall(_tail(run.folder / LOG))
    return int(said[-1]) if said else 0


def failure_line(run: Run, code: int) -> str:
    """Why a run failed, in one line."""
    lines = _tail(run.folder / LOG).decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    if code < 0:
        return f"killed by signal {-code}; see {run.folder / LOG} (was memory short?)"
    # Of an error that was not foreseen only the kind: its text may hold anything.
    kind = re.match(r"(?:\w+\.)*(\w+)", lines[-1]) if lines else None
    return f"ended with {kind[1] if kind else f'exit code {code}'}; see {run.folder / LOG}"


def run_all(
    runs: Sequence[Run], parallel: int, listener: ExperimentListener
) -> dict[tuple[str, int], str]:
    """Train and measure runs, so many at a time; a failure stops no other run.

    Args:
        runs: Those not done are started, in order.
        parallel: How many at a time.
        listener: Who hears how it goes.

    Returns:
        The line of each failure, by row and seed.
    """
    waiting = [run for run in runs if not run.is_done()]
    finished = sum(run.steps for run in runs if run not in waiting)
    total = sum(run.steps for run in runs)
    threads = max(1, cores() // max(1, min(parallel, len(waiting) or 1)))
    failures: dict[tuple[str, int], str] = {}
    children: list[Child] = []
    shown = -1
    if len(waiting) < len(runs):
        listener.say(f"done by an earlier run: {len(runs) - len(waiting)} of {len(runs)}")
    with _stopping(children):
        while waiting or children:
            while waiting and len(children) < parallel:
                (waiting[0].folder / LOG).write_bytes(b"")
                children.append(start(waiting.pop(0), threads, listener))
            time.sleep(POLL_SECONDS)
            for child in [c for c in children if c.process.poll() is not None]:
                children.remove(child)
                finished += child.run.steps
                _report(child, failures, listener)
            done = finished + sum(steps_done(child.run) for child in children)
            if done != shown:
                listener.progress("training", done, total, "steps")
                shown = done
    return failures


def _report(
    child: Child, failures: dict[tuple[str, int], str], listener: ExperimentListener
) -> None:
    if child.process.stdin:
        child.process.stdin.close()
    code, run = child.process.returncode, child.run
    if code == 0 and run.is_done():
        listener.say(f"{run.name}: done in {time.monotonic() - child.begun:.0f} s")
        return
    failures[run.key] = line = failure_line(run, code)
    listener.say(f"{run.name}: failed: {line}")
