"""``cxrtext results PLACE IMAGE...``, ``cxrtext results send|revoke|list``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from cxrtext.errors import InputError, WorkError
from cxrtext_cli.given import FILE, FOLDER, MODELED_INDEX, NEW_FOLDER, checked
from cxrtext_cli.options import (
    AsJson,
    Device,
    PlaceFolder,
    PromptsFile,
    open_place,
    pick_device,
    print_json,
    print_rows,
    progress,
    say,
)

if TYPE_CHECKING:
    from cxrtext.pacs.peers import Peer
    from cxrtext.pacs.results.folder import Kept, ResultsFolder


class _Group(TyperGroup):
    """Makes results where no command is named: ``results PLACE IMAGE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


results = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    help="Results as DICOM objects: make them of images, send them to a peer, take them back.",
)

Folder = Annotated[Path, typer.Option("--out", help="Folder of the results."), FOLDER]
NewFolder = Annotated[
    Path, typer.Option(help="Folder of the results; made where missing."), NEW_FOLDER
]
Peers = Annotated[Path, typer.Option(help="File of the peers."), FILE]
HashIds = Annotated[
    Path | None,
    typer.Option("--hash-ids", metavar="KEYFILE", help="Key file of the archive's import."),
    FILE,
]
PeersIf = Annotated[Path | None, typer.Option(help="File of the peers."), FILE]


