"""``cxrtext experiment``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext.experiments.papers import EXPERIMENTS
from cxrtext_cli.given import ANY_PATH, NEW_FOLDER
from cxrtext_cli.options import AsJson, Stages, print_json, say

KNOWN = "; ".join(f"{name}: {what}" for name, what in EXPERIMENTS.items())


def experiment(
    name: Annotated[str, typer.Argument(help=f"{KNOWN}.")],
    scale: Annotated[
        str, typer.Option(help="How much data, and how long: smoke, cpu, gpu or paper.")
    ] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder; experiments/NAME-SCALE by default."), NEW_FOLDER
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data folder of table1, drawn phantoms by default; CIFAR-10 or MNIST of others."
        ),
        ANY_PATH,
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Trainings a row; by default 3 of table1 on cpu and gpu, else 1."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Rows wanted, separated by commas; all by default.")
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, help="Rows trained at the same time.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Run a paper's experiment; its table stands beside the paper's.

    A stopped experiment resumes when it is started again; a row that failed is tried again, and
    one that is finished is not repeated.
    """
    from cxrtext.experiments import ExperimentListener, ExperimentOptions, run_experiment
    from cxrtext.experiments.experiment import split_names

    options = ExperimentOptions(
        scale=scale, out=out, data=data, seeds=seeds, rows=split_names(rows), parallel=parallel
    )
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
