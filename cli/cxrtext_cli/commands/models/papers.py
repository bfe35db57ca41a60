"""``cxrtext benchmark`` and ``cxrtext experiment``: what papers measured."""

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext.experiments.definition import EXPERIMENTS
from cxrtext_cli.given import ANY_PATH, FILE, FOLDER, NEW_FOLDER, PLACE
from cxrtext_cli.options import (
    AsJson,
    Cache,
    Device,
    Features,
    MaxRejected,
    Stages,
    cache_in,
    features_in,
    pick_device,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    from cxrtext.evaluation.recipes import RecipeRun


def benchmark(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Recipe: a name or a .yaml file; alone it is printed. Without: the names."
        ),
    ] = None,
    place: Annotated[
        Path | None, typer.Argument(help="A project, a checkpoint or an index."), PLACE
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The data folder that 'cxrtext import' made of the public set."),
        FOLDER,
    ] = None,
    listed: Annotated[
        Path | None,
        typer.Option("--list", help="File of the images' names, where the recipe asks for one."),
        FILE,
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for recipe.json, report.html and the others; benchmark-NAME."),
        NEW_FOLDER,
    ] = None,
    subset: Annotated[
        bool,
        typer.Option(
            "--subset",
            help="To try: measure the images that are there; marked as not the benchmark.",
        ),
    ] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Show patients' pixels in report.html.")
    ] = True,
    device: Device = "auto",
    max_rejected: MaxRejected = 100,
    cache: Cache = None,
    features: Features = None,
) -> None:
    """Measure a checkpoint on a public set by a frozen recipe.

    The list of images is compared with the official one by count and digest, and a wrong list
    refused. Prompts, settings and measures are those of the recipe.
    """
    if name is None:
        _show_list()
        return
    from cxrtext.evaluation.recipes import load_recipe

    recipe = load_recipe(name)
    if place is None and data is None:
        typer.echo(recipe.text, nl=False)
        return
    if place is None or data is None:
        missing = "a project or a checkpoint" if place is None else "--data FOLDER"
        raise ConfigError(
            f"{missing} is missing: cxrtext benchmark {quote(name)} PLACE --data FOLDER"
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
            report=ReportOptions(pictures=pictures, command=("cxrtext", *sys.argv[1:])),
            max_rejected=max_rejected,
            progress=lambda done, total: stages.show("embedding", done, total, "images"),
        )
    _show(run)


def _show_list() -> None:
    from cxrtext.evaluation.recipes import load_recipe, recipe_names

    rows = [["recipe", "images", "list compared by", "primary measure", "set"]]
    for name in recipe_names():
        content = load_recipe(name).content
        images = content.images
        counts = {one.count for one in images.known}
        by = "digest" if all(one.sha256 for one in images.known) else "count"
        shown = " or ".join(f"{count:,}" for count in sorted(counts))
        rows.append([name, shown, by, content.primary, content.title])
    print_table(rows, left=5)


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
        str, typer.Option(help="How much data, and how long: smoke, cpu, films, gpu or paper.")
    ] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder; experiments/NAME-SCALE by default."), NEW_FOLDER
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder of table1, by default drawn; of small images an .npz."),
        ANY_PATH,
    ] = None,
    features: Features = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings a row; by default as the scale says.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Rows wanted, separated by commas; all by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a paper's experiment; its table stands beside the paper's.

    A stopped experiment resumes when it is started again; a row that failed is tried again, and
    one that is finished is not repeated.
    """
    from cxrtext.experiments import ExperimentListener, ExperimentOptions, run_experiment

    wanted = None if rows is None else tuple(filter(None, map(str.strip, rows.split(","))))
    options = ExperimentOptions(scale, out, data, features, seeds, wanted)
    with Stages() as stages:
        outcome = run_experiment(name, options, ExperimentListener(say=say, progress=stages.show))
    if as_json:
        print_json(outcome.data)
    else:
        typer.echo(outcome.page)
        say(f"written: {', '.join(map(str, outcome.written))}")
    for line in outcome.failed:
        say(f"failed: {line}")
    if outcome.failed:
        raise typer.Exit(1)
