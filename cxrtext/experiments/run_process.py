"""``python -m cxrtext.experiments.run_process FOLDER``: train and measure one run.

A process of its own for each run, so that rows train side by side and one that fails or dies takes
no other along.  It ends with whoever started it: when its standard input closes, it stops as on
Ctrl-C, saving its state.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from cxrtext.config import Config, load_config
from cxrtext.errors import CxrTextError
from cxrtext.experiments.runs import CONFIG, JOB
from cxrtext.files import write_json
from cxrtext.training import Listener, train
from cxrtext.training.build import choose_device

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


def _end_with_parent() -> None:
    def wait() -> None:
        # Not through sys.stdin: its lock, held by this thread, would break the end of Python.
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def _line(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _seconds(folder: Path) -> float:
    try:
        return float(json.loads((folder / SPENT).read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _listener(folder: Path) -> Listener:
    before, begun = _seconds(folder), time.monotonic()
    last = [begun]

    def step(report: _Step, total: int) -> None:
        now = time.monotonic()
        if report.step < total and now - last[0] < NOTE_SECONDS:
            return
        last[0] = now
        write_json(folder / SPENT, {"seconds": round(before + now - begun, 1)})
        _line(f"step {report.step}/{total}  loss {report.loss:.4f}")

    return Listener(say=_line, step=step)


def _train(folder: Path, config: Config) -> None:
    if (folder / TRAINED).is_file() and (config.out / "checkpoint").is_dir():
        return
    # A run that was killed before its first state was saved starts afresh.
    resume = (config.out / "state").is_dir()
    summary = train(config, resume=resume, listener=_listener(folder))
    write_json(
        folder / TRAINED,
        {"steps": summary.steps, "images": summary.images, "seconds": _seconds(folder)},
    )


def main(arguments: list[str] | None = None) -> int:
    """Train and measure the run of a folder; returns the exit code."""
    from cxrtext.experiments.measuring import measure

    folder = Path((arguments if arguments is not None else sys.argv[1:])[0])
    try:
        job = json.loads((folder / JOB).read_text(encoding="utf-8"))
        config = load_config(folder / CONFIG)
        _train(folder, config)
        noted = {
            "configuration": config.model_dump(mode="json"),
            "budget": json.loads((folder / TRAINED).read_text(encoding="utf-8")),
        }
        _line("measuring")
        device = str(choose_device(config.training.device))
        measure(folder, config.out / "checkpoint", job, device, noted)
    except CxrTextError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    _end_with_parent()
    sys.exit(main())
