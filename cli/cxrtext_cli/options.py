"""Options that several commands share, and output on the terminal."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext_cli.given import ANY_PATH, DEVICE, FOLDER, NEW_FOLDER, PLACE, PROMPTS, SECTION, SOURCE
from cxrtext_cli.gone import Commands

if TYPE_CHECKING:
    from cxrtext.evaluation import Prompts
    from cxrtext.images.cache import DecodedCache
    from cxrtext.models.familiar import Unlike
    from cxrtext.models.features import FeatureFolder
    from cxrtext.project import Place
    from cxrtext.project.stages import Teller
    from cxrtext.service import Service

Device = Annotated[
    str,
    typer.Option(help="Where to compute: auto, cpu, cuda or cuda:N.", show_default=True),
    DEVICE,
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AsWritten = Annotated[
    bool, typer.Option("--as-written", help="Embed a sentence as typed, not reworded.")
]
AllowOutside = Annotated[
    bool, typer.Option("--allow-outside", help="Let images lie outside the manifest's folder.")
]
MaxRejected = Annotated[
    int, typer.Option(min=0, help="How many images or rows may be bad before the run stops.")
]
PlaceFolder = Annotated[Path, typer.Argument(help="A project, a checkpoint or an index."), PLACE]
GatewayFile = Annotated[Path, typer.Argument(help="The gateway's file.", metavar="FILE"), ANY_PATH]
Link = Annotated[
    bool, typer.Option("--link", help="Hard links instead of copies; originals become read-only.")
]
TableColumns = Annotated[
    str,
    typer.Option(
        help="The table's own column names: image=Bild-Datei,report=Befundtext,…; others are "
        "guessed."
    ),
]
IdMatching = Annotated[
    str,
    typer.Option(
        help="exact, or loose: join ids that a spreadsheet changed (zeros, .0, apostrophes)."
    ),
]
FollowLinks = Annotated[
    bool, typer.Option("--follow-links", help="Follow links to folders, even out of the folder.")
]
TextSource = Annotated[
    Path,
    typer.Argument(
        help="Table of reports or sentences (CSV, Excel, Parquet), or folder of text files."
    ),
    SOURCE,
]
Sections = Annotated[
    list[str] | None, typer.Option(help="Keep only these sections; repeatable."), SECTION
]
Precision = Annotated[str, typer.Option(help="float32 (exact), bfloat16 or float16 (GPU).")]
Uncertain = Annotated[str, typer.Option(help="How to treat -1: ignore, positive or negative.")]
PromptsFile = Annotated[
    Path | None, typer.Option(help="YAML file of prompts; the checkpoint's by default."), PROMPTS
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder of decoded images; training and other commands can share it."),
    NEW_FOLDER,
]

Features = Annotated[
    Path | None,
    typer.Option(
        help="Folder of features from the model's backbone (cxrtext encode); images missing there "
        "are read."
    ),
    FOLDER,
]

PLAIN_INTERVAL = 5.0
"""Seconds between two progress lines without a terminal."""


def as_option(field: str) -> str:
    """The option for a field of a question."""
    named = {"k": "-k", "sentence": "SENTENCE", "query": "QUERY", "report": "REPORT"}
    return named.get(field) or f"--{field.replace('_', '-')}"


def say_unlike(what: str, far: "Unlike | None", why: str) -> None:
    """Say so if something is known to be unlike the model's training data."""
    if far is not None and far.flagged:
        say(f"{what}: {why}")


def print_json(value: Any) -> None:
    """Print a value as JSON: dataclasses by their fields, paths as text."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_as_json))


def _as_json(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def cache_in(folder: Path | None) -> "DecodedCache | None":
    from cxrtext.images.cache import DecodedCache

    return DecodedCache(folder, say) if folder else None


def features_in(folder: Path | None) -> "FeatureFolder | None":
    from cxrtext.models.features import open_features

    return open_features(folder) if folder else None


def open_place(place: "Place", device: str = "auto", prompts: Path | None = None) -> "Service":
    """A service with a place's model and index."""
    from cxrtext.service import load_service

    return load_service(
        place.checkpoint, place.index, prompts=prompts_in(prompts), device=pick_device(device)
    )


def prompts_in(path: Path | None) -> "dict[str, Prompts] | None":
    from cxrtext.evaluation import read_prompts

    return read_prompts(path) if path else None


def group(text: str) -> typer.Typer:
    """A command with commands below it; ``text`` is its help."""
    return typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=None, help=text)


def say(text: str) -> None:
    """Print a line about the work on standard error."""
    typer.echo(text, err=True)


def print_table(rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print rows in columns, the first row as the header, the first ``left`` columns flush left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())
        if number == 0:
            typer.echo("  ".join("-" * width for width in widths))


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print mappings with equal keys as a table, numbers with four digits.

    Long texts are shortened; a single word, such as a UID or a path, stays whole to be copied.
    """
    if not rows:
        typer.echo("nothing found")
        return
    columns = list(rows[0])
    widest = 100 if len(columns) <= 6 else 24

    def cell(value: Any) -> str:
        text = f"{value:.4f}" if isinstance(value, float) else " ".join(str(value).split())
        return text if len(text) <= widest or " " not in text else text[: widest - 1] + "…"

    body = [[cell(row[name]) for name in columns] for row in rows]
    print_table([columns, *body], left=len(columns))


def show_rows(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    print_json(rows) if as_json else print_rows(rows)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write mappings with equal keys as a table."""
    from cxrtext.records import write_table

    write_table(path, list(rows[0]) if rows else ["score"], rows)


@contextmanager
def progress(title: str, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show progress on standard error: a bar on a terminal, plain lines elsewhere.

    Yields a function of (done, total).  The time left is measured from its first call, so work done
    before a resume does not count.
    """
    if sys.stderr.isatty():
        with _bar(title, unit) as update:
            yield update
    else:
        yield _plain_lines(title, unit)


class Stages:
    """Progress of work in several stages, one shown at a time; a context manager."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._title = ""
        self._update: Callable[[int, int], None] | None = None

    def show(self, title: str, done: int, total: int, unit: str = "") -> None:
        """Show the progress of a stage; a new title ends the stage before it."""
        if self._update is None or title != self._title:
            self._open.close()
            self._update = self._open.enter_context(progress(title, unit))
            self._title = title
        self._update(done, total)

    def say(self, text: str) -> None:
        """End the stage shown, and print a line."""
        self._open.close()
        self._update = None
        say(text)

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


@contextmanager
def told() -> "Iterator[Teller]":
    """A Teller that prints lines and shows stages."""
    from cxrtext.project.stages import Teller

    with Stages() as stages:
        yield Teller(stages.say, stages.show)


def _plain_lines(title: str, unit: str) -> Callable[[int, int], None]:
    first: list[tuple[float, int]] = []
    last = [time.monotonic() - PLAIN_INTERVAL / 2]

    def update(done: int, total: int) -> None:
        now = time.monotonic()
        if not first:
            first.append((now, done))
        if done < total and now - last[0] < PLAIN_INTERVAL:
            return
        last[0] = now
        begun, before = first[0]
        left = ""
        if before < done < total:
            seconds = (now - begun) / (done - before) * (total - done)
            end = time.strftime("%H:%M", time.localtime(time.time() + seconds))
            from cxrtext.project.fitting import duration

            left = f", {duration(seconds)} left, until {end}"
        say(f"{title}: {done}/{total}{' ' + unit if unit else ''}{left}")

    return update


@contextmanager
def _bar(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update


def pick_device(name: str) -> str:
    from cxrtext.device import choose_device

    return str(choose_device(name))
