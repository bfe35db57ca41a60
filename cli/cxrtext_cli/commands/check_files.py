"""``cxrtext check-files``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli.given import FOLDER
from cxrtext_cli.options import AsJson, print_json, say

if TYPE_CHECKING:
    from cxrtext.integrity import FilesReport


def check_files(
    folder: Annotated[Path, typer.Argument(help="Any folder that cxrtext wrote into."), FOLDER],
    accept: Annotated[
        bool,
        typer.Option("--accept", help="You changed this data folder's tables: list them anew."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare every file below a folder with the digests it was written with.

    Finds what a failing disk or a broken copy changed: models, training states, indexes, caches,
    scored sentences, and the tables of data folders. Exit code 0 where all is whole, 1 where a file
    is damaged.
    """
    from cxrtext.integrity import accept_changes
    from cxrtext.integrity import check_files as check

    if accept:
        changed = accept_changes(folder)
        say(f"{folder}: {len(changed)} changed file(s) accepted" + _names(changed))
    report = check(folder)
    if as_json:
        print_json(
            {
                "folder": str(report.folder),
                "checked": report.checked,
                "unchecked": report.unchecked,
                "unfinished": report.unfinished,
                "problems": report.problems,
            }
        )
    else:
        _print(report)
    if report.problems:
        raise typer.Exit(1)


def _names(names: list[str]) -> str:
    return f": {', '.join(names[:5])}{', …' if len(names) > 5 else ''}" if names else ""


def _print(report: "FilesReport") -> None:
    for kind, count in report.checked.items():
        typer.echo(f"{count:8,} {kind}")
    typer.echo(f"{report.unchecked:8,} without a digest (images as they came, pages, your own)")
    if report.unfinished:
        typer.echo(f"{report.unfinished:8,} left by stopped runs; the next run removes them")
    for problem in report.problems:
        typer.echo(f"damaged: {problem}")
    if report.problems:
        typer.echo(
            f"{len(report.problems)} damaged; copy them again from where they came, or make them "
            "anew"
        )
    elif report.checked:
        typer.echo(f"{report.folder}: all that carries a digest is as it was written")
    else:
        typer.echo(f"{report.folder}: holds nothing that carries a digest")
