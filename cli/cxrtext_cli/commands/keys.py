"""``cxrtext keys``: the API keys of a server."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.given import ANY_PATH, NEW_FILE, checked
from cxrtext_cli.options import AsJson, print_json, print_rows, say

keys = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make, list and revoke the API keys of a server. A running server follows its file.",
)

File = Annotated[Path, typer.Argument(help="The file of keys."), ANY_PATH]
Name = Annotated[str, typer.Argument(help="Name of the key, as the audit log shows it.")]


@keys.command("add", short_help="Make a key and print it once.")
@checked
def add(
    file: Annotated[Path, typer.Argument(help="The file of keys, made when missing."), NEW_FILE],
    name: Name,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What it may do: read, write, admin, metrics; repeatable. Default: read."
        ),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The last day on which it is taken (UTC)."),
    ] = None,
) -> None:
    """Make a key and print it once; the file keeps only its SHA-256 digest."""
    from cxrtext_api.gate.keys import add_key

    key = add_key(file, name, scope or ["read"], expires.date() if expires else None)
    say(f"the key {name}, which is not shown again:")
    typer.echo(key)


@keys.command("list", short_help="Show the keys' names and scopes.")
def list_keys(file: File, as_json: AsJson = False) -> None:
    """Show names, scopes and last days; the keys themselves are not in the file."""
    from datetime import UTC

    from cxrtext_api.gate.keys import read_key_file

    today = datetime.now(UTC).date()
    rows = [
        {
            "name": key.key_id,
            "scopes": ",".join(sorted(key.scopes)),
            "last day": key.expires.isoformat() if key.expires else "-",
            "state": "expired" if key.is_over(today) else "good",
        }
        for key in read_key_file(file)
    ]
    if as_json:
        print_json(rows)
    else:
        print_rows(rows)


@keys.command("revoke", short_help="Take a key out of the file.")
def revoke(file: File, name: Name) -> None:
    """Take a key out of the file; a running server refuses it within a second."""
    from cxrtext_api.gate.keys import revoke_key

    revoke_key(file, name)
    say(f"revoked {name}")
