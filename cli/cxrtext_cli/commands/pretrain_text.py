"""``cxrtext pretrain-text``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.options import AsJson, Device, duration, pick_device, print_json, progress


def pretrain_text(
    reports: Annotated[Path, typer.Argument(help="CSV or Parquet table of reports.")],
    out: Annotated[Path, typer.Option(help="Folder of the language model to write.")],
    base: Annotated[
        str | None,
        typer.Option(help="Fine-tune this model (folder or hub id) instead of starting afresh."),
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of a new model: compact, or demo for the embedded data.")
    ] = "compact",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the corpus; chosen by its size.")
    ] = None,
    section: Annotated[
        list[str] | None, typer.Option(help="Read these sections only; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a compact masked language model and its word pieces, or fine-tune one."""
    from dataclasses import asdict

    from cxrtext.language import pretrain_text as run

    with progress("pre-training", "steps") as update:
        summary = run(
            reports,
            out,
            base=base,
            size=size,
            epochs=epochs,
            sections=section,
            seed=seed,
            device=pick_device(device),
            progress=update,
        )
    if as_json:
        print_json(asdict(summary))
        return
    typer.echo(
        f"{out}: {summary.parameters:,} parameters, {summary.vocabulary_size} word pieces; "
        f"{summary.epochs} epochs over {summary.training_sentences} sentences of "
        f"{summary.with_text} reports in {duration(summary.seconds)}"
    )
    typer.echo(
        f"held-out: cross-entropy {summary.validation_loss[-1]:.3f} nats, pseudo-perplexity "
        f"{summary.perplexity:.2f} a word piece"
        if summary.validation_loss
        else "nothing was held out: the corpus is too small"
    )
