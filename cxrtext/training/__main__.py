"""``python -m cxrtext.training CONFIG``: train without a terminal library."""

import argparse
import sys
import time
from pathlib import Path

from cxrtext.config import load_config
from cxrtext.errors import CxrTextError
from cxrtext.training.loop import StepReport
from cxrtext.training.run import Listener, train


def _line(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _listener(every: int) -> Listener:
    begun = time.monotonic()
    first: list[int] = []

    def step(report: StepReport, total: int) -> None:
        first.append(report.step) if not first else None
        if report.step % every and report.step != total:
            return
        spent = time.monotonic() - begun
        done = report.step - first[0] + 1
        left = spent / done * (total - report.step)
        _line(
            f"step {report.step}/{total}  loss {report.loss:.4f}  accuracy {report.accuracy:.3f}  "
            f"{report.images_per_second:.0f} images/s  {left:.0f} s left"
        )

    return Listener(say=_line, step=step)


def main(arguments: list[str] | None = None) -> int:
    """Run a training; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cxrtext.training")
    parser.add_argument("config", type=Path, nargs="?", help="YAML file")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="A.B=C")
    parser.add_argument("--resume", action="store_true", help="go on from the state in 'out'")
    options = parser.parse_args(arguments)
    try:
        config = load_config(options.config, options.overrides)
        summary = train(
            config, resume=options.resume, listener=_listener(config.training.log_every)
        )
    except CxrTextError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; go on with --resume", file=sys.stderr)  # noqa: T201
        return 130
    _line(f"checkpoint: {summary.checkpoint}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
