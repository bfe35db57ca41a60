"""``cxrtext gateway results approve|send|revoke``."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import InputError, WorkError
from cxrtext_cli.given import checked
from cxrtext_cli.options import GatewayFile, group, pick_device, say

if TYPE_CHECKING:
    from cxrtext.pacs.gateway.file import Gateway
    from cxrtext.pacs.results.folder import ResultsFolder

results = group("Results as DICOM objects: let a rule send them, or take them back.")


@results.command("send", short_help="Send the results to a peer.")
@checked
def send(
    file: GatewayFile,
    peer: Annotated[str, typer.Argument(help="Name of the peer.", metavar="PEER")],
) -> None:
    """Send a peer every result that it does not have, except those taken back."""
    from cxrtext.pacs.results.sending import send_results

    gateway, folder = _open(file)
    some = [one for one in folder.all() if one.revoked is None and one.kind != "reject"]
    done = send_results(folder, some, gateway.peer(peer))
    typer.echo(f"{peer}: {done.sent} sent, {done.there} there before")


@results.command("approve", short_help="Show what a peer's rule would send, and let it send.")
@checked
def approve(
    file: GatewayFile,
    peer: Annotated[str, typer.Argument(help="Name of the peer.", metavar="PEER")],
    yes: Annotated[bool, typer.Option("--yes", help="Let it send from now on.")] = False,
    images: Annotated[int, typer.Option(min=1, max=10_000, help="How many latest images.")] = 30,
) -> None:
    """Show what a peer's rule would make of the latest images; with --yes, let it send.

    The approval holds for the project's present model; a new model needs a new one.
    """
    from cxrtext.pacs.gateway.file import read_gateway

    gateway = read_gateway(file)
    given = gateway.peer(peer)
    if given.results is None:
        raise InputError(f"{peer}: has no rule for results in the gateway's file")
    from cxrtext.pacs.results.folder import ResultsFolder
    from cxrtext.pacs.results.rules import preview, rule_name
    from cxrtext.service import load_service
    from cxrtext_cli.gateway.run import index_of

    device = pick_device(gateway.device)
    with closing(load_service(None, index_of(gateway), device=device)) as service:
        shown = preview(service, given, images)
        if yes:
            ResultsFolder(gateway.results).approve(rule_name(given, service))
    for sentence, count in shown.results.items():
        typer.echo(f"{sentence}: {count} of {shown.images} images")
    typer.echo(f"{2 * sum(shown.results.values())} objects: a picture and a report of each")
    typer.echo(f"{peer}: its rule {'may send' if yes else 'waits for approve --yes'}")


@results.command("revoke", short_help="Take results back by rejection notes.")
@checked
def revoke(
    file: GatewayFile,
    study: Annotated[str | None, typer.Option(help="Those of a study, by its UID or id.")] = None,
    instance: Annotated[str | None, typer.Option(help="One, by its SOP instance UID.")] = None,
    model: Annotated[str | None, typer.Option(help="Those of a model, by its fingerprint.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every result.")] = False,
) -> None:
    """Take results back: send each peer rejection notes for the results it got.

    A PACS that supports these notes (IHE Image Object Change Management) hides what they name;
    others keep both the results and the note.  If a peer cannot be told now, the next call does.
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
    )
    if not (done.results or done.faults or done.told):
        raise InputError("no result in the state matches; look up its UIDs in the PACS")
    typer.echo(f"results taken back: {done.results}")
    for name, count in done.told.items():
        typer.echo(f"{name}: {count} notes sent")
    for line in done.faults:
        say(line)
    if done.faults:
        raise WorkError("not every peer was told: see above, then run the command again")


def _open(file: Path) -> "tuple[Gateway, ResultsFolder]":
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.pacs.results.folder import ResultsFolder

    gateway = read_gateway(file)
    return gateway, ResultsFolder(gateway.results, create=False)
