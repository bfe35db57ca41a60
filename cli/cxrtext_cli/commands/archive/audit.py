"""``cxrtext audit``: where the reports and films of an archive disagree."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.given import NEW_FOLDER
from cxrtext_cli.options import (
    Device,
    PlaceFolder,
    Stages,
    open_place,
    print_rows,
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
    order: Annotated[
        str, typer.Option(help="Column that tells which study of a patient came first.")
    ] = "date",
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
    from cxrtext.service.audit.tables import disagreement_rows, summary

    found_in = find_place(place)
    found_in.require_indexes()
    target = out or found_in.folder / "audit"
    if target.exists() and not (target / "audit.csv").is_file() and not is_empty(target):
        raise DataError(f"{target}: is there and holds no audit; give another folder with --out")
    service = open_place(found_in, device)
    with Stages() as stages:
        found = audit_archive(
            service.archive,
            service.verdicts,
            indexed_reports(service.archive),
            order=order,
            progress=lambda done, total: stages.show("comparing", done, total, "films"),
        )
        page = audit_page(
            found, service, lambda done, total: stages.show("drawing", done, total, "films")
        )
    counts = summary(found)
    with replacing_folder(target, private=True) as folder:
        write_rows(folder / "audit.csv", disagreement_rows(found))
        write_json(folder / "summary.json", counts)
        write_text(folder / "audit.html", page)
    print_rows(counts["by_finding"])
    typer.echo(
        f"{counts['taken']} disagreements at a false-discovery rate of "
        f"{counts['false_discovery_rate']} ({counts['expected_wrong']} of them false alarms), "
        f"{counts['marked']} marked; at most {counts['if_right']} would be, were every report "
        f"right, and {counts['if_dealt']}, were reports dealt to other patients"
    )
    seconds = sum(counts["seconds"].values())
    say(f"{target}/audit.html: {counts['sentences']} sentences in {seconds:.1f} s")
