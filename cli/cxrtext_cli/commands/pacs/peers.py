"""``cxrtext peers``: the hospital systems of a file."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.given import ANY_PATH, checked
from cxrtext_cli.options import AsJson, print_json, print_table

peers = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Hospital systems that are spoken with: look at what fails.",
)

PeersFile = Annotated[
    Path, typer.Option("--peers", help="File of the systems that are spoken with."), ANY_PATH
]
"""The option of every command that speaks with a peer."""

PEERS_FILE = Path("peers.yaml")
PeerName = Annotated[str, typer.Argument(help="Name of the peer in the file of peers.")]
Modality = Annotated[str, typer.Option(help="Modalities of the studies that are asked for.")]


def modalities_of(text: str) -> tuple[str, ...]:
    found = tuple(one.strip().upper() for one in text.split(",") if one.strip())
    if not found or not all(one.isalnum() for one in found):
        raise ConfigError(f"--modality is '{text}'; give such as CR,DX")
    return found


@peers.command("check", short_help="Say which layer fails, and what to do.")
@checked
def check(
    name: Annotated[str, typer.Argument(help="Name of the peer in the file.")],
    file: PeersFile = PEERS_FILE,
    as_json: AsJson = False,
) -> None:
    """Look at each layer of a peer: name, TCP, TLS, login, title, right, syntaxes.

    It takes 10 seconds at most, changes nothing and names the first that fails, with what to do.
    """
    from dataclasses import asdict

    from cxrtext.pacs.check import check_peer
    from cxrtext.pacs.peers import read_peer

    steps = check_peer(read_peer(file, name))
    if as_json:
        print_json([asdict(step) for step in steps])
    else:
        rows = [(s.protocol, s.layer, "good" if s.ok else "FAILED", s.said) for s in steps]
        print_table([("protocol", "layer", "state", "what"), *rows], left=4)
    if not all(step.ok for step in steps):
        raise typer.Exit(1)
