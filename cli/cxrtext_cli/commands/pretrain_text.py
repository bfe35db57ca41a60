"""``cxrtext pretrain-text``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.given import LANGUAGE_MODEL, NEW_FOLDER, SECTION, SOURCE
from cxrtext_cli.options import AsJson, Device, duration, pick_device, print_json, progress

SHOWN = 3
"""Sentences with a gap that are shown."""


def pretrain_text(
    reports: Annotated[
        Path,
        typer.Argument(
            help="Table of reports or sentences (CSV, Parquet, JSON Lines), or folder of text "
            "files."
        ),
        SOURCE,
    ],
    out: Annotated[Path, typer.Option(help="Folder of the language model to write."), NEW_FOLDER],
    base: Annotated[
        str | None,
        typer.Option(help="Fine-tune this model (folder or hub id) instead of starting afresh."),
        LANGUAGE_MODEL,
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of a new model: compact, or demo for the embedded data.")
    ] = "compact",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the corpus; chosen by its size.")
    ] = None,
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after so many epochs without a gain on held-out text.")
    ] = 0,
    section: Annotated[
        list[str] | None, typer.Option(help="Read these sections only; repeatable."), SECTION
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a compact masked language model and its word pieces, or fine-tune one."""
    from dataclasses import asdict

    from cxrtext.language.pretraining.settings import check_output, choose_shape

    choose_shape(size)
    check_output(out)

    from cxrtext.language import pretrain_text as run

    with progress("pre-training", "steps") as update:
        summary = run(
            reports,
            out,
            base=base,
            size=size,
            epochs=epochs,
            patience=patience,
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
    kept = summary.kept_epoch
    typer.echo(
        f"held-out: cross-entropy {summary.validation_loss[kept - 1]:.3f} nats, "
        f"pseudo-perplexity {summary.perplexity:.2f} a word piece"
    )
    if kept < summary.epochs:
        early = "stopped early; " if summary.stopped_early else ""
        typer.echo(f"{early}kept epoch {kept} of {summary.epochs}, the best on held-out text")
    covered, held_out = summary.coverage, summary.held_out_coverage
    if covered.unknown or held_out.unknown:
        typer.echo(
            f"words that the vocabulary lacks: {covered.unknown:.2%} of the training sentences', "
            f"{held_out.unknown:.2%} of the held-out ones'"
        )
    if summary.warning:
        typer.echo(f"warning: {summary.warning}")
    for filled in summary.fill_mask[:SHOWN]:
        words = ", ".join(f"{word.word} {word.probability:.2f}" for word in filled.words[:3])
        typer.echo(f"{filled.template}  {words}")
