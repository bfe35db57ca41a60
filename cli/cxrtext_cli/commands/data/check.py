"""``cxrtext check-data`` and ``cxrtext check-files``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli.given import FILE_OR_FOLDER, FOLDER, NEW_FILE
from cxrtext_cli.options import AsJson, Stages, print_json, print_table, say

if TYPE_CHECKING:
    from cxrtext.datasets.checking import CheckReport
    from cxrtext.integrity import FilesReport


def check_data(
    data: Annotated[Path, typer.Argument(help="Data folder, or a manifest."), FILE_OR_FOLDER],
    out: Annotated[
        Path | None, typer.Option(help="Write a page (.html), or .json."), NEW_FILE
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Put small pictures into the page.")
    ] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find problems in a data set: images, reports, labels, boxes, splits.

    Exit code 0 without errors, 1 with errors, 2 if there is nothing to check.
    """
    from cxrtext.datasets.checking import check_data as check
    from cxrtext.datasets.checking import check_ending, write_check

    if out is not None:
        check_ending(out)
    pictures = pictures and out is not None and out.suffix.lower() != ".json"
    with Stages() as stages:
        report = check(data, stages.show, pictures=pictures)
    if out is not None:
        write_check(out, report)
    if as_json:
        print_json(report.to_dict())
    else:
        _print_data(report)
    if out is not None:
        say(f"written: {out}")
    if report.has_failed(strict=strict):
        raise typer.Exit(1)


def _print_data(report: "CheckReport") -> None:
    from cxrtext.datasets.checking import Severity, verdict

    typer.echo(report.data)
    typer.echo("; ".join(f"{name} {count:,}" for name, count in report.summary.items()))
    if report.problems:
        typer.echo()
        rows = [
            (str(problem.kind.severity), f"{problem.count:,}", problem.kind.title)
            for problem in report.problems
        ]
        print_table([("severity", "count", "problem"), *rows], left=3)
    for problem in report.problems:
        if problem.kind.severity is Severity.NOTE:
            continue
        typer.echo(f"\n{problem.kind.severity}: {problem.kind.title}")
        for example in problem.examples[:3]:
            typer.echo(f"  {example}")
        typer.echo(f"  to do: {problem.kind.advice}")
    typer.echo(f"\n{verdict(report)}")


def check_files(
    folder: Annotated[Path, typer.Argument(help="Any folder that cxrtext wrote into."), FOLDER],
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Accept your own changes to this data folder's tables."),
    ] = False,
) -> None:
    """Compare every file below a folder with the digest noted when it was written.

    Finds what a failing disk or a broken copy changed: models, training states, indexes, caches,
    scored sentences, and the tables of data folders. Exit code 0 if all files are whole, 1 if one
    is damaged.
    """
    from cxrtext.integrity import accept_changes
    from cxrtext.integrity import check_files as check

    if accept:
        changed = accept_changes(folder)
        say(f"{folder}: {len(changed)} changed file(s) accepted" + _names(changed))
    report = check(folder)
    _print_files(report)
    if report.problems:
        raise typer.Exit(1)


def _names(names: list[str]) -> str:
    return f": {', '.join(names[:5])}{', …' if len(names) > 5 else ''}" if names else ""


def _print_files(report: "FilesReport") -> None:
    for kind, count in report.checked.items():
        typer.echo(f"{count:8,} {kind}")
    typer.echo(f"{report.unchecked:8,} without a digest (original images, pages, your own files)")
    if report.unfinished:
        typer.echo(f"{report.unfinished:8,} left by stopped runs; the next run removes them")
    for problem in report.problems:
        typer.echo(f"damaged: {problem}")
    if report.problems:
        typer.echo(
            f"{len(report.problems)} damaged; copy them again from their source, or make them again"
        )
    elif report.checked:
        typer.echo(f"{report.folder}: all files with a digest are unchanged")
    else:
        typer.echo(f"{report.folder}: no file here has a digest")
