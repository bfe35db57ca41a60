"""``cxrtext score-text``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.options import (
    AsJson,
    Device,
    MaxRejected,
    duration,
    pick_device,
    print_json,
    progress,
)


def score_text(
    reports: Annotated[Path, typer.Argument(help="CSV or Parquet table of reports.")],
    model: Annotated[
        str, typer.Option(help="Masked language model: a folder, or a hub id.")
    ] = "microsoft/BiomedVLP-CXR-BERT-general",
    out: Annotated[
        Path | None, typer.Option(help="Table to write; sentences.csv beside the reports.")
    ] = None,
    a: Annotated[float, typer.Option(help="Scale of the class probability, in (0, 1).")] = 0.2,
    k: Annotated[float, typer.Option(min=0.0, help="Exponent on the likelihood.")] = 0.35,
    section: Annotated[
        list[str] | None, typer.Option(help="Keep these sections only; repeatable.")
    ] = None,
    device: Device = "auto",
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """Split reports into sentences and score each one's likelihood and class probability."""
    from dataclasses import asdict

    from cxrtext.language import score_reports

    target = out or reports.parent / "sentences.csv"
    with progress("scoring", "sentences") as update:
        summary = score_reports(
            reports,
            target,
            model=model,
            a=a,
            k=k,
            sections=section,
            device=pick_device(device),
            max_rejected=max_rejected,
            progress=update,
        )
    if as_json:
        print_json(asdict(summary))
        return
    typer.echo(
        f"{target}: {summary.sentences} sentences ({summary.distinct_sentences} distinct, "
        f"{summary.tokens} word pieces) of {summary.with_text} reports in "
        f"{duration(summary.seconds)}"
    )
    if summary.without_text:
        typer.echo(f"reports without text: {summary.without_text}")
    if summary.rejected:
        typer.echo(f"sentences set aside: {summary.rejected}, in {target}.rejected.csv")
