"""``cxrtext gateway held``: what waits for somebody's decision."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import checked
from cxrtext_cli.options import AsJson, GatewayFile, group, show_rows

held = group("What is held or failed: look at it, let it enter, join it, or drop it.")

Names = Annotated[
    list[str] | None, typer.Argument(help="Names as 'held list' shows them.", metavar="NAME...")
]
Every = Annotated[bool, typer.Option("--all", help="All that is held or failed.")]


@held.command("list", short_help="List it, with the reasons.")
@checked
def list_held(file: GatewayFile, as_json: AsJson = False) -> None:
    """List what is held until somebody decides or its study changes, and what failed."""
    from datetime import datetime

    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.inbox import desk
    from cxrtext.pacs.inbox.queue import Inbox

    with Inbox(read_gateway(file).inbox) as inbox:
        rows = [
            {
                "name": one.name,
                "what": one.what,
                "state": one.state,
                "from": one.source,
                "received": datetime.fromtimestamp(one.received)
                .astimezone()
                .isoformat(" ", "seconds"),
                "studies": " ".join(one.studies),
                "accession": one.accession,
                "patient": one.patient,
                "why": one.why,
            }
            for one in desk.list_held(inbox)
        ]
    show_rows(rows, as_json)


@held.command("accept", short_help="Let it enter regardless, or try it again.")
@checked
def accept(file: GatewayFile, names: Names = None, every: Every = False) -> None:
    """Let what is held enter in spite of the reason; what failed is tried again.

    A report joins the one study that it matches.
    """
    _decide(file, names, every, "accept")


@held.command("drop", short_help="Let it go; it does not enter.")
@checked
def drop(file: GatewayFile, names: Names = None, every: Every = False) -> None:
    """Let what is held or failed go: its file is removed, and it does not enter."""
    _decide(file, names, every, "drop")


@held.command("join", short_help="Join a report to a study.")
@checked
def join(
    file: GatewayFile,
    name: Annotated[str, typer.Argument(help="Name of the report.", metavar="NAME")],
    study: Annotated[str, typer.Argument(help="Id of the study.", metavar="STUDY")],
) -> None:
    """Join a held report to a study, whatever it says of the patient."""
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.inbox import desk
    from cxrtext.pacs.inbox.queue import Inbox

    with Inbox(read_gateway(file).inbox) as inbox:
        desk.join(inbox, name, study)
    typer.echo(f"{name} is joined to {study}")


def _decide(
    file: Path, names: list[str] | None, every: bool, verb: Literal["accept", "drop"]
) -> None:
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.inbox import desk
    from cxrtext.pacs.inbox.queue import Inbox

    if bool(names) == every:
        raise InputError("give the names that 'gateway held list' shows, or --all")
    with Inbox(read_gateway(file).inbox) as inbox:
        done = desk.decide(inbox, None if every else names, verb)
    typer.echo(f"{done} {'wait again' if verb == 'accept' else 'dropped'}")
