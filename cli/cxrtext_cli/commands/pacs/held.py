"""``cxrtext gateway held``: what waits for somebody's decision."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import checked
from cxrtext_cli.options import AsJson, GatewayFile, group, show_rows

held = group("What is held or failed: look at it, let it enter, or drop it.")

Numbers = Annotated[
    list[int] | None, typer.Argument(help="Numbers as 'held list' shows them.", metavar="NUMBER...")
]
Every = Annotated[bool, typer.Option("--all", help="All that is held or failed.")]


@held.command("list", short_help="List it, with the reasons.")
@checked
def list_held(file: GatewayFile, as_json: AsJson = False) -> None:
    """List what is held until somebody decides or its study changes, and what failed."""
    from datetime import datetime

    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.inbox.queue import Inbox

    with Inbox(read_gateway(file).inbox) as inbox:
        rows = [
            {
                "number": one.number,
                "what": one.what,
                "state": one.state,
                "from": one.source,
                "received": datetime.fromtimestamp(one.received)
                .astimezone()
                .isoformat(" ", "seconds"),
                "study": one.study or "",
                "why": one.reason,
            }
            for one in inbox.held()
        ]
    show_rows(rows, as_json)


@held.command("accept", short_help="Let it enter regardless, or try it again.")
@checked
def accept(file: GatewayFile, numbers: Numbers = None, every: Every = False) -> None:
    """Let what is held enter in spite of the reason; what failed is tried again."""
    _decide(file, numbers, every, "accept")


@held.command("drop", short_help="Let it go; it does not enter.")
@checked
def drop(file: GatewayFile, numbers: Numbers = None, every: Every = False) -> None:
    """Let what is held or failed go: its file is removed, and it does not enter."""
    _decide(file, numbers, every, "drop")


def _decide(file: Path, numbers: list[int] | None, every: bool, verb: str) -> None:
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.inbox.queue import Inbox

    if bool(numbers) == every:
        raise InputError("give the numbers that 'gateway held list' shows, or --all")
    with Inbox(read_gateway(file).inbox) as inbox:
        done = getattr(inbox, verb)(None if every else numbers)
    typer.echo(f"{done} entries {'wait again' if verb == 'accept' else 'dropped'}")
