"""``cxrtext pull``."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.commands.pacs.peers import PEERS_FILE, Modality, PeerName, PeersFile, modalities_of
from cxrtext_cli.given import FILE, NEW_FOLDER
from cxrtext_cli.options import AsJson, Stages, print_json, print_table, say

Day = ["%Y-%m-%d"]


def _accessions(path: Path | None) -> tuple[str, ...]:
    from cxrtext.errors import DataError

    if path is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 text; give an accession number a line") from None
    numbers = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    for place, number in enumerate(numbers, 1):
        if len(number) > 16 or not number.isprintable() or set(number) & set("*?\\"):
            raise DataError(
                f"{path}: number {place} is no accession number (16 characters, without * ? \\)"
            )
    if not numbers:
        raise DataError(f"{path}: holds no accession number; give one a line")
    return numbers


def pull(
    name: PeerName,
    first: Annotated[datetime, typer.Option("--from", formats=Day, help="First StudyDate.")],
    out: Annotated[Path, typer.Option(help="Folder that the images come into."), NEW_FOLDER],
    last: Annotated[
        datetime | None,
        typer.Option("--to", formats=Day, help="Last StudyDate.", show_default="today"),
    ] = None,
    modality: Modality = "CR,DX",
    accessions: Annotated[
        Path | None, typer.Option(help="File of accession numbers, one a line: only these."), FILE
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask and count; fetch and write nothing.")
    ] = False,
    patience: Annotated[
        float, typer.Option(min=0, help="Minutes that a peer which is gone is waited for.")
    ] = 10.0,
    peers: PeersFile = PEERS_FILE,
    as_json: AsJson = False,
) -> None:
    """Fetch the frontal chest radiographs of a PACS; import makes a data folder of them.

    What may enter is decided before pixels are fetched, by the rules of import. Stopped in
    whatever way, the same command resumes.
    """
    modalities = modalities_of(modality)

    from dataclasses import asdict

    from cxrtext.pacs.peers import read_peer
    from cxrtext.pacs.retrieval.pull import PullOptions, pull_archive

    last = last or datetime.now()
    options = PullOptions(
        first=first.date(),
        last=last.date(),
        modalities=modalities,
        accessions=_accessions(accessions),
        dry_run=dry_run,
        patience_s=patience * 60,
    )
    with Stages() as stages:
        summary = pull_archive(read_peer(peers, name), out, options, stages.show, say)
    if as_json:
        print_json({**asdict(summary), "images": str(summary.images or "")})
    else:
        rows = [("studies", summary.studies)]
        rows += [("to fetch" if dry_run else "fetched", summary.fetched)]
        rows += [("left out", sum(summary.left.values()))]
        rows += [(f"  {reason}", count) for reason, count in summary.left.items()]
        rows += [("failed", sum(summary.failed.values()))]
        rows += [(f"  {reason}", count) for reason, count in summary.failed.items()]
        if summary.unlisted:
            rows += [("studies that could not be listed whole", sum(summary.unlisted.values()))]
            rows += [(f"  {reason}", count) for reason, count in summary.unlisted.items()]
        print_table(
            [
                (f"{name}, {first:%Y-%m-%d} to {last:%Y-%m-%d}", "count"),
                *((what, str(count)) for what, count in rows),
            ]
        )
        if summary.images is not None and summary.fetched:
            say(f"next: cxrtext import {summary.images} --out DATA")
        typer.echo(str(summary))
    if not summary.whole:
        raise typer.Exit(1)
