"""``cxrtext evaluate``."""

import sys
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.commands.models.papers import by_recipe
from cxrtext_cli.given import DATA_FOLDER, FILE, NEW_FOLDER, PLACE, SPLIT
from cxrtext_cli.options import (
    AsJson,
    Cache,
    Device,
    Features,
    MaxRejected,
    PromptsFile,
    Uncertain,
    cache_in,
    features_in,
    pick_device,
    print_json,
    print_table,
    progress,
    prompts_in,
    say,
)

if TYPE_CHECKING:
    from cxrtext.evaluation import Evaluation


def evaluate(
    ctx: typer.Context,
    place: Annotated[
        Path | None, typer.Argument(help="A project, a checkpoint or an index."), PLACE
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data folder: manifest.csv, and reports.csv, labels.csv, boxes.json; by default "
            "the project's. With --from, only the documents need it."
        ),
        DATA_FOLDER,
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="File predictions.parquet of an evaluation, in place of a checkpoint: all figures "
            "are computed from it again, without a model.",
        ),
        FILE,
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Public benchmark such as chexpert5x200, or a .yaml file with its images, prompts "
            "and settings. Without a model, the recipe is printed."
        ),
    ] = None,
    listed: Annotated[
        Path | None,
        typer.Option("--list", help="File of image names, if the recipe asks for one."),
        FILE,
    ] = None,
    subset: Annotated[
        bool,
        typer.Option(
            "--subset",
            help="Try a recipe on the images that are there; marked as not the benchmark.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for report.html, results.csv, evaluation.json, predictions.parquet and "
            "documents/ (table 1, flow of images, provenance, model card). report.html and "
            "predictions.parquet hold ids."
        ),
        NEW_FOLDER,
    ] = None,
    split: Annotated[str, typer.Option(help="train, val, test or all."), SPLIT] = "test",
    prompts: PromptsFile = None,
    uncertain: Uncertain = "ignore",
    _resamples: Annotated[
        int | None, typer.Option("--resamples", hidden=True, help="Has no effect.")
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", help="Column of the manifest to measure groups by; repeatable."),
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Fit linear probes to the training images.")
    ] = False,
    sensitivity: Annotated[
        float, typer.Option(help="Sensitivity of a second threshold, besides Youden's.")
    ] = 0.95,
    primary: Annotated[
        str,
        typer.Option(
            help="The measure that decides: AUC (the mean), 'AUC of Edema', ACC, CNR, mIoU, "
            "Recall, MedR, …; declare it before you see the figures."
        ),
    ] = "AUC",
    sentences: Annotated[
        bool,
        typer.Option(
            "--sentences/--no-sentences",
            help="Write report sentences into predictions.parquet, or numbers instead.",
        ),
    ] = True,
    device: Device = "auto",
    max_rejected: MaxRejected = 100,
    cache: Cache = None,
    features: Features = None,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval."""
    from cxrtext.evaluation import Settings
    from cxrtext.evaluation.settings import SLICE_COLUMNS
    from cxrtext.records import Rejects

    command = ("cxrtext", *sys.argv[1:])
    if recipe is not None:
        _refuse_beside(ctx, BY_RECIPE, "--recipe", "the recipe sets it")
        by_recipe(
            recipe, place, data, out, listed=listed, subset=subset, device=device,
            sentences=sentences, command=command, max_rejected=max_rejected, cache=cache,
            features=features,
        )  # fmt: skip
        return
    if listed or subset:
        raise ConfigError("--list and --subset need a benchmark; name it with --recipe")
    if predictions:
        given = _refuse_beside(ctx, RECOMPUTED, "--from", "the predictions were made with it")
        asked = {name: ctx.params[name] for name in given & MEASURED}
        asked |= {"slices": tuple(slices)} if slices else {}

        from cxrtext.evaluation import measure_file
        from cxrtext.evaluation.report import ReportOptions, write_report

        options = ReportOptions(data=data, command=command)
        result = measure_file(predictions, **asked)
        _tell(result, write_report(out, result, options) if out else [], as_json)
        return
    if place is None:
        raise ConfigError("give a project, a checkpoint and --data, or --from with predictions")
    from cxrtext.project import find_place

    home = find_place(place)
    data = home.require_data(data)
    settings = Settings(
        uncertain=uncertain,  # type: ignore[arg-type]  # checked there
        slices=tuple(slices) if slices else SLICE_COLUMNS,
        probe=probe,
        sensitivity=sensitivity,
        primary=primary,
    )
    known = prompts_in(prompts)

    from cxrtext.evaluation.report import ReportOptions, write_report
    from cxrtext.project.stages import keep_how_good

    rejects = Rejects(max_rejected)
    result = measured(
        home.model, data, device, split=split, prompts=known, rejects=rejects,
        cache=cache_in(cache or home.decoded), features=features_in(features), settings=settings,
    )  # fmt: skip
    written = []
    if out is not None:
        options = ReportOptions(sentences=sentences, command=command)
        written = write_report(out, result, options)
        rejects.write(out / "images")
    written += keep_how_good(home.model, result, say)
    _tell(result, written, as_json, len(rejects.rows))


def measured(checkpoint: Path, data: Path, device: str = "auto", **options: Any) -> "Evaluation":
    """Measure a checkpoint, showing progress; the options are the library's."""
    from cxrtext.evaluation import evaluate as run

    with progress("embedding", "images") as update:
        return run(checkpoint, data, device=pick_device(device), progress=update, **options)


MEASURED = {"uncertain", "slices", "sensitivity", "primary"}
RECOMPUTED = {"predictions", "out", "as_json", "data", "_resamples", *MEASURED}
"""Parameters that go with ``--from``; all others would change the predictions themselves."""

BY_RECIPE = {"place", "data", "recipe", "listed", "subset", "out", "sentences", "device"}
BY_RECIPE |= {"max_rejected", "cache", "features"}


def _refuse_beside(ctx: typer.Context, known: Set[str], option: str, why: str) -> set[str]:
    """The parameters on the command line; ConfigError if one does not go with an option."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = {name for name, one in sources.items() if one and one.name == "COMMANDLINE"}
    for name in sorted(given - known):
        raise ConfigError(f"{option} cannot be combined with '{name.replace('_', '-')}': {why}")
    return given


def _tell(
    result: "Evaluation", written: Sequence[Path], as_json: bool, unreadable: int = 0
) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    _show(result)
    if unreadable:
        typer.echo(f"images that cannot be read: {unreadable}")
    say_written(written)


def _show(result: "Evaluation") -> None:
    """Print all tables of an evaluation, its primary measure, its notes and the summary."""
    from cxrtext.evaluation.how_good import how_good_of
    from cxrtext.evaluation.report.sections import primary_line, shown
    from cxrtext.records import CHEX5

    typer.echo(f"{result.images} images of {result.patients} patients, split '{result.split}'")
    for title, cells in shown(result.rows).items():
        typer.echo(f"\n{title}")
        print_table(cells)
    if result.primary:
        typer.echo(f"\n{primary_line(result)}")
    for line in result.warnings:
        typer.echo(f"note: {line}")
    for line in result.left_out:
        typer.echo(f"left out: {line}")
    if result.mean_auc is not None:
        name = "mean CheX5 AUC" if set(result.findings) == set(CHEX5) else "mean AUC"
        typer.echo(f"{name} {result.mean_auc:.3f}")
    good = how_good_of(result)
    typer.echo("\n".join(["", "How good is it", *good.lines, *filter(None, [good.warning])]))


def say_written(written: Sequence[Path]) -> None:
    if written:
        typer.echo(f"written: {', '.join(str(path) for path in written)}")
