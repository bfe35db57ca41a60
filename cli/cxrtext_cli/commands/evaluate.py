"""``cxrtext evaluate``."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    print_table,
    progress,
    say,
)

if TYPE_CHECKING:
    from cxrtext.evaluation import Evaluation
    from cxrtext.images.cache import DecodedCache
    from cxrtext.records import Rejects


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
            help="Folder for report.html, metrics.json, predictions.parquet, tables/ and "
            "documents/ (table 1, flow of images, provenance, model card, datasheet, "
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
    from cxrtext.evaluation.report import ReportOptions
    from cxrtext.evaluation.settings import SLICE_COLUMNS
    from cxrtext.records import Rejects

    options = ReportOptions(
        examples,
        pictures,
        command=("cxrtext", *sys.argv[1:]),
        answers=read_answers(answers) if answers else {},
    )
    if noninferiority is not None and not (compare and 0 < noninferiority < 1):
        raise ConfigError(
            "--noninferiority: give a margin between 0 and 1, such as 0.02, and --compare"
        )
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
        options = replace(options, pictures=False, data=data)
        given = _given(ctx, compare)
        asked = {name: value for name, value in asked.items() if name in given}
        if compare:
            _compare_files(predictions, asked, out, noninferiority, as_json)
        else:
            _recompute(predictions, out, options, asked, as_json)
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

    if compare:
        _compare(checkpoint, measure, out, options, max_rejected, noninferiority, as_json)
        return
    rejects = Rejects(max_rejected)
    result = measure(checkpoint[0], rejects)
    written = _write(out, result, options, rejects)
    if export is not None:
        written.append(_export(export, result))
    if calibrate:
        written += _keep_calibration(checkpoint[0], result, decoded)
    if keep_reference:
        written.append(_keep_reference(checkpoint[0], data, device, allow_outside, decoded))
        written.append(_keep_familiar(checkpoint[0], data, allow_outside, decoded))
    if as_json:
        print_json(result.to_dict())
        return
    _show(result)
    if rejects.rows:
        typer.echo(f"images that cannot be read: {len(rejects.rows)}")
    if written:
        typer.echo(f"written: {', '.join(str(path) for path in written)}")


RECOMPUTED = {
    *("predictions", "out", "uncertain", "resamples", "seed", "slices", "as_json"),
    *("sensitivity", "prevalence", "primary"),
    *("data", "answers"),  # of the documents
}
"""Parameters that ``--from`` goes with: the others decide about the predictions themselves."""


COMPARED = (RECOMPUTED | {"compare", "noninferiority"}) - {"data", "answers"}
"""Parameters that ``--compare --from`` goes with."""


def _given(ctx: typer.Context, compare: bool) -> set[str]:
    """The parameters that the command line has, all of which go with ``--from``."""
    from cxrtext.errors import ConfigError

    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = {name for name, one in sources.items() if one and one.name == "COMMANDLINE"}
    for name in sorted(given - (COMPARED if compare else RECOMPUTED)):
        reason = "" if name in RECOMPUTED else ": the predictions were made with it"
        beside = "--compare --from" if compare else "--from"
        raise ConfigError(f"{beside} goes without '{name.replace('_', '-')}'{reason}")
    return given


def _recompute(
    predictions: list[Path],
    out: Path | None,
    options: Any,
    asked: dict[str, Any],
    as_json: bool,
) -> None:
    """Compute the figures of an evaluation again from its predictions, with settings ``asked``."""
    from cxrtext.errors import ConfigError
    from cxrtext.evaluation import measure_file
    from cxrtext.evaluation.report import write_report

    if len(predictions) > 1:
        raise ConfigError(f"--from: {len(predictions)} files; give one, or several with --compare")
    result = measure_file(predictions[0], **asked)
    written = write_report(out, result, options) if out is not None else []
    if as_json:
        print_json(result.to_dict())
        return
    _show(result)
    if written:
        typer.echo(f"written: {', '.join(str(path) for path in written)}")


def _write(out: Path | None, result: "Evaluation", options: Any, rejects: "Rejects") -> list[Path]:
    from cxrtext.evaluation.report import write_report

    if out is None:
        return []
    written = write_report(out, result, options)
    rejects.write(out / "images")
    return written


def _export(path: Path, result: "Evaluation") -> Path:
    """Write the mean region of each image, in the space of the sentences."""
    from cxrtext.evaluation.probes.linear_probe import features_of
    from cxrtext.evaluation.probes.vector_export import export_vectors

    assert result.details is not None  # noqa: S101 - of an evaluation that was just made
    cohort = result.details.cohort
    about = {"model": result.fingerprint}
    export_vectors(path, cohort.records, features_of(cohort).vectors, about)
    return path


def _keep_calibration(
    checkpoint: Path, result: "Evaluation", cache: "DecodedCache | None"
) -> list[Path]:
    """Keep calibrated probabilities and verdicts, or one of them where the data lack the other."""
    from cxrtext.errors import DataError
    from cxrtext.evaluation.classification.calibration import save_calibration
    from cxrtext.evaluation.evaluate import calibration_of
    from cxrtext.evaluation.verdicts.keep import verdicts_of
    from cxrtext.evaluation.verdicts.kept import save_verdicts

    written, lacking = [], []
    try:
        kept, left_out = calibration_of(result)
        result.left_out.extend(left_out)
        written.append(save_calibration(checkpoint, kept))
    except DataError as error:
        lacking.append(error)
    try:
        with progress("embedding validation images", "images") as update:
            verdicts = verdicts_of(result, cache=cache, progress=update)
        written.append(save_verdicts(checkpoint, verdicts))
        say(f"{written[-1]}: {verdicts.summary()}")
    except DataError as error:
        lacking.append(error)
    if not written:
        raise lacking[0]
    result.left_out.extend(str(error) for error in lacking)
    return written


def _keep_reference(
    checkpoint: Path, data: Path, device: str, allow_outside: bool, cache: "DecodedCache | None"
) -> Path:
    from cxrtext.evaluation.cohort import keep_reference

    with progress("embedding reference images", "images") as update:
        path, images = keep_reference(
            checkpoint,
            data,
            device=pick_device(device),
            allow_outside=allow_outside,
            cache=cache,
            progress=update,
        )
    say(f"{path}: {images} validation images")
    return path


def _keep_familiar(
    checkpoint: Path, data: Path, allow_outside: bool, cache: "DecodedCache | None"
) -> Path:
    from cxrtext.evaluation.familiar import keep_familiar

    with progress("describing images", "images") as update:
        path, found = keep_familiar(
            checkpoint, data, allow_outside=allow_outside, cache=cache, progress=update
        )
    for known, what in ((found.images, "images"), (found.words, "sentences")):
        if known is None:
            say(f"{path}: too few {what} to say which others are unlike them")
    return path


def _show(result: "Evaluation") -> None:
    from cxrtext.evaluation.report.grounded import absence_rows, mask_rows, side_rows
    from cxrtext.evaluation.report.operating import share_rows
    from cxrtext.evaluation.report.tables import (
        box_retrieval_rows,
        classification_rows,
        grounding_rows,
        primary_line,
        retrieval_rows,
    )
    from cxrtext.records import CHEX5

    typer.echo(f"{result.images} images of {result.patients} patients, split '{result.split}'")
    for title, part, rows in (
        ("zero-shot classification", result.classification, classification_rows),
        ("operating points", result.operating, share_rows),
        ("grounding", result.grounding, grounding_rows),
        ("masks", result.masks, mask_rows),
        ("phrases without a box", result.absence, absence_rows),
        ("left and right", result.sides, side_rows),
        (
            "retrieval of boxes and sentences (ties count against the model)",
            result.box_retrieval,
            box_retrieval_rows,
        ),
        (
            "retrieval (ties count against the model; equal sentences are right)",
            result.retrieval,
            retrieval_rows,
        ),
    ):
        if part:
            typer.echo(f"\n{title}")
            print_table(rows(result))
    if result.primary:
        typer.echo(f"\n{primary_line(result)}")
    for line in result.warnings:
        typer.echo(f"note: {line}")
    for line in result.left_out:
        typer.echo(f"left out: {line}")
    if result.mean_auc is not None:
        name = "mean CheX5 AUC" if set(result.classification) == set(CHEX5) else "mean AUC"
        typer.echo(f"{name} {result.mean_auc:.3f}")


def _compare(
    checkpoints: list[Path],
    measure: "Callable[[Path, Rejects], Evaluation]",
    out: Path | None,
    options: Any,
    max_rejected: int,
    margin: float | None,
    as_json: bool,
) -> None:
    from cxrtext.evaluation.report.comparison import model_names
    from cxrtext.records import Rejects

    def results() -> Iterator[tuple[str, "Evaluation"]]:
        for name, checkpoint in zip(model_names(checkpoints), checkpoints, strict=True):
            rejects = Rejects(max_rejected)
            result = measure(checkpoint, rejects)
            _write(out / name if out else None, result, options, rejects)
            yield name, result
            del result  # a model and its images go before the next come

    _compare_results(results(), out, margin, as_json)


def _compare_files(
    predictions: list[Path],
    asked: dict[str, Any],
    out: Path | None,
    margin: float | None,
    as_json: bool,
) -> None:
    """Compare models by their predictions, with settings ``asked``."""
    from cxrtext.errors import ConfigError
    from cxrtext.evaluation import measure_file
    from cxrtext.evaluation.report.comparison import model_names

    if len(predictions) < 2:
        raise ConfigError("--compare wants at least two files: --from A --from B")
    names = model_names(predictions)
    files = zip(names, predictions, strict=True)
    results = ((name, measure_file(path, **asked)) for name, path in files)
    _compare_results(results, out, margin, as_json)


def _compare_results(
    results: Iterable[tuple[str, "Evaluation"]],
    out: Path | None,
    margin: float | None,
    as_json: bool,
) -> None:
    """Compare models, each measured when it is its turn."""
    from cxrtext.evaluation import compare
    from cxrtext.evaluation.report.comparison import (
        difference_rows,
        measure_rows,
        primary_lines,
        write_comparison,
    )
    from cxrtext.evaluation.report.write import summary_line

    measures, lines, primary = {}, {}, "AUC"
    for name, result in results:
        measures[name] = result.measured.compared
        lines[name] = summary_line(result)
        primary = result.settings["primary"]
        del result
    comparison = compare(measures, primary=primary, margin=margin)
    written = write_comparison(out, comparison, lines) if out is not None else []
    if as_json:
        print_json(comparison.to_dict())
        return
    print_table(measure_rows(comparison))
    typer.echo("")
    print_table(difference_rows(comparison), left=3)
    typer.echo("")
    for line in primary_lines(comparison):
        typer.echo(line)
    for line in comparison.left_out:
        typer.echo(f"left out: {line}")
    if written:
        typer.echo(f"written: {', '.join(str(path) for path in written)}")
