"""``cxrtext forget``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import InputError, WorkError
from cxrtext_cli.given import FILE, FOLDER, NEW_FILE
from cxrtext_cli.options import AsJson, Stages, print_json, print_table, say

if TYPE_CHECKING:
    from cxrtext.service.forget.forget import Forgotten


def forget(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Every folder that may hold something: data, runs, caches, indexes, uploads.",
            metavar="FOLDER...",
        ),
        FOLDER,
    ],
    patient: Annotated[
        str | None, typer.Option(help="Id of a patient, as in the manifest.")
    ] = None,
    study: Annotated[str | None, typer.Option(help="Id of a study.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; list every place.")
    ] = False,
    hash_ids: Annotated[
        Path | None,
        typer.Option(
            "--hash-ids", metavar="KEYFILE", help="Key file of the import; give the original id."
        ),
        FILE,
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="File of signed lines; default: forgotten.jsonl in the first folder."),
        NEW_FILE,
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove a patient or a study from every place that keeps them, or name the place.

    Images, rows, sentences, vectors and uploads are removed from files; caches are deleted whole.
    It may be stopped and run again, and servers may run meanwhile.
    """
    if (patient is None) == (study is None) or "" in (patient, study):
        raise InputError("name either --patient ID or --study UID")
    from cxrtext.service.forget.forget import forget as forget_them

    with Stages() as stages:
        done = forget_them(
            folders, patient=patient, study=study, dry_run=dry_run, hash_key=hash_ids,
            log=log, progress=stages.show,
        )  # fmt: skip
    _show(done, as_json)
    unfinished = [place for place in done.left if not (place.done or place.what in STANDING)]
    if unfinished and not dry_run:
        raise WorkError(
            f"{len(unfinished)} places still hold something: follow the advice above, then run "
            "the command again"
        )


STANDING = ("backup", "archive job", "model", "elsewhere")
"""Places that are always named, with advice, and that do not count as unfinished."""


def _show(done: "Forgotten", as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    rows = [("place", "entries", "", "path")]
    for place in done.places:
        if place.what == "elsewhere":
            continue
        state = "gone" if place.done else "stays" if place.why else "found"
        rows.append((place.what, str(place.entries), state, place.path))
    print_table(rows, left=4)
    for why in dict.fromkeys(place.why for place in done.left):
        names = sorted({place.what for place in done.left if place.why == why})
        say(f"{', '.join(names)}: {why}")
    if done.dry_run:
        typer.echo(f"{done.studies} studies, {done.images} images; nothing was changed")
    else:
        typer.echo(f"{done.studies} studies, {done.images} images; signed in {done.log}")
