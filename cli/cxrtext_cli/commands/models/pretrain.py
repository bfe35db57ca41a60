"""``cxrtext pretrain-text`` and ``cxrtext pretrain-image``."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli.given import FILE, FILE_OR_FOLDER, LANGUAGE_MODEL, NEW_FOLDER
from cxrtext_cli.options import (
    Cache,
    Device,
    TableColumns,
    TextSource,
    pick_device,
    print_table,
    progress,
    say,
    told,
)

if TYPE_CHECKING:
    from cxrtext.training.image_pretraining.pretrain import ImagePretrainSummary


def pretrain_text(
    reports: TextSource,
    out: Annotated[Path, typer.Option(help="Folder of the language model to write."), NEW_FOLDER],
    columns: TableColumns = "",
    base: Annotated[
        str | None,
        typer.Option(help="Fine-tune this model (folder or hub id) instead of a new one."),
        LANGUAGE_MODEL,
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of a new model: compact, or demo for the embedded data.")
    ] = "compact",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the corpus; by default by its size.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a compact masked language model and its word pieces, or fine-tune one."""
    from cxrtext.language.pretraining.settings import check_output, shape_of

    shape_of(size)
    check_output(out)

    from cxrtext.language import pretrain_text as run
    from cxrtext.project.fitting import duration
    from cxrtext.project.stages import say_columns

    given = say_columns(reports, say, columns)
    with progress("pre-training", "steps") as update:
        summary = run(
            reports,
            out,
            columns=given,
            base=base,
            size=size,
            epochs=epochs,
            device=pick_device(device),
            progress=update,
        )
    typer.echo(
        f"{out}: {summary.parameters:,} parameters, {summary.vocabulary_size} word pieces; "
        f"{summary.epochs} epochs over {summary.training_sentences} sentences of "
        f"{summary.with_text} reports in {duration(summary.seconds)}"
    )
    kept = summary.kept_epoch
    typer.echo(
        f"held-out: cross-entropy {summary.validation_loss[kept - 1]:.3f} nats, "
        f"pseudo-perplexity {summary.perplexity:.2f} per word piece"
    )
    if kept < summary.epochs:
        typer.echo(f"kept epoch {kept} of {summary.epochs}, the best on held-out text")
    if summary.unknown_words:
        typer.echo(
            f"words missing from the vocabulary: {summary.unknown_words / summary.words:.2%} of "
            "those in training sentences"
        )
    if summary.warning:
        typer.echo(f"warning: {summary.warning}")


def pretrain_image(
    manifest: Annotated[
        Path, typer.Argument(help="Table of images, with reports beside it or in it."), FILE
    ],
    out: Annotated[Path, typer.Option(help="Folder of the encoder to write."), NEW_FOLDER],
    words: Annotated[
        Path | None,
        typer.Option(help="File of words for findings, such as an edited words.txt of a run."),
        FILE,
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Table of labels to learn instead of words."), FILE
    ] = None,
    image: Annotated[
        str,
        typer.Option(help="resnet18, resnet50, resnet50-half or resnet-narrow, as model.image."),
    ] = "resnet18",
    weights: Annotated[
        Path | None, typer.Option(help="Weights to start with."), FILE_OR_FOLDER
    ] = None,
    resize: Annotated[int, typer.Option(help="Shorter side of a decoded image, in pixels.")] = 512,
    crop: Annotated[int, typer.Option(help="Side of the window to learn from, in pixels.")] = 480,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the images; by default by their number.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Images per step.")] = 32,
    cache: Cache = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Train an image encoder on the words of findings that reports affirm."""
    from cxrtext.training.image_pretraining.settings import (
        ImagePretrainSettings,
        check_output,
        check_settings,
    )

    settings = ImagePretrainSettings(
        image=image,
        weights=weights,
        resize=resize,
        crop=crop,
        epochs=epochs,
        batch=batch,
    )
    check_settings(settings)
    check_output(out, resume)

    from cxrtext.training.image_pretraining import pretrain_image as run

    with told() as tell:
        summary = run(
            manifest,
            out,
            settings=settings,
            words=words,
            labels=labels,
            cache=cache,
            resume=resume,
            device=pick_device(device),
            listener=tell.listener("pre-training"),
        )
    _print(summary)


def _print(summary: "ImagePretrainSummary") -> None:
    from cxrtext.project.fitting import duration

    if summary.findings and summary.validation_images:
        rows = [["finding", "training", "validation", "AUC"]]
        for one in summary.findings:
            auc = "" if one.auc is None else f"{one.auc:.3f}"
            rows.append([one.finding.name, str(one.finding.affirmed), str(one.present), auc])
        print_table(rows)
    typer.echo(
        f"{summary.encoder}: {summary.epochs} epochs on "
        f"{summary.images} images in {duration(summary.seconds)}"
    )
    shown = {"auc": "mean AUC", "loss": "loss"}
    numbers = [
        f"{title} {summary.validation[name]:.3f}"
        for name, title in shown.items()
        if name in summary.validation
    ]
    if numbers:
        typer.echo(f"{summary.validation_images} validation images: {', '.join(numbers)}")
    if summary.rejected:
        typer.echo(f"images rejected: {summary.rejected}")
    typer.echo(
        f"start a training from it with --set {quote(f'model.image_weights={summary.encoder}')}"
    )
    if summary.backbone:
        backbone = quote(str(summary.backbone))
        typer.echo(f"train on its features after: cxrtext encode --backbone {backbone}")
