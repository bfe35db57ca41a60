"""``cxrtext backup`` and ``cxrtext restore``."""

from functools import partial
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli.given import EMPTY_FOLDER, FILE, FOLDER
from cxrtext_cli.options import PlaceFolder, Stages, say

if TYPE_CHECKING:
    from cxrtext.index.backup import BackupSummary


def backup(
    place: PlaceFolder,
    out: Annotated[Path, typer.Option(help="New folder for the backup."), EMPTY_FOLDER],
    keys: Annotated[
        Path | None, typer.Option(help="The server's key file, to back up with it."), FILE
    ] = None,
    gateway: Annotated[
        Path | None, typer.Option(help="Folder of a gateway's state, 'state' in its file."), FOLDER
    ] = None,
) -> None:
    """Copy an index, its uploads, marks, model, keys and a gateway's state, while they are in use.

    Images that a manifest lists in their own place are not copied.
    """
    from cxrtext.index.backup import back_up
    from cxrtext.index.store.catalogue import checkpoint_of
    from cxrtext.models.folders import backbone_elsewhere
    from cxrtext.pacs.backup import copy_state
    from cxrtext.project.place import find_part

    if keys is not None:
        from cxrtext_api.gate.keys import read_key_file

        read_key_file(keys)
    folder = find_part(place).require_index()
    state = None if gateway is None else partial(copy_state, gateway, folder)
    with Stages() as stages:
        made = back_up(folder, out, keys=keys, copy_state=state, progress=stages.show)
    _show(made, out)
    if line := backbone_elsewhere(checkpoint_of(folder)):
        say(line)


def restore(
    folder: Annotated[
        Path, typer.Argument(help="Folder that 'backup' made.", metavar="BACKUP"), FOLDER
    ],
    out: Annotated[Path, typer.Option(help="New folder to restore into."), EMPTY_FOLDER],
) -> None:
    """Check every file of a backup, then restore the index and all that was backed up with it."""
    from cxrtext.index.backup import GATEWAY, INDEX, KEYS, UPLOADS
    from cxrtext.index.backup import restore as restore_backup

    with Stages() as stages:
        made = restore_backup(folder, out, progress=stages.show)
    _show(made, out)
    keys = f"CXRTEXT_API_KEYS_FILE={quote(str(out / KEYS))} " if made.keys else ""
    uploads = ["--uploads", str(out / UPLOADS)] if made.uploads else []
    say(f"to serve it: {keys}{join(['cxrtext', 'serve', str(out / INDEX), *uploads])}")
    if made.gateway:
        say(f"for the gateway's file: state: {out / GATEWAY}, project: {out / INDEX}")


def _show(made: "BackupSummary", folder: Path) -> None:
    parts = [f"{made.images} images", f"{made.sentences} distinct sentences"]
    parts += [f"{made.uploads} uploads"] if made.uploads else []
    parts += ["the model"] if made.model else []
    parts += ["the keys"] if made.keys else []
    parts += ["the gateway's state"] if made.gateway else []
    parts += ["marks of readers"] if made.marks else []
    typer.echo(f"{folder}: {', '.join(parts)}; {made.size / 1e6:.1f} MB, backed up {made.made}")
