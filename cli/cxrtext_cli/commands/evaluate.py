"""``cxrtext evaluate``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli.evaluation.compare import compare_files, compare_models
from cxrtext_cli.evaluation.keep import (
    export_regions,
    keep_calibration,
    keep_familiar,
    keep_references,
)
from cxrtext_cli.evaluation.recompute import given_with_from, recompute
from cxrtext_cli.evaluation.show import say_written, show, write_out
from cxrtext_cli.given import CHECKPOINT, DATA_FOLDER, EXPORT, FILE, NEW_FOLDER, SPLIT
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Cache,
    Device,
    Features,
    MaxRejected,
    PromptsFile,
    pick_device,
    print_json,
    progress,
    say,
)

if TYPE_CHECKING:
    from cxrtext.evaluation import Evaluation


def evaluate(
    ctx: typer.Context,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Argument(help="Checkpoint folder; several with --compare."),
        CHECKPOINT,
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data folder: manifest.csv, and reports.csv, labels.csv, boxes.json. With --from "
            "it is read for the documents alone."
        ),
        DATA_FOLDER,
    ] = None,
    predictions: Annotated[
        list[Path] | None,
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
            help="Folder for report.html, results.csv, evaluation.json, predictions.parquet, "
            "tables/ and documents/ (table 1, flow of images, provenance, model card, datasheet, "
            "checklists). report.html and predictions.parquet hold ids."
        ),
        NEW_FOLDER,
    ] = None,
    split: Annotated[str, typer.Option(help="train, val, test or all."), SPLIT] = "test",
    prompts: PromptsFile = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare several checkpoints, with paired tests.")
    ] = False,
    average: Annotated[
        str, typer.Option(help="Of several prompts a side, average: embeddings or scores.")
    ] = "embeddings",
    uncertain: Annotated[
        str, typer.Option(help="Labels of -1: ignore, positive or negative.")
    ] = "ignore",
    boxes: Annotated[
        Path | None,
        typer.Option(help="Box file (COCO JSON or CSV), instead of the folder's."),
        FILE,
    ] = None,
    sigma: Annotated[
        float, typer.Option(min=0, help="Gaussian over the map, in regions; BioViL has 1.5.")
    ] = 0.0,
    exclude_same_patient: Annotated[
        bool,
        typer.Option(
            "--exclude-same-patient", help="Leave the query's own patient out of retrieval."
        ),
    ] = False,
    resamples: Annotated[
        int, typer.Option(min=0, help="Of the patients, for intervals of means and ranks; 0: none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the resamples.")] = 0,
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice", help="Column of the manifest to measure groups by; may be repeated."
        ),
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Fit linear probes to the training images.")
    ] = False,
    sensitivity: Annotated[
        float, typer.Option(help="Of a second threshold, beside that of Youden.")
    ] = 0.95,
    prevalence: Annotated[
        float | None, typer.Option(help="Of other people, for PPV and NPV: 0.05 for 5 %.")
    ] = None,
    primary: Annotated[
        str,
        typer.Option(
            help="The one measure that decides: AUC (the mean), 'AUC of Edema', ACC, CNR, mIoU, "
            "Recall, MedR, …; declare it before you see the figures."
        ),
    ] = "AUC",
    noninferiority: Annotated[
        float | None,
        typer.Option(
            help="With --compare: by how much the primary measure, and an AUC, may be worse: 0.02."
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Keep with the checkpoint what validation images tell: calibrated probabilities "
            "of these prompts for classify, and thresholds of the verdicts of verify.",
        ),
    ] = False,
    keep_reference: Annotated[
        bool,
        typer.Option(
            "--keep-reference",
            help="Keep validation images' embeddings with the checkpoint, for verify, and, where "
            "it does not say yet, what its training images and sentences are like.",
        ),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="File for the mean region of each image measured, .parquet or .npz."),
        EXPORT,
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="Pictures of each kind of example in report.html.")
    ] = 3,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures/--no-pictures",
            help="Patients' pixels and sentences of reports in report.html, and sentences in "
            "predictions.parquet.",
        ),
    ] = True,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="The author's answers to the questions of the documents, as questions.yaml of "
            "--out/documents has them."
        ),
        FILE,
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    cache: Cache = None,
    features: Features = None,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval."""
    from cxrtext.errors import ConfigError
    from cxrtext.evaluation import Settings, read_prompts
    from cxrtext.evaluation.documents.questions import read_answers
    from cxrtext.evaluation.settings import SLICE_COLUMNS
    from cxrtext.records import Rejects

    if noninferiority is not None and not (compare and 0 < noninferiority < 1):
        raise ConfigError(
            "--noninferiority: give a margin between 0 and 1, such as 0.02, and --compare"
        )
    told = read_answers(answers) if answers else {}
    command = ("cxrtext", *sys.argv[1:])
    if predictions:
        asked = {
            "uncertain": uncertain,
            "resamples": resamples,
            "seed": seed,
            "slices": tuple(slices or ()),
            "sensitivity": sensitivity,
            "prevalence": prevalence,
            "primary": primary,
        }
        given = given_with_from(ctx, compare)
        asked = {name: value for name, value in asked.items() if name in given}
        if compare:
            compare_files(predictions, asked, out, noninferiority, as_json)
        else:
            report = {"pictures": False, "data": data, "command": command, "answers": told}
            recompute(predictions, out, report, asked, as_json)
        return
    if not checkpoint or data is None:
        raise ConfigError(
            "give a checkpoint and --data, or --from with the predictions of an evaluation"
        )
    if compare != (len(checkpoint) > 1):
        raise ConfigError(
            "--compare wants at least two checkpoints: --compare A B"
            if compare
            else f"{len(checkpoint)} checkpoints; give one, or several with --compare"
        )
    settings = Settings(
        average=average,  # type: ignore[arg-type]  # checked there
        uncertain=uncertain,  # type: ignore[arg-type]
        resamples=resamples,
        seed=seed,
        boxes=boxes,
        sigma=sigma,
        exclude_same_patient=exclude_same_patient,
        slices=tuple(slices) if slices else SLICE_COLUMNS,
        probe=probe,
        sensitivity=sensitivity,
        prevalence=prevalence,
        primary=primary,
    )
    if compare and (calibrate or keep_reference):
        raise ConfigError("--calibrate and --keep-reference want one checkpoint, without --compare")
    if compare and export:
        raise ConfigError("--export wants one checkpoint, without --compare")
    known = read_prompts(prompts) if prompts else None

    from cxrtext.evaluation import evaluate as run
    from cxrtext.evaluation.report import ReportOptions
    from cxrtext.images.cache import DecodedCache
    from cxrtext.models.features import open_features

    decoded = DecodedCache(cache, say) if cache else None
    kept = open_features(features) if features else None

    def measure(one: Path, rejects: Rejects) -> "Evaluation":
        with progress("embedding", "images") as update:
            return run(
                one,
                data,
                split=split,
                prompts=known,
                device=pick_device(device),
                allow_outside=allow_outside,
                rejects=rejects,
                cache=decoded,
                features=kept,
                progress=update,
                settings=settings,
            )

    options = ReportOptions(examples, pictures, command=command, answers=told)
    if compare:
        compare_models(checkpoint, measure, out, options, max_rejected, noninferiority, as_json)
        return
    rejects = Rejects(max_rejected)
    result = measure(checkpoint[0], rejects)
    written = write_out(out, result, options, rejects)
    if export is not None:
        written.append(export_regions(export, result))
    if calibrate:
        written += keep_calibration(checkpoint[0], result, decoded)
    if keep_reference:
        written.append(keep_references(checkpoint[0], data, device, allow_outside, decoded))
        written.append(keep_familiar(checkpoint[0], data, allow_outside, decoded))
    if as_json:
        print_json(result.to_dict())
        return
    show(result)
    if rejects.rows:
        typer.echo(f"images that cannot be read: {len(rejects.rows)}")
    say_written(written)
