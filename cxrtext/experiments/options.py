"""What an experiment is asked, who hears of it, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """What is asked of an experiment.

    Args:
        scale: "smoke", "cpu", "gpu" or "paper": how much data and how long.
        out: Its folder; None for ``experiments/<name>-<scale>``.
        data: A data folder, None for phantoms drawn into ``out``; of the experiments on small
            images, a file or folder of CIFAR-10 or MNIST.
        seeds: Trainings a row, with the seeds 0, 1, …
        rows: Names of the rows wanted; None for all.
        parallel: Rows that are trained at the same time.
    """

    scale: str = "cpu"
    out: Path | None = None
    data: Path | None = None
    seeds: int = 1
    rows: tuple[str, ...] | None = None
    parallel: int = 1


@dataclass(frozen=True, slots=True)
class ExperimentListener:
    """Who hears how an experiment goes.

    Args:
        say: Takes a line of text.
        progress: Takes (stage, done, total, unit).
    """

    say: Callable[[str], None] = lambda _: None
    progress: Callable[[str, int, int, str], None] = lambda _stage, _done, _total, _unit: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment came to.

    Args:
        page: The table as Markdown.
        data: The same and more, as it stands in ``table.json``.
        written: The files that hold them.
        failed: One line for each row and seed that failed.
    """

    page: str
    data: dict[str, Any]
    written: tuple[Path, ...]
    failed: tuple[str, ...]


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas; None stays None."""
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())
