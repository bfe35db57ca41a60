"""``cxrtext evaluate --recipe`` and ``cxrtext experiment``: repeat what papers measured."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext.experiments.definition import EXPERIMENTS
from cxrtext_cli.given import ANY_PATH, NEW_FOLDER
from cxrtext_cli.options import (
    Features,
    Stages,
    cache_in,
    features_in,
    pick_device,
    say,
)

if TYPE_CHECKING:
    from cxrtext.evaluation.recipes import RecipeRun


def by_recipe(
    name: str,
    place: Path | None,
    data: Path | None,
    out: Path | None,
    *,
    listed: Path | None,
    subset: bool,
    device: str,
    sentences: bool,
    command: tuple[str, ...],
    max_rejected: int,
    cache: Path | None,
    features: Path | None,
) -> None:
    """Measure a checkpoint on a public set by a frozen recipe; without a checkpoint, print it.

    The list of images is compared with the official one by count and digest; a wrong list is
    refused.
    """
    from cxrtext.evaluation.recipes import load_recipe

    recipe = load_recipe(name)
    if place is None and data is None:
        typer.echo(recipe.text, nl=False)
        return
    if place is None or data is None:
        missing = "a project or a checkpoint" if place is None else "--data FOLDER"
        raise ConfigError(
            f"{missing} is missing: cxrtext evaluate PLACE --recipe {quote(name)} --data FOLDER"
        )
    from cxrtext.project import find_place

    checkpoint = find_place(place).model
    from cxrtext.evaluation.recipes import run_recipe
    from cxrtext.evaluation.report import ReportOptions

    with Stages() as stages:
        run = run_recipe(
            recipe,
            checkpoint,
            data,
            out or Path(f"benchmark-{recipe.name}"),
            listed=listed,
            subset=subset,
            device=pick_device(device),
            cache=cache_in(cache),
            features=features_in(features),
            report=ReportOptions(sentences=sentences, command=command),
            max_rejected=max_rejected,
            progress=lambda done, total: stages.show("embedding", done, total, "images"),
        )
    _show(run)


def _show(run: "RecipeRun") -> None:
    record = run.record
    listed, primary = record["list"], record["primary"]
    official = listed["official"]
    if official is None:
        compared = "not an official list"
    elif official["sha256"]:
        compared = f"{official['title']}, by digest"
    else:
        compared = f"{official['title']}, by count; no digest could be had"
    typer.echo(f"{record['title']} (recipe {record['recipe']}, version {record['version']})")
    typer.echo(f"list: {listed['images']:,} images in {listed['file']}: {compared}")
    typer.echo(f"measured: {record['images']:,} images of {record['patients']:,} patients")
    value = "not measured" if primary["value"] is None else f"{primary['value']:.3f}"
    if primary["low"] is not None:
        value += f" [{primary['low']:.3f}, {primary['high']:.3f}]"
    typer.echo(f"{primary['measure']}: {value}")
    if not record["benchmark"]:
        typer.echo(f"NOT THE BENCHMARK: {'; '.join(record['why_not'])}")
    for line in run.evaluation.left_out:
        typer.echo(f"left out: {line}")
    typer.echo(f"written: {', '.join(str(path) for path in run.files)}")


KNOWN = "; ".join(f"{name}: {what}" for name, what in EXPERIMENTS.items())


def experiment(
    name: Annotated[str, typer.Argument(help=f"{KNOWN}.")],
    scale: Annotated[
        str, typer.Option(help="Amount of data and time: smoke, cpu, films, gpu or paper.")
    ] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder; experiments/NAME-SCALE by default."), NEW_FOLDER
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder for table1, drawn by default; an .npz for small images."),
        ANY_PATH,
    ] = None,
    features: Features = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings per row; the scale's by default.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Rows to run, separated by commas; all by default.")
    ] = None,
) -> None:
    """Run a paper's experiment, and show its table beside the paper's.

    Run it again to resume: failed rows are tried again, finished rows are not repeated.
    """
    from cxrtext.experiments import ExperimentListener, ExperimentOptions, run_experiment

    wanted = None if rows is None else tuple(filter(None, map(str.strip, rows.split(","))))
    options = ExperimentOptions(scale, out, data, features, seeds, wanted)
    with Stages() as stages:
        outcome = run_experiment(name, options, ExperimentListener(say=say, progress=stages.show))
    typer.echo(outcome.page)
    say(f"written: {', '.join(map(str, outcome.written))}")
    for line in outcome.failed:
        say(f"failed: {line}")
    if outcome.failed:
        raise typer.Exit(1)
