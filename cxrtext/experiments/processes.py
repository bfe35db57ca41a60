"""Runs side by side, a process each: started, watched, stopped."""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.experiments.experiment import ExperimentListener, Measure
from cxrtext.experiments.stages import FORMAT, METRICS, RESAMPLED, Measures, read_json
from cxrtext.images.sandbox_worker import cores

MODULE = "cxrtext.experiments.child"
"""Trains and measures the run of the folder that is its argument."""
LOG = "log.txt"
"""What a run says, in its folder."""
Failures = Mapping[str, Sequence[Mapping[str, Any]]]
"""By row: ``seed`` (None for all of them) and ``line``."""
POLL_SECONDS = 0.2
STOP_SECONDS = 120.0
"""How long a run may take to save its state when it is stopped."""
_STEP = re.compile(rb"^step (\d+)/\d+ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """One training of one row, in a folder of its own.

    The folder holds what is to be done (``job.json``, of table 1 also ``train.yaml``) and what
    came of it: ``train/``, ``metrics.json``, ``resampled.npz`` and ``log.txt``.

    Runs of a ``group``, the table that the row stands in, are measured on the same images.
    ``settings`` are of a training on views, as plain values.
    """

    row: str
    seed: int
    folder: Path
    steps: int
    group: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.row}, seed {self.seed}"

    @property
    def key(self) -> tuple[str, int]:
        return self.row, self.seed

    def is_done(self) -> bool:
        metrics = read_json(self.folder / METRICS)
        known = metrics is not None and metrics.get("format") == FORMAT
        return known and (self.folder / RESAMPLED).is_file()


@dataclass(frozen=True, slots=True)
class Plan:
    """Runs, a line for each row that these data cannot train, and the notes of the preparation."""

    runs: list[Run]
    missing: dict[str, str]
    stages: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Finished:
    run: Run
    metrics: dict[str, Any]
    measures: Measures

    def record(self, measures: Iterable[Measure], recipe: Mapping[str, Any]) -> dict[str, Any]:
        metrics, budget = self.metrics, self.metrics["budget"]
        known = (one.name for one in measures if one.name in self.measures)
        return {
            "seed": self.run.seed,
            "steps": budget["steps"],
            "seconds": budget["seconds"],
            "images_seen": budget["images"],
            "measures": {name: self.measures[name].value for name in known},
            **{key: metrics[key] for key in ("machine", "threads", "versions")},
            **recipe,
        }


@dataclass(slots=True)
class Child:
    """A run under way, and when it was begun, by the monotonic clock."""

    run: Run
    process: "subprocess.Popen[bytes]"
    begun: float


def start(run: Run, threads: int, listener: ExperimentListener) -> Child:
    """Start a run with so many threads; says when another process has to end first."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
    }
    with (run.folder / "lock").open("a") as lock, (run.folder / LOG).open("ab") as log:
        # The child inherits the lock and holds it as long as it lives, whatever becomes of us.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            listener.say(f"{run.name}: waiting for the process of a stopped experiment to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", MODULE, str(run.folder)],
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


def _tail(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - 4096))
        return handle.read()
    return b""


def steps_done(run: Run) -> int:
    if run.is_done():
        return run.steps
    said = _STEP.findall(_tail(run.folder / LOG))
    return int(said[-1]) if said else 0


def failure_line(run: Run, code: int) -> str:
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
    """Do what is not done, ``parallel`` at a time, in order; gives the line of each that failed."""
    waiting = [run for run in runs if not run.is_done()]
    finished = sum(run.steps for run in runs if run not in waiting)
    total = sum(run.steps for run in runs)
    threads = max(1, cores() // max(1, min(parallel, len(waiting) or 1)))
    failures: dict[tuple[str, int], str] = {}
    children: list[Child] = []
    shown = -1
    if len(waiting) < len(runs):
        listener.say(f"done by an earlier run: {len(runs) - len(waiting)} of {len(runs)}")
    try:
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
    finally:
        stop(children)
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
