"""An evaluation in the terminal, and in a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cxrtext_cli.options import print_table

if TYPE_CHECKING:
    from cxrtext.evaluation import Evaluation
    from cxrtext.records import Rejects


def write_out(
    out: Path | None, result: "Evaluation", options: Any, rejects: "Rejects"
) -> list[Path]:
    """Write a report and its files, where a folder is given; returns them."""
    from cxrtext.evaluation.report import write_report

    if out is None:
        return []
    written = write_report(out, result, options)
    rejects.write(out / "images")
    return written


def show(result: "Evaluation") -> None:
    """Print every table of an evaluation, its primary measure, and what was left out."""
    from cxrtext.evaluation.report.tables import SHOWN, primary_line
    from cxrtext.records import CHEX5

    typer.echo(f"{result.images} images of {result.patients} patients, split '{result.split}'")
    for title, rows in SHOWN.items():
        found = rows(result.rows)
        if len(found) > 1:
            typer.echo(f"\n{title}")
            print_table(found)
    if result.primary:
        typer.echo(f"\n{primary_line(result)}")
    for line in result.warnings:
        typer.echo(f"note: {line}")
    for line in result.left_out:
        typer.echo(f"left out: {line}")
    if result.mean_auc is not None:
        name = "mean CheX5 AUC" if set(result.findings) == set(CHEX5) else "mean AUC"
        typer.echo(f"{name} {result.mean_auc:.3f}")


def say_written(written: Sequence[Path]) -> None:
    """Name the files that were written, if any."""
    if written:
        typer.echo(f"written: {', '.join(str(path) for path in written)}")
