"""Making a project or a model from Python: thin calls of what the commands call."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.config import check_config, load_config
from cxrtext.errors import InputError, WorkError

if TYPE_CHECKING:
    from cxrtext.project.project import Project
    from cxrtext.training import Listener, TrainSummary

COMMAND = "from cxrtext_cli import start; start()"


def fit(archive: str | Path, out: str | Path = "project", **options: Any) -> "Project":
    """Do what ``cxrtext fit`` does with an archive, and open the project.

    The options are those of the command, such as ``reports="reports.csv"``, ``budget="20m"``,
    ``encoder="microsoft/rad-dino"`` or ``link=True``.  What is done is not done again; progress
    goes to standard error.

    Raises:
        InputError: The archive or an option is wrong, in the command's own line.
        WorkError: A stage failed.
    """
    words = ["fit", str(archive), "--out", str(out)]
    for name, value in options.items():
        if value is None or value is False:
            continue
        if isinstance(value, Mapping):
            value = ",".join(f"{one}={of}" for one, of in value.items())
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    last = ""
    with subprocess.Popen(  # noqa: S603 - our own interpreter and command
        [sys.executable, "-P", "-c", COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        for line in process.stderr:
            sys.stderr.write(line)
            last = line.strip() or last
    if process.returncode:
        kind = InputError if process.returncode == InputError.exit_code else WorkError
        raise kind(last.removeprefix("error: ").removeprefix("Error: "))
    from cxrtext.project.project import open as open_project

    return open_project(out)


def train(
    config: Mapping[str, Any] | str | Path,
    *,
    resume: bool = False,
    listener: "Listener | None" = None,
) -> "TrainSummary":
    """Train an image-text model (ConfigError), as ``cxrtext train`` does.

    Args:
        config: The settings of ``cxrtext.yaml`` as a mapping of sections, its paths relative to the
            working folder; or the path of such a file.
        resume: Go on with the run in ``out``.
        listener: Hears of progress.
    """
    if isinstance(config, str | Path):
        loaded = load_config(Path(config))
    else:
        loaded = check_config(config, "settings")

    from cxrtext.training import train as run

    return run(loaded, resume=resume, listener=listener)
