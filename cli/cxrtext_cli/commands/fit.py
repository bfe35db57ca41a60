"""``cxrtext fit`` and ``cxrtext demo``."""

import gc
import sys
import threading
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import CxrTextError
from cxrtext_cli.ending import ending
from cxrtext_cli.given import CHECKPOINT, FILE, FILE_OR_FOLDER, NEW_FOLDER
from cxrtext_cli.options import (
    FollowLinks,
    IdMatching,
    Link,
    TableColumns,
    print_table,
    say,
    told,
)

if TYPE_CHECKING:
    from cxrtext.project.fitting import Fit, Plan

STUDIES, SIZE = 2500, 144
"""The number and size of the demo's images."""
GIB = 2**30


def fit(
    archive: Annotated[
        Path,
        typer.Argument(
            help="Folder of DICOM, PNG or JPEG files, a public set, a data folder; or a project "
            "to continue."
        ),
        FILE_OR_FOLDER,
    ],
    reports: Annotated[
        Path | None, typer.Option(help="Table or folder of reports."), FILE_OR_FOLDER
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Table of labels to measure on; by default read from reports."),
        FILE,
    ] = None,
    columns: TableColumns = "",
    ids: IdMatching = "exact",
    follow_links: FollowLinks = False,
    out: Annotated[Path, typer.Option(help="The project's folder."), NEW_FOLDER] = Path("project"),
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Image encoder to start with: a folder, or a name on Hugging Face "
            "(cxrtext encoders).",
            metavar="NAME|FOLDER",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A finished model to use instead of training one."),
        CHECKPOINT,
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Total time to spend: 20m, 8h, 2d.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show recipe, time, disk and memory; start nothing.")
    ] = False,
    link: Link = False,
) -> None:
    """Turn an archive into a project: one folder with a model, its measures and an index.

    Imports, checks, trains, measures and indexes whatever is not done yet. Stop it at any time; the
    same command continues, and takes in new films.
    """
    from cxrtext.project.fitting import plan_of, prepare
    from cxrtext.records.columns import parse_columns

    with told() as tell:
        run = prepare(
            archive, out, encoder=encoder, budget=budget, tell=tell, reports=reports,
            labels=labels, columns=parse_columns(columns), ids="" if ids == "exact" else ids,
            follow_links=follow_links, model=model, link=link,
        )  # fmt: skip
        if plan:
            _show_plan(plan_of(run))
        else:
            _fit(run)
    gc.freeze()  # the process ends, and collecting the garbage of models would take seconds


def _fit(run: "Fit") -> None:
    good = run.run()
    where = quote(str(run.folder))
    typer.echo("How good it is")
    for line in good.lines:
        typer.echo(f"  {line}")
    if good.warning:
        typer.echo(good.warning)
    typer.echo(f'search:  cxrtext search {where} "Pleural effusion."')
    typer.echo(f"page:    cxrtext serve {where}")


def _show_plan(plan: "Plan") -> None:
    from cxrtext.device import choose_device, policy_of
    from cxrtext.project.fitting import advice_on, duration, found_line
    from cxrtext.project.outcome import outcome_rows

    facts, recipe, estimate = plan.facts, plan.recipe, plan.estimate
    typer.echo(found_line(facts))
    images, steps = recipe.image_encoder, recipe.config()["training"]["steps"]
    trained = f"{images.image}{f' of {images.encoder}' if images.encoder else ''}"
    epochs = f"{images.epochs or 'usual'} epochs"
    typer.echo(
        f"image encoder {recipe.frozen or trained} at {images.crop} px, "
        f"{'as it is' if recipe.frozen else epochs}; "
        f"language model {recipe.language_model.size}; {steps} steps of training; "
        f"learning curve: {'yes' if recipe.learning_curve else 'no'}"
    )
    rows = [(name, duration(value)) for name, value in estimate.seconds.items()]
    print_table([("stage", "about"), *rows, ("in all", duration(estimate.total))])
    if outcome := outcome_rows(facts.tested):
        print_table(outcome)
    for line in advice_on(facts, recipe):
        typer.echo(line)
    typer.echo(policy_of(choose_device("auto")))
    typer.echo(f"disk {estimate.disk / GIB:.1f} GiB, memory {estimate.memory / GIB:.1f} GiB")
    typer.echo("nothing was started; the same command without --plan does it")


def child() -> None:
    """Do one stage of a project, in a process that ends with the one that started it."""
    from cxrtext.images.sandbox_worker import end_with
    from cxrtext.memory import keep_memory

    parent, folder, name, *resume = sys.argv[1:]
    threading.Thread(target=end_with, args=[int(parent)], daemon=True).start()
    keep_memory()

    def work() -> None:
        from cxrtext.project.recipe import read_recipe
        from cxrtext.project.stages import trainings

        stage = trainings(Path(folder), read_recipe(Path(folder)))[name]
        try:
            with told() as tell:
                sys.stdout.write(stage.work(bool(resume), tell))
        except CxrTextError as error:
            sys.stdout.write(str(error))  # the parent process prints it
            sys.exit(error.exit_code)

    ending(work, hint=False)


def demo(
    out: Annotated[
        Path, typer.Option(help="Project to write; a stopped demo continues in it."), NEW_FOLDER
    ] = Path("demo"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes any free one.")
    ] = 0,
) -> None:
    """Run everything on drawn radiographs, about 5 minutes on two cores, then serve the page.

    Draws images with reports, and treats them as `cxrtext fit` treats an archive. Stop it at any
    time; the same command continues. Nothing is written outside the folder.
    """
    from cxrtext.project.fitting import Fit, claim
    from cxrtext.project.layout import DATA
    from cxrtext.project.recipe import Source
    from cxrtext_cli.commands.data.phantom import phantom
    from cxrtext_cli.commands.server.service import serve

    data = out / DATA
    claim(out, data)
    if not (data / "truth.csv").is_file():
        phantom(data, studies=STUDIES, size=SIZE)
    with told() as tell:
        _fit(Fit(out, Source(archive=str(data.absolute())), tell=tell, curve=False))
    say("serving the page and the API; stop with Ctrl-C")
    serve([out], port=port)