@results.command("make", short_help="Make results of images; the same without 'make'.")
@checked
def make(
    place: PlaceFolder,
    images: Annotated[
        list[Path], typer.Argument(help="DICOM radiographs.", metavar="IMAGE..."), FILE
    ],
    sentence: Annotated[
        list[str], typer.Option(help="A sentence to look for; repeatable.", show_default=False)
    ],
    out: NewFolder,
    prompts: PromptsFile = None,
    above: Annotated[
        float, typer.Option(min=0, max=1, help="Make results from this probability on.")
    ] = 0.0,
    hash_ids: HashIds = None,
    send: Annotated[str | None, typer.Option(help="Peer to send them to.")] = None,
    peers: PeersIf = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make DICOM results of what a model finds of sentences in images.

    They are a secondary capture of the heatmap and a structured report, in the image's study and
    series of their own.  Their UIDs follow from image, model and sentence: made or sent again,
    nothing changes.  Not for diagnosis.
    """
    if not sentence:
        raise InputError("give what to look for: --sentence 'Left pleural effusion.'")
    from cxrtext.service.limits import check_sentence

    for one in sentence:
        check_sentence(one)
    from cxrtext.datasets.admission.ids import Ids, read_key
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.making import make_results
    from cxrtext.project import find_place

    peer = None if send is None else _peer(peers, send)
    if peer is not None:
        peer.require_write()
    ids = Ids(read_key(hash_ids) if hash_ids else None)
    service = open_place(find_place(place), device, prompts)
    folder = ResultsFolder(out)
    made: list[Kept] = []
    faults: list[str] = []
    new = 0
    with progress("results", "images") as update:
        for number, image in enumerate(images, 1):
            for one in sentence:
                try:
                    found = make_results(service, image, one, folder, above=above, ids=ids)
                except InputError as error:
                    faults.append(str(error))
                    break
                made += found.results
                new += found.new
                for line in found.left_out:
                    say(line)
            update(number, len(images))
    for line in faults:
        say(line)
    delivered = None if peer is None else _send(folder, made, peer)
    if as_json:
        print_json(
            {
                "results": [_row(one) for one in made],
                "new": new,
                "failed": len(faults),
                "sent": delivered and {"peer": send, **delivered},
            }
        )
    else:
        typer.echo(f"{len(made)} results in {out}: {new} new, {len(made) - new} there before")
        if delivered is not None:
            typer.echo(f"{send}: {delivered['sent']} sent, {delivered['there']} there before")
    if faults:
        raise WorkError(f"{len(faults)} of {len(images)} images gave no results: see above")


@results.command("send", short_help="Send the results of a folder to a peer.")
@checked
def send(
    peer: Annotated[str, typer.Argument(help="Name of the peer.", metavar="PEER")],
    out: Folder,
    peers: Peers = Path("peers.yaml"),
) -> None:
    """Send every result of a folder that a peer does not have, but for those taken back."""
    from cxrtext.pacs.results.folder import ResultsFolder

    chosen = _peer(peers, peer)
    folder = ResultsFolder(out, create=False)
    some = [one for one in folder.all() if one.revoked is None and one.kind != "reject"]
    done = _send(folder, some, chosen)
    typer.echo(f"{peer}: {done['sent']} sent, {done['there']} there before")


@results.command("revoke", short_help="Take results back by rejection notes.")
@checked
def revoke(
    out: Folder,
    study: Annotated[str | None, typer.Option(help="Those of a study, by its UID or id.")] = None,
    instance: Annotated[str | None, typer.Option(help="One, by its SOP instance UID.")] = None,
    model: Annotated[str | None, typer.Option(help="Those of a model, by its fingerprint.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every result of the folder.")] = False,
    reason: Annotated[
        Literal["quality", "safety"],
        typer.Option(help="Why: rejected for quality, or for patient safety."),
    ] = "quality",
    peers: PeersIf = None,
) -> None:
    """Take results back: each peer gets rejection notes of those that were sent to it.

    A PACS that knows such notes (IHE Image Object Change Management) hides what they name; others
    keep the results and the note beside each other.  What one cannot be told now, the next call
    tells it.
    """
    if sum((study is not None, instance is not None, model is not None, every)) != 1:
        raise InputError("name what to take back: one of --study, --instance, --model, --all")
    from cxrtext.pacs.peers import read_peers
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.rejection import revoke as revoke_them

    done = revoke_them(
        ResultsFolder(out, create=False),
        lambda one: (
            every
            or one.instance == instance
            or one.model == model
            or study in (one.study, one.study_id)
        ),
        read_peers(peers) if peers else {},
        reason,
    )
    typer.echo(f"results taken back: {done.results}")
    for name, count in done.told.items():
        typer.echo(f"{name}: {count} notes sent")
    for line in done.faults:
        say(line)
    if done.faults:
        raise WorkError("not every peer was told: see above, then run it again")
    if not done.results:
        raise InputError(f"{out}: has no such result; cxrtext results list --out {out} shows all")


@results.command("answer", short_help="Make and send results of what comes, by a rule.")
@checked
def answer(
    index: Annotated[
        Path, typer.Option(help="Index that the inbox's worker fills."), MODELED_INDEX
    ],
    out: NewFolder,
    peers: Peers,
    once: Annotated[
        bool, typer.Option("--once", help="End when all that is there was dealt with.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    hash_ids: HashIds = None,
    device: Device = "auto",
) -> None:
    """Make and send the results of what comes from peers, by their rule in the file of peers.

    Each image is dealt with once; it may be stopped at any time.  Where a peer does not answer,
    what was made waits.  Not for diagnosis.
    """
    from cxrtext.datasets.admission.ids import Ids, read_key
    from cxrtext.pacs.peers import read_peers
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.rules import answer_until
    from cxrtext.service import load_service

    chosen = [peer for peer in read_peers(peers).values() if peer.results is not None]
    if not chosen:
        raise InputError(f"{peers}: no peer has a rule (results:); see docs/guides/hospital.md")
    service, folder = load_service(None, index, device=pick_device(device)), ResultsFolder(out)
    ids = Ids(read_key(hash_ids) if hash_ids else None)
    typer.echo(f"results of what comes from {', '.join(peer.name for peer in chosen)}")
    answer_until(service, chosen, folder, ids, say, lambda: False, every, once)


@results.command("list", short_help="List results, and where each was sent.")
@checked
def list_results(out: Folder, as_json: AsJson = False) -> None:
    """List the results of a folder, and where each was sent."""
    from cxrtext.pacs.results.folder import ResultsFolder

    folder = ResultsFolder(out, create=False)
    rows, peers_of = [], folder.peers()
    for one in folder.all():
        peers = peers_of.get(one.instance, [])
        rows.append(_row(one) | {"sent_to": peers if as_json else " ".join(peers)})
    print_json(rows) if as_json else print_rows(rows)


def _row(one: "Kept") -> dict[str, object]:
    return {
        "kind": one.kind,
        "file": one.file,
        "instance": one.instance,
        "study": one.study,
        "made": one.made,
        "revoked": one.revoked or "",
    }


def _peer(path: Path | None, name: str) -> "Peer":
    from cxrtext.pacs.peers import read_peer

    if path is None:
        raise InputError(f"--peers FILE is wanted, which says where {name} is")
    return read_peer(path, name)


def _send(folder: "ResultsFolder", some: "list[Kept]", peer: "Peer") -> dict[str, int]:
    from cxrtext.pacs.results.sending import send_results

    done = send_results(folder, some, peer)
    return {"sent": done.sent, "there": done.there}
