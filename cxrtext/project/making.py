"""Make a project or a model from Python, with the same calls as the commands."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.config import check_config, load_config
from cxrtext.errors import DataError
from cxrtext.project.layout import RECIPE

if TYPE_CHECKING:
    from cxrtext.project.project import Project
    from cxrtext.training import Listener, TrainSummary


def fit(
    archive: str | Path,
    out: str | Path = "project",
    *,
    reports: str | Path | None = None,
    labels: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    encoder: str | Path | None = None,
    model: str | Path | None = None,
    budget: str | None = None,
    ids: str = "exact",
    follow_links: bool = False,
    link: bool = False,
) -> "Project":
    """Do what ``cxrtext fit`` does with an archive, and open the project.

    The options are those of the command, such as ``budget="20m"`` or
    ``encoder="microsoft/rad-dino"``.  Finished stages are not done again; progress goes to standard
    error.

    Raises:
        InputError: The archive or an option is wrong.
        WorkError: A stage failed.
    """
    from cxrtext.project.fitting import prepare
    from cxrtext.project.project import open as open_project
    from cxrtext.project.stages import Teller

    for path in (archive, reports, labels):
        if path is not None and not Path(path).exists():
            raise DataError(f"{path}: no such file or folder")
    tables = {"reports": reports, "labels": labels, "model": model}
    given = {name: Path(path) for name, path in tables.items() if path is not None}
    prepare(
        Path(archive),
        Path(out),
        encoder=None if encoder is None else str(encoder),
        budget=budget,
        tell=Teller(_say),
        columns=columns and dict(columns),
        ids=None if ids == "exact" else ids,
        follow_links=follow_links,
        link=link,
        **given,
    ).run()
    return open_project(out if not (Path(archive) / RECIPE).is_file() else archive)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def train(
    config: Mapping[str, Any] | str | Path,
    *,
    resume: bool = False,
    listener: "Listener | None" = None,
) -> "TrainSummary":
    """Train an image-text model (ConfigError), as ``cxrtext train`` does.

    Args:
        config: The settings of ``cxrtext.yaml`` as a mapping of sections, with paths relative to
            the working folder; or the path of such a file.
        resume: Continue the run in ``out``.
        listener: Is told the progress.
    """
    if isinstance(config, str | Path):
        loaded = load_config(Path(config))
    else:
        loaded = check_config(config, "settings")

    from cxrtext.training import train as run

    return run(loaded, resume=resume, listener=listener)
