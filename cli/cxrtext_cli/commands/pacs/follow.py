"""``cxrtext follow``."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.commands.pacs.peers import PEERS_FILE, Modality, PeerName, PeersFile, modalities_of
from cxrtext_cli.given import FOLDER, NEW_FOLDER
from cxrtext_cli.options import say


def follow(
    name: PeerName,
    inbox: Annotated[Path, typer.Option(help="Folder of the inbox."), NEW_FOLDER],
    first: Annotated[
        datetime | None,
        typer.Option(
            "--from", formats=["%Y-%m-%d"], help="First StudyDate; by default the first start's."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, help="How many days are compared, back from today.")
    ] = 30,
    at: Annotated[str, typer.Option(help="When they are compared, in local time.")] = "02:00",
    every: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two looks at what is new.")
    ] = 10.0,
    modality: Modality = "CR,DX",
    pulled: Annotated[
        Path | None, typer.Option(help="Folder of a pull, whose images are here already."), FOLDER
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, then end.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Compare the days now, too.")] = False,
    believe: Annotated[
        bool, typer.Option("--believe-deletions", help="Pass deletions on, however many they are.")
    ] = False,
    peers: PeersFile = PEERS_FILE,
) -> None:
    """Put into the inbox what is new, corrected or gone in a PACS.

    New images come by Orthanc's list of changes where peers.yaml names it, else by looking at
    today. Each night the last days are compared, which finds corrections and deletions.
    """
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", at):
        raise ConfigError(f"--at is '{at}'; give a time such as 02:00")
    modalities = modalities_of(modality)
    from cxrtext.pacs.peers import read_peer
    from cxrtext.pacs.retrieval.follow import FollowOptions, follow_peer

    options = FollowOptions(
        first=first.date() if first else None,
        days=days,
        modalities=modalities,
        every_s=every,
        at=at,
        once=once,
        compare=compare,
        believe=believe,
        pulled=pulled,
    )
    tally = follow_peer(read_peer(peers, name), inbox, options, say)
    typer.echo(f"{name}: {tally}")
