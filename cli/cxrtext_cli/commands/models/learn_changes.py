"""``cxrtext learn-changes``."""

from typing import Annotated

import typer

from cxrtext_cli.given import SPLIT
from cxrtext_cli.options import PlaceFolder, say


def learn_changes(
    place: PlaceFolder,
    split: Annotated[str, typer.Option(help="Studies to learn from: train, val, test."), SPLIT] = (
        "train"
    ),
) -> None:
    """Learn from a patient's films in time whether findings improve, stay or get worse.

    From the indexed regions and what the reports say in sentences that compare; no image is read.
    Keeps a small head with the checkpoint, for Project.compare and the page.
    """
    from cxrtext.index import open_index
    from cxrtext.index.pairs import learn_changes as learn
    from cxrtext.project import find_place

    found = find_place(place)
    archive = open_index(found.require_indexes()[:1], found.model)
    try:
        learned = learn(archive.parts[0], split)
    finally:
        archive.close()
    said = ", ".join(f"{count} {kind}" for kind, count in learned.said.items())
    typer.echo(f"{learned.path}: learned from {learned.pairs} pairs of studies (findings: {said})")
    if learned.unordered:
        say(f"left out {learned.unordered} patient(s): nothing tells the order of their studies")
