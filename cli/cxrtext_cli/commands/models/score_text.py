"""``cxrtext score-text``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext_cli.given import LANGUAGE_MODEL, NEW_FILE, NEW_TABLE_OR_STDOUT, SOURCE
from cxrtext_cli.options import (
    Device,
    MaxRejected,
    Precision,
    Sections,
    TableColumns,
    pick_device,
    progress,
    say,
)

if TYPE_CHECKING:
    from cxrtext.language import ScoreSummary


def _target(reports: str, out: str | None) -> Path | TextIO:
    """Where the table goes: beside the input by default, or to standard output for '-'."""
    if out == "-" or (out is None and reports == "-"):
        return sys.stdout
    if out is not None:
        return Path(out)
    path = Path(reports)
    return path.parent / ("sentences.csv" if not path.is_dir() else f"{path.name}-sentences.csv")


def _tell(summary: "ScoreSummary", target: Path | TextIO, echo: Callable[[str], None]) -> None:
    from cxrtext.project.fitting import duration
    from cxrtext.project.stages import shares

    name = target if isinstance(target, Path) else "standard output"
    echo(
        f"{name}: {summary.sentences} sentences ({summary.distinct_sentences} distinct, "
        f"{summary.tokens} word pieces) of {summary.with_text} reports in "
        f"{duration(summary.seconds)}"
    )
    echo(
        f"understood by the rules of labels: {summary.understood:.1%} of the sentences (by "
        f"language: {shares(summary.by_language)}; by section: {shares(summary.by_section)})"
    )
    if summary.from_cache:
        echo(f"distinct sentences whose score was known: {summary.from_cache}")
    if summary.without_text:
        echo(f"reports without text: {summary.without_text}")
    if summary.unknown_words:
        echo(
            f"words missing from the model's vocabulary: {summary.unknown_words} of "
            f"{summary.words} ({summary.unknown_words / summary.words:.2%}); sentences without eta "
            f"because of them: {summary.without_eta}"
        )
    if summary.fitted:
        echo(
            f"fitted to equal sentences: a = {summary.a:.3g}, k = {summary.k:.3g}. Paraphrases are "
            "not counted, so a is a lower bound"
        )
    if summary.warning:
        echo(f"warning: {summary.warning}")
    if summary.rejected:
        listed = f", in {target}.rejected.csv" if isinstance(target, Path) else ""
        echo(f"rows and sentences rejected: {summary.rejected}{listed}")


def score_text(
    reports: Annotated[
        str,
        typer.Argument(
            help="Table of reports or sentences (CSV, Excel, Parquet), folder of text files, "
            "or - for sentences on standard input, one per line."
        ),
        SOURCE,
    ],
    model: Annotated[
        str,
        typer.Option(help="Masked language model: a folder, or a hub id (id@revision)."),
        LANGUAGE_MODEL,
    ] = "microsoft/BiomedVLP-CXR-BERT-general",
    out: Annotated[
        str | None,
        typer.Option(
            help="Table to write, .csv or .parquet; - for standard output. "
            "Default: sentences.csv beside the reports."
        ),
        NEW_TABLE_OR_STDOUT,
    ] = None,
    columns: TableColumns = "",
    a: Annotated[
        float, typer.Option(help="Scale of the class probability, in (0, 1).")
    ] = DEFAULT_A,
    k: Annotated[float, typer.Option(min=0.0, help="Exponent on the likelihood.")] = DEFAULT_K,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit a and k to how often sentences recur.")
    ] = False,
    section: Sections = None,
    precision: Precision = "float32",
    device: Device = "auto",
    cache: Annotated[
        Path | None,
        typer.Option(help="File that keeps scores; by default scores.sqlite beside the table."),
        NEW_FILE,
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no scores.")] = False,
    max_rejected: MaxRejected = 100,
) -> None:
    """Split reports into sentences and score the likelihood and class probability of each.

    Run it again to resume; no sentence is scored twice.
    """
    from cxrtext.language.scoring.settings import ScoreSettings, check_paths

    target = _target(reports, out)
    options = ScoreSettings(
        a=a,
        k=k,
        fit=fit,
        sections=tuple(section) if section else None,
        precision=precision,  # type: ignore[arg-type]  # checked there
        max_rejected=max_rejected,
        cache=False if no_cache else cache or True,
    )
    options.check()
    check_paths(reports, target)

    from cxrtext.language import score_reports
    from cxrtext.project.stages import say_columns

    given = say_columns(reports, say, columns)
    with progress("scoring", "sentences") as update:
        summary = score_reports(
            reports,
            target,
            options,
            model=model,
            columns=given,
            device=pick_device(device),
            on_read=lambda count: say(f"reading: {count}"),
            progress=update,
        )
    # If the table goes to standard output, messages for people do not.
    _tell(summary, target, typer.echo if isinstance(target, Path) else say)
