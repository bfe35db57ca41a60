"""``cxrtext label-reports``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.given import ABSENT_TABLE
from cxrtext_cli.options import (
    TableColumns,
    TextSource,
    print_table,
    say,
)


def label_reports(
    reports: TextSource,
    out: Annotated[Path, typer.Option(help="Table of labels to write."), ABSENT_TABLE],
    columns: TableColumns = "",
    absent: Annotated[
        bool,
        typer.Option("--absent", help="Write 0, not a blank, for what a report does not mention."),
    ] = False,
) -> None:
    """Read labels from reports: findings affirmed, denied or hedged, with the sentences."""
    from cxrtext.language.report_labels import label_reports as run
    from cxrtext.project.stages import say_columns, shares

    given = say_columns(reports, say, columns)
    done = run(reports, out, silence=0 if absent else None, columns=given)
    if done.rejected:
        say(f"{reports}: {done.rejected} reports could not be read and were left out")
    rows = [
        [finding, *(str(values[value]) for value in (1, -1, 0, None))]
        for finding, values in done.values.items()
    ]
    print_table([["finding", "affirmed", "hedged", "denied", "not mentioned"], *rows])
    typer.echo(
        f"{done.understood:.1%} of the sentences mention a finding, or say that something is normal"
    )
    typer.echo(f"by language: {shares(done.by_language)}; by section: {shares(done.by_section)}")
    typer.echo(f"{out}: {done.studies} reports; the sentences: {done.evidence}")
