"""``cxrtext evaluate``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.commands.models.calibrate import keep_fits
from cxrtext_cli.given import DATA_FOLDER, EXPORT, FILE, NEW_FOLDER, PLACE, SPLIT
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Cache,
    Device,
    Features,
    MaxRejected,
    PromptsFile,
    Uncertain,
    cache_in,
    features_in,
    keep_how_good,
    pick_device,
    print_json,
    print_table,
    progress,
    prompts_in,
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
            "the project's. With --from it is read for the documents alone."
        ),
        DATA_FOLDER,
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="File predictions.parquet of an evaluation, in place of a checkpoint: "
            "every figure is computed again from it, without a model.",
        ),
        FILE,
    ] = None,
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
    average: Annotated[
        str, typer.Option(help="Of several prompts a side, average: embeddings or scores.")
    ] = "embeddings",
    uncertain: Uncertain = "ignore",
    boxes: Annotated[
        Path | None,
        typer.Option(help="Box file (COCO JSON or CSV), instead of the folder's."),
        FILE,
    ] = None,
    exclude_same_patient: Annotated[
        bool,
        typer.Option(
            "--exclude-same-patient", help="Leave the query's own patient out of retrieval."
        ),
    ] = False,
    _resamples: Annotated[
        int | None, typer.Option("--resamples", hidden=True, help="Of no effect.")
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice", help="Column of the manifest to measure groups by; may be repeated."
        ),
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Fit linear probes to the training images.")
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Also keep with the checkpoint what 'cxrtext calibrate' keeps."
        ),
    ] = False,
    sensitivity: Annotated[
        float, typer.Option(help="Of a second threshold, beside that of Youden.")
    ] = 0.95,
    primary: Annotated[
        str,
        typer.Option(
            help="The one measure that decides: AUC (the mean), 'AUC of Edema', ACC, CNR, mIoU, "
            "Recall, MedR, …; declare it before you see the figures."
        ),
    ] = "AUC",
    export: Annotated[
        Path | None,
        typer.Option(help="File for the mean region of each image measured, .parquet."),
        EXPORT,
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures/--no-pictures",
            help="Patients' pixels and sentences of reports in report.html, and sentences in "
            "predictions.parquet.",
        ),
    ] = True,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
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
    if predictions:
        asked = {name: ctx.params[name] for name in _given_with_from(ctx) & MEASURED}
        asked |= {"slices": tuple(slices)} if slices else {}

        from cxrtext.evaluation import measure_file
        from cxrtext.evaluation.report import ReportOptions, write_report

        options = ReportOptions(pictures=False, data=data, command=command)
        result = measure_file(predictions, **asked)
        _tell(result, write_report(out, result, options) if out else [], as_json)
        return
    if place is None:
        raise ConfigError("give a project, a checkpoint and --data, or --from with predictions")
    from cxrtext.project import find_place

    found = find_place(place)
    data = found.require_data(data)
    settings = Settings(
        average=average,  # type: ignore[arg-type]  # checked there
        uncertain=uncertain,  # type: ignore[arg-type]
        boxes=boxes,
        exclude_same_patient=exclude_same_patient,
        slices=tuple(slices) if slices else SLICE_COLUMNS,
        probe=probe,
        sensitivity=sensitivity,
        primary=primary,
    )
    known = prompts_in(prompts)

    from cxrtext.evaluation import evaluate as run
    from cxrtext.evaluation.report import ReportOptions, write_report

    rejects = Rejects(max_rejected)
    decoded, encoded = cache_in(cache or found.decoded), features_in(features)
    with progress("embedding", "images") as update:
        result = run(
            found.model,
            data,
            split=split,
            prompts=known,
            device=pick_device(device),
            allow_outside=allow_outside,
            rejects=rejects,
            cache=decoded,
            features=encoded,
            progress=update,
            settings=settings,
        )
    written = []
    if calibrate:
        kept, lacking = keep_fits(found.model, result, decoded, encoded, quietly=as_json)
        written += kept
        result.left_out.extend(map(str, lacking))
    if out is not None:
        options = ReportOptions(pictures=pictures, command=command)
        written = write_report(out, result, options)
        rejects.write(out / "images")
    if export is not None:
        from cxrtext.evaluation.probes.linear_probe import export_vectors, features_of

        # The mean region of each image, in the space of the sentences.
        assert result.details is not None  # noqa: S101 - of an evaluation that was just made
        cohort = result.details.cohort
        about = {"model": result.fingerprint}
        export_vectors(export, cohort.records, features_of(cohort).vectors, about)
        written.append(export)
    written += keep_how_good(found.model, result)
    _tell(result, written, as_json, len(rejects.rows))


MEASURED = {"uncertain", "slices", "sensitivity", "primary"}
RECOMPUTED = {"predictions", "out", "as_json", "data", "_resamples", *MEASURED}
"""Parameters that ``--from`` goes with: the others decide about the predictions themselves."""


def _given_with_from(ctx: typer.Context) -> set[str]:
    """The parameters that the command line has, all of which go with ``--from``."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = {name for name, one in sources.items() if one and one.name == "COMMANDLINE"}
    for name in sorted(given - RECOMPUTED):
        raise ConfigError(
            f"--from goes without '{name.replace('_', '-')}': the predictions were made with it"
        )
    return given


def _tell(
    result: "Evaluation", written: Sequence[Path], as_json: bool, unreadable: int = 0
) -> None:
    """Print an evaluation, and the files that were written."""
    if as_json:
        print_json(result.to_dict())
        return
    _show(result)
    if unreadable:
        typer.echo(f"images that cannot be read: {unreadable}")
    say_written(written)


def _show(result: "Evaluation") -> None:
    """Print every table of an evaluation, its primary measure, what was left out, and the sum."""
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
    """Name the files that were written, if any."""
    if written:
        typer.echo(f"written: {', '.join(str(path) for path in written)}")
