"""``cxrtext audit``: where the reports and films of an archive disagree."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.given import NEW_FOLDER
from cxrtext_cli.options import (
    Device,
    PlaceFolder,
    open_place,
    print_rows,
    progress,
    say,
    write_rows,
)


def audit(
    place: PlaceFolder,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and page; 'audit' in PLACE.", show_default=False),
        NEW_FOLDER,
    ] = None,
    device: Device = "auto",
) -> None:
    """Look for films and reports of an index that disagree; the likeliest come first.

    Writes audit.csv, summary.json and audit.html, which hold text of patients.
    """
    from cxrtext.errors import DataError
    from cxrtext.files import is_empty, replacing_folder, write_json, write_text
    from cxrtext.project import find_place
    from cxrtext.service.audit.audit import audit_archive
    from cxrtext.service.audit.films import indexed_reports
    from cxrtext.service.audit.page import audit_page
    from cxrtext.service.audit.tables import TAKEN, disagreement_rows, summary

    found_in = find_place(place)
    found_in.require_indexes()
    target = out or found_in.folder / "audit"
    if target.exists() and not (target / "audit.csv").is_file() and not is_empty(target):
        raise DataError(f"{target}: is there and holds no audit; give another folder with --out")
    service = open_place(found_in, device)
    with progress("comparing", "films") as update:
        found = audit_archive(
            service.archive,
            service.verdicts,
            indexed_reports(service.archive),
            progress=update,
        )
    counts = summary(found)
    page = audit_page(found, service)
    with replacing_folder(target, private=True) as folder:
        write_rows(folder / "audit.csv", disagreement_rows(found))
        write_json(folder / "summary.json", counts)
        write_text(folder / "audit.html", page)
    print_rows(counts["by_finding"])
    typer.echo(
        f"marked {counts['marked']}: at most {counts['if_right']:.0f} if every report were right, "
        f"{counts['if_dealt']:.0f} if reports were dealt to other patients"
    )
    typer.echo(
        f"q up to {TAKEN}: {counts['taken']}, of them {counts['expected_wrong']:.1f} false alarms"
    )
    if counts["unordered"]:
        say(
            f"no stale text of {counts['unordered']} patient(s): nothing tells their studies' order"
        )
    seconds = sum(counts["seconds"].values())
    say(f"{target / 'audit.html'}: {counts['sentences']} sentences in {seconds:.1f} s")
