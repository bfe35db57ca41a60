"""``python -m cxrtext.experiments NAME``: an experiment without a terminal library."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from cxrtext.errors import CxrTextError
from cxrtext.experiments import EXPERIMENTS, ExperimentListener, ExperimentOptions, run_experiment
from cxrtext.experiments.experiment import split_names

INTERVAL = 5.0
"""Seconds between two progress lines."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _listener() -> ExperimentListener:
    last: dict[str, float] = {}

    def progress(stage: str, done: int, total: int, unit: str) -> None:
        now = time.monotonic()
        if now - last.get(stage, now - INTERVAL) >= INTERVAL:
            last[stage] = now
            _say(f"{stage}: {done}/{total} {unit}")

    return ExperimentListener(say=_say, progress=progress)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = "; ".join(f"{name}: {what}" for name, what in EXPERIMENTS.items())
    parser = argparse.ArgumentParser(prog="python -m cxrtext.experiments")
    parser.add_argument("name", help=known)
    parser.add_argument("--scale", default="cpu", help="smoke, cpu, gpu or paper")
    parser.add_argument("--out", type=Path, help="folder; experiments/NAME-SCALE by default")
    parser.add_argument("--data", type=Path, help="data folder, or CIFAR-10 or MNIST file")
    parser.add_argument("--seeds", type=int, help="trainings a row; by default the scale's")
    parser.add_argument("--rows", help="names of rows, separated by commas; all by default")
    parser.add_argument("--parallel", type=int, default=1, help="rows trained at the same time")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the page")
    return parser.parse_args(arguments)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an experiment; returns the exit code: 1 where a row failed."""
    options = _options(arguments)
    try:
        outcome = run_experiment(
            options.name,
            ExperimentOptions(
                scale=options.scale,
                out=options.out,
                data=options.data,
                seeds=options.seeds,
                rows=split_names(options.rows),
                parallel=options.parallel,
            ),
            _listener(),
        )
    except CxrTextError as error:
        _say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("stopped; run the same command again to resume")
        return 130
    print(json.dumps(outcome.data, indent=2) if options.json else outcome.page)  # noqa: T201
    for line in outcome.failed:
        _say(f"failed: {line}")
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main())
