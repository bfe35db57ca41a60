"""``cxrtext evaluate``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    pick_device,
    print_json,
    print_table,
    progress,
)


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint folder.")],
    data: Annotated[
        Path, typer.Option(help="Data folder: manifest.csv, and reports.csv, labels.csv.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for metrics.json and report.md.")] = None,
    split: Annotated[str, typer.Option(help="train, val, test or all.")] = "test",
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts; CheX5's by default.")
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint: zero-shot classification and retrieval."""
    from cxrtext.evaluation import evaluate as run
    from cxrtext.evaluation import read_prompts
    from cxrtext.evaluation.tables import classification_rows, markdown_report, retrieval_rows
    from cxrtext.files import write_json, write_text
    from cxrtext.records import CHEX5, Rejects

    rejects = Rejects(max_rejected)
    with progress("embedding", "images") as update:
        result = run(
            checkpoint,
            data,
            split=split,
            prompts=read_prompts(prompts) if prompts else None,
            device=pick_device(device),
            allow_outside=allow_outside,
            rejects=rejects,
            progress=update,
        )
    if out is not None:
        write_json(out / "metrics.json", result.to_dict())
        write_text(out / "report.md", markdown_report(result))
        rejects.write(out / "images")
    if as_json:
        print_json(result.to_dict())
        return
    typer.echo(f"{result.images} images of {result.patients} patients, split '{result.split}'")
    if result.classification:
        typer.echo("\nzero-shot classification")
        print_table(classification_rows(result))
    if result.retrieval:
        typer.echo("\nretrieval (ties count against the model; equal sentences are right)")
        print_table(retrieval_rows(result))
    for line in result.left_out:
        typer.echo(f"left out: {line}")
    if rejects.rows:
        typer.echo(f"images that cannot be read: {len(rejects.rows)}")
    if result.mean_auc is not None:
        name = "mean CheX5 AUC" if set(result.classification) == set(CHEX5) else "mean AUC"
        typer.echo(f"{name} {result.mean_auc:.3f}")
    if out is not None:
        typer.echo(f"written: {out / 'report.md'}, {out / 'metrics.json'}")
