"""``cxrtext pretrain-image``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.given import FILE, NEW_FOLDER
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Cache,
    Device,
    MaxRejected,
    duration,
    pick_device,
    print_json,
    print_table,
    training_listener,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cxrtext.training.image_pretraining.pretrain import ImagePretrainSummary


def pretrain_image(
    manifest: Annotated[
        Path, typer.Argument(help="Table of images, with reports beside it or in it."), FILE
    ],
    out: Annotated[Path, typer.Option(help="Folder of the encoder to write."), NEW_FOLDER],
    words: Annotated[
        Path | None, typer.Option(help="File of words of findings, instead of those found."), FILE
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Table of labels to learn instead of words."), FILE
    ] = None,
    reports: Annotated[
        Path | None, typer.Option(help="Table of reports; by default beside the manifest."), FILE
    ] = None,
    self_supervised: Annotated[
        bool, typer.Option("--self-supervised", help="Learn from views of the images alone.")
    ] = False,
    words_only: Annotated[
        bool, typer.Option("--words-only", help="Write the words that were found, and stop.")
    ] = False,
    sides: Annotated[
        bool, typer.Option(help="Learn words also by side, of each half of the image.")
    ] = True,
    image: Annotated[
        str,
        typer.Option(
            help="resnet18, resnet50 or resnet-narrow, as model.image; vit-narrow or vit-small."
        ),
    ] = "resnet18",
    resize: Annotated[int, typer.Option(help="Shorter side of a decoded image, in pixels.")] = 512,
    crop: Annotated[int, typer.Option(help="Side of the window that is learned from.")] = 480,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the images; chosen by their number and the architecture."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Images a step.")] = 32,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    cache: Cache = None,
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder.")
    ] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train an image encoder on words of findings that reports affirm, to start from."""
    from cxrtext.training.image_pretraining.settings import (
        ImagePretrainSettings,
        check_output,
        check_settings,
    )

    settings = ImagePretrainSettings(
        image=image,
        resize=resize,
        crop=crop,
        epochs=epochs,
        batch=batch,
        seed=seed,
        sides=sides,
    )
    check_settings(settings)
    check_output(out, resume)
    if words_only:
        others = {"--words": words, "--labels": labels, "--self-supervised": self_supervised}
        _refuse_beside_words_only(others | {"--resume": resume})
        from cxrtext.training.image_pretraining.pretrain import write_found_words

        for line in write_found_words(
            manifest, out, reports=reports, sides=sides, allow_outside=allow_outside
        ):
            typer.echo(line)
        return

    from cxrtext.training.image_pretraining import pretrain_image as run

    with training_listener("pre-training") as listener:
        summary = run(
            manifest,
            out,
            settings=settings,
            words=words,
            labels=labels,
            reports=reports,
            views=self_supervised,
            cache=cache,
            resume=resume,
            allow_outside=allow_outside,
            max_rejected=max_rejected,
            device=pick_device(device),
            listener=listener,
        )
    if as_json:
        print_json(_plain(summary))
        return
    _print(summary)


def _refuse_beside_words_only(given: "Mapping[str, object]") -> None:
    for option, value in given.items():
        if value:
            raise ConfigError(
                f"--words-only writes the words of the reports and trains nothing, so {option} "
                "has no meaning beside it; leave one of the two out"
            )


def _plain(summary: "ImagePretrainSummary") -> dict[str, object]:
    names = summary.__dataclass_fields__
    values = {name: getattr(summary, name) for name in names if name != "findings"}
    plain = {name: str(one) if isinstance(one, Path) else one for name, one in values.items()}
    return plain | {"findings": [one.row() for one in summary.findings]}


def _print(summary: "ImagePretrainSummary") -> None:
    if summary.findings and summary.validation_images:
        rows = [["finding", "training", "validation", "AUC"]]
        for one in summary.findings:
            auc = "" if one.auc is None else f"{one.auc:.3f}"
            rows.append([one.finding.name, str(one.finding.affirmed), str(one.present), auc])
        print_table(rows)
    typer.echo(
        f"{summary.encoder or summary.backbone}: {summary.epochs} epochs on "
        f"{summary.images} images in {duration(summary.seconds)}"
    )
    shown = {"auc": "mean AUC", "accuracy": "accuracy of views", "loss": "loss"}
    numbers = [
        f"{title} {summary.validation[name]:.3f}"
        for name, title in shown.items()
        if name in summary.validation
    ]
    if numbers:
        typer.echo(f"{summary.validation_images} validation images: {', '.join(numbers)}")
    if summary.rejected:
        typer.echo(f"images rejected: {summary.rejected}")
    if summary.encoder:
        typer.echo(f"start a training from it with --set model.image_weights={summary.encoder}")
    if summary.backbone:
        typer.echo(f"train on its features after: cxrtext encode --backbone {summary.backbone}")
