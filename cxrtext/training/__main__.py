"""``python -m cxrtext.training CONFIG``: train without a terminal library."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from cxrtext.config import load_config
from cxrtext.errors import CxrTextError
from cxrtext.training.image_text import train
from cxrtext.training.loop.job import StepReport
from cxrtext.training.loop.steps import Listener


def main(arguments: list[str] | None = None) -> int:
    """Run a training and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cxrtext.training")
    parser.add_argument("config", type=Path, nargs="?", help="YAML file")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="A.B=C")
    parser.add_argument("--resume", action="store_true", help="resume from the state in 'out'")
    options = parser.parse_args(arguments)
    first = os.environ.get("RANK", "0") == "0"  # of torchrun's processes
    say, complain = partial(print, flush=True), partial(print, file=sys.stderr)

    try:
        config = load_config(options.config, options.overrides)
    except CxrTextError as error:
        complain(f"error: {error}") if first else None
        return error.exit_code

    def step(report: StepReport, total: int) -> None:
        if report.step % config.training.log_every == 0 or report.step == total:
            say(
                f"step {report.step}/{total}  loss {report.loss:.4f}  "
                f"accuracy {report.accuracy:.3f}  {report.images_per_second:.0f} images/s"
            )

    try:
        summary = train(config, resume=options.resume, listener=Listener(say=say, step=step))
    except CxrTextError as error:
        complain(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        complain("stopped; resume with --resume") if first else None
        return 130
    if first:
        say(f"checkpoint: {summary.checkpoint}")
        if summary.best:
            say(f"best by {config.training.best}: {summary.best}, step {summary.best_step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
