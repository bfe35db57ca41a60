"""``python -m cxrtext.experiments.run_process FOLDER``: train and measure one run.

A process of its own for each run, so that rows train side by side and one that fails or dies takes
no other along.  It ends with whoever started it: when its standard input closes, it stops as on
Ctrl-C, saving its state.
"""

import sys
from pathlib import Path

from cxrtext.config import Config, load_config
from cxrtext.errors import CxrTextError
from cxrtext.experiments.child import TRAINED, end_with_parent, listener_of, say, seconds_spent
from cxrtext.experiments.runs import CONFIG, JOB
from cxrtext.experiments.stages import noted_in
from cxrtext.files import write_sealed
from cxrtext.training import train
from cxrtext.training.build import choose_device


def _train(folder: Path, config: Config) -> None:
    if (folder / TRAINED).is_file() and (config.out / "checkpoint").is_dir():
        return
    # A run that was killed before its first state was saved starts afresh.
    resume = (config.out / "state").is_dir()
    summary = train(config, resume=resume, listener=listener_of(folder))
    write_sealed(
        folder / TRAINED,
        {"steps": summary.steps, "images": summary.images, "seconds": seconds_spent(folder)},
    )


def main(arguments: list[str] | None = None) -> int:
    """Train and measure the run of a folder; returns the exit code."""
    from cxrtext.experiments.measuring import measure

    folder = Path((arguments if arguments is not None else sys.argv[1:])[0])
    try:
        job = noted_in(folder / JOB)
        config = load_config(folder / CONFIG)
        _train(folder, config)
        noted = {
            "configuration": config.model_dump(mode="json"),
            "budget": noted_in(folder / TRAINED),
        }
        say("measuring")
        device = str(choose_device(config.training.device))
        measure(folder, config.out / "checkpoint", job, device, noted)
    except CxrTextError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())
