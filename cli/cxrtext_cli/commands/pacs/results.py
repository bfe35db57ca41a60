"""``cxrtext gateway results make|send|revoke|list``."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cxrtext.errors import InputError, WorkError
from cxrtext_cli.given import FILE, checked
from cxrtext_cli.options import AsJson, GatewayFile, print_json, print_rows, progress, say

if TYPE_CHECKING:
    from cxrtext.pacs.gateway.file import Gateway
    from cxrtext.pacs.peers import Peer
    from cxrtext.pacs.results.folder import Kept, ResultsFolder
    from cxrtext.service import Service

results = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Results as DICOM objects: make them of images, send them to a peer, take them back.",
)


@results.command("make", short_help="Make results of images, and send them.")
@checked
def make(
    file: GatewayFile,
    images: Annotated[
        list[Path], typer.Argument(help="DICOM radiographs.", metavar="IMAGE..."), FILE
    ],
    sentence: Annotated[
        list[str], typer.Option(help="A sentence to look for; repeatable.", show_default=False)
    ],
    above: Annotated[
        float, typer.Option(min=0, max=1, help="Make results from this probability on.")
    ] = 0.0,
    send: Annotated[str | None, typer.Option(help="Peer to send them to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make DICOM results of what the project's model finds of sentences in images.

    A secondary capture of the heatmap and a structured report, in the image's study and series of
    their own.  Their UIDs follow from image, model and sentence: made or sent again, nothing
    changes.  Not for diagnosis.
    """
    if not sentence:
        raise InputError("give what to look for: --sentence 'Left pleural effusion.'")
    from cxrtext.service.limits import check_sentence

    for one in sentence:
        check_sentence(one)
    from cxrtext.pacs.gateway.file import read_gateway

    gateway = read_gateway(file)
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.making import make_results
    from cxrtext.pacs.results.sending import send_results

    peer = None if send is None else gateway.peer(send)
    if peer is not None:
        peer.require_write()
    folder, ids = ResultsFolder(gateway.results), gateway.ids.read()
    service = _service_of(gateway)
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
    sent = None if peer is None else send_results(folder, made, peer)
    if as_json:
        print_json(
            {
                "results": [_row(one) for one in made],
                "new": new,
                "failed": len(faults),
                "sent": sent and {"peer": send, "sent": sent.sent, "there": sent.there},
            }
        )
    else:
        typer.echo(f"{len(made)} results: {new} new, {len(made) - new} there before")
        if sent is not None:
            typer.echo(f"{send}: {sent.sent} sent, {sent.there} there before")
    if faults:
        raise WorkError(f"{len(faults)} of {len(images)} images gave no results: see above")


@results.command("send", short_help="Send the results to a peer.")
@checked
def send(
    file: GatewayFile,
    peer: Annotated[str, typer.Argument(help="Name of the peer.", metavar="PEER")],
) -> None:
    """Send every result that a peer does not have, but for those taken back."""
    from cxrtext.pacs.results.sending import send_results

    gateway, folder = _open(file)
    some = [one for one in folder.all() if one.revoked is None and one.kind != "reject"]
    done = send_results(folder, some, gateway.peer(peer))
    typer.echo(f"{peer}: {done.sent} sent, {done.there} there before")


@results.command("preview", short_help="Show what a peer's rule would send.")
@checked
def preview(
    file: GatewayFile,
    peer: Annotated[str, typer.Argument(help="Name of the peer.", metavar="PEER")],
    images: Annotated[int, typer.Option(min=1, max=10_000, help="Of so many last images.")] = 30,
) -> None:
    """Show what a peer's rule would have made of the last images; nothing is kept or sent."""
    from cxrtext.pacs.gateway.file import read_gateway

    gateway = read_gateway(file)
    from cxrtext.pacs.results.rules import preview as preview_rule

    with closing(_service_of(gateway)) as service:
        found = preview_rule(service, _with_rule(gateway, peer), images)
    for sentence, count in found.results.items():
        typer.echo(f"{sentence}: {count} of {found.images} images")
    typer.echo(f"{2 * sum(found.results.values())} objects: a picture and a report of each")


def _service_of(gateway: "Gateway") -> "Service":
    from cxrtext_cli.gateway.run import service_of  # heavy

    return service_of(gateway)


def _with_rule(gateway: "Gateway", name: str) -> "Peer":
    peer = gateway.peer(name)
    if peer.results is None:
        raise InputError(f"{name}: has no rule for results in the gateway's file")
    return peer


@results.command("approve", short_help="Let a peer's rule send results.")
@checked
def approve(
    file: GatewayFile,
    peer: Annotated[str, typer.Argument(help="Name of the peer.", metavar="PEER")],
) -> None:
    """Let a peer's rule send, by the model that the project has now; another one asks again."""
    from cxrtext.pacs.gateway.file import read_gateway

    gateway = read_gateway(file)
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.rules import rule_name

    with closing(_service_of(gateway)) as service:
        ResultsFolder(gateway.results).approve(rule_name(_with_rule(gateway, peer), service))
    typer.echo(f"{peer}: its rule may send results")


@results.command("revoke", short_help="Take results back by rejection notes.")
@checked
def revoke(
    file: GatewayFile,
    study: Annotated[str | None, typer.Option(help="Those of a study, by its UID or id.")] = None,
    instance: Annotated[str | None, typer.Option(help="One, by its SOP instance UID.")] = None,
    model: Annotated[str | None, typer.Option(help="Those of a model, by its fingerprint.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every result.")] = False,
    reason: Annotated[
        Literal["quality", "safety"],
        typer.Option(help="Why: rejected for quality, or for patient safety."),
    ] = "quality",
) -> None:
    """Take results back: each peer gets rejection notes of those that were sent to it.

    A PACS that knows such notes (IHE Image Object Change Management) hides what they name; others
    keep the results and the note beside each other.  What one cannot be told now, the next call
    tells it.
    """
    if sum((study is not None, instance is not None, model is not None, every)) != 1:
        raise InputError("name what to take back: one of --study, --instance, --model, --all")
    from cxrtext.pacs.results.rejection import revoke as revoke_them

    gateway, folder = _open(file)
    done = revoke_them(
        folder,
        lambda one: (
            every
            or one.instance == instance
            or one.model == model
            or study in (one.study, one.study_id)
        ),
        gateway.by_name,
        reason,
    )
    if not (done.results or done.faults or done.told):
        raise InputError("there is no such result; 'cxrtext gateway results list' shows all")
    typer.echo(f"results taken back: {done.results}")
    for name, count in done.told.items():
        typer.echo(f"{name}: {count} notes sent")
    for line in done.faults:
        say(line)
    if done.faults:
        raise WorkError("not every peer was told: see above, then run it again")


@results.command("list", short_help="List results, and where each was sent.")
@checked
def list_results(file: GatewayFile, as_json: AsJson = False) -> None:
    """List the results, and where each was sent."""
    _, folder = _open(file)
    rows, peers_of = [], folder.peers()
    for one in folder.all():
        peers = peers_of.get(one.instance, [])
        rows.append(_row(one) | {"sent_to": peers if as_json else " ".join(peers)})
    print_json(rows) if as_json else print_rows(rows)


def _open(file: Path) -> "tuple[Gateway, ResultsFolder]":
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.results.folder import ResultsFolder

    gateway = read_gateway(file)
    return gateway, ResultsFolder(gateway.results, create=False)


def _row(one: "Kept") -> dict[str, object]:
    return {
        "kind": one.kind,
        "file": one.file,
        "instance": one.instance,
        "study": one.study,
        "made": one.made,
        "revoked": one.revoked or "",
    }
