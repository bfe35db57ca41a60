"""``cxrtext inbox``: what was received, on its way into the index."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import FILE, FOLDER, MODELED_INDEX, NEW_FOLDER, checked
from cxrtext_cli.options import AsJson, Device, pick_device, print_json, print_table, say

if TYPE_CHECKING:
    from cxrtext.pacs.inbox.worker import WorkerSettings

inbox = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What was received: take it into the index, look at it, try it again.",
)

Folder = Annotated[Path, typer.Argument(help="Folder of the inbox.", metavar="INBOX"), FOLDER]
Archive = Annotated[
    Path | None, typer.Option(help="Folder of the files kept for the index."), NEW_FOLDER
]
HashIds = Annotated[
    Path | None,
    typer.Option("--hash-ids", metavar="KEYFILE", help="Replace ids by hashes, as import does."),
    FILE,
]
Keep = Annotated[
    str, typer.Option(help="What is read of headers, as import has it: age,sex,manufacturer,…")
]
Issuer = Annotated[str, typer.Option(help="Issuer of patient ids whose header names none.")]
Readers = Annotated[int, typer.Option(min=1, max=64, help="Processes that decode images.")]
Peers = Annotated[
    Path | None,
    typer.Option("--peers", help="File of peers; its on_deletion says what deletions do."),
    FILE,
]


def worker_settings(
    index: Path, archive: Path | None, device: str, hash_ids: Path | None,
    keep: str, issuer: str, readers: int, peers: Path | None,
) -> "WorkerSettings":  # fmt: skip
    """The settings of a worker, checked before anything is loaded."""
    from cxrtext.pacs.inbox.worker import WorkerSettings
    from cxrtext.pacs.peers import read_peers

    if archive is None:
        raise InputError("--index wants --archive FOLDER: the images that it names are kept there")
    settings = WorkerSettings(
        index=index,
        archive=archive,
        device=device,
        hash_ids=hash_ids,
        columns=tuple(name.strip() for name in keep.split(",") if name.strip()),
        issuer=issuer,
        peers={} if peers is None else read_peers(peers),
        readers=readers,
    )
    settings.check()
    return settings


@inbox.command("work", short_help="Take what was received into an index, as it comes.")
@checked
def work(
    folder: Folder,
    index: Annotated[Path, typer.Option(help="Folder of the index."), MODELED_INDEX],
    archive: Archive = None,
    once: Annotated[bool, typer.Option("--once", help="End when nothing waits any more.")] = False,
    hash_ids: HashIds = None,
    keep: Keep = "",
    issuer: Issuer = "",
    readers: Readers = 2,
    peers: Peers = None,
    device: Device = "auto",
) -> None:
    """Take what was received into an index, label it, and join reports; a server follows.

    What may enter is decided by the rules of import. It may be stopped at any time.
    """
    from cxrtext.pacs.inbox.worker import work as work_on

    settings = worker_settings(
        index, archive, pick_device(device), hash_ids, keep, issuer, readers, peers
    )
    work_on(folder, settings, lambda: False, say, once=once)
    if once:
        _show(folder, as_json=False)


@inbox.command("status", short_help="What waits, and what became of the rest.")
@checked
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Show what waits and since when, what became of the rest, and why something was left out."""
    _require_inbox(folder)
    _show(folder, as_json)


@inbox.command("retry", short_help="Let what failed or is held wait again.")
@checked
def retry(folder: Folder) -> None:
    """Let what failed or is held wait again, after its cause was removed."""
    from cxrtext.pacs.inbox.queue import Inbox

    _require_inbox(folder)
    with Inbox(folder) as opened:
        typer.echo(f"{folder}: {opened.retry()} entries wait again")


def _require_inbox(folder: Path) -> None:
    """Refuse a folder that nothing was received in: it would be shown as an idle inbox."""
    from cxrtext.pacs.inbox.database import FILE

    if not (folder / FILE).is_file():
        raise InputError(f"{folder}: is no inbox (holds no {FILE}); give that of cxrtext listen")


def _show(folder: Path, as_json: bool) -> None:
    from dataclasses import asdict

    from cxrtext.pacs.inbox.status import read_status, reasons

    found, why = read_status(folder), reasons(folder)
    if as_json:
        value = asdict(found)
        value["outcomes"] = [
            {"what": what, "outcome": outcome, "count": count}
            for (what, outcome), count in sorted(found.outcomes.items())
        ]
        names = ("what", "outcome", "reason", "count")
        value["reasons"] = [dict(zip(names, row, strict=True)) for row in why]
        print_json(value)
        return
    rows = [("what", "state", "count", "why")]
    rows += [(what, "waiting", str(n), "") for what, n in sorted(found.waiting.items())]
    explained = {(what, outcome) for what, outcome, _, _ in why}
    rows += [
        (what, outcome, str(n), "")
        for (what, outcome), n in sorted(found.outcomes.items())
        if (what, outcome) not in explained
    ]
    rows += [(what, outcome, str(n), reason) for what, outcome, reason, n in why]
    print_table(rows, left=4)
    waiting = sum(found.waiting.values())
    typer.echo(
        f"{folder}: {waiting} wait, the first for {found.oldest_s:.0f} s; {found.held} held, "
        f"{found.failed} failed; {found.unjoined} reports have no study here"
    )
