"""``cxrtext gateway``: beside a hospital's systems, by one file."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext_cli.commands.pacs.held import held
from cxrtext_cli.commands.pacs.results import results
from cxrtext_cli.given import checked
from cxrtext_cli.options import AsJson, GatewayFile, group, print_json, print_table, say

if TYPE_CHECKING:
    from cxrtext.pacs.gateway.file import Gateway

gateway = group("Beside a hospital's systems: receive, follow, take in, send back.")
gateway.add_typer(held, name="held")
gateway.add_typer(results, name="results")


@gateway.command("run", short_help="Run all parts until it is stopped.")
@checked
def run(
    file: GatewayFile,
    once: Annotated[
        bool, typer.Option("--once", help="Follow, take in and answer what is there, then end.")
    ] = False,
    part: Annotated[
        str | None, typer.Option(help="Run this part alone, in this process: dicom, intake, …")
    ] = None,
) -> None:
    """Run all that the file asks for; it may be stopped at any time, and goes on from there.

    A part that ends is started again.  SIGHUP reads the file anew, with certificates, passwords
    and addresses.
    """
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext_cli.gateway.parts import run_once, run_part
    from cxrtext_cli.gateway.supervisor import Supervisor

    if part is not None:
        run_part(file, part, lambda found: _serve(file, found))
    elif once:
        found = read_gateway(file)
        failed = run_once(found)
        _show(found)
        raise typer.Exit(1 if failed else 0)
    else:
        Supervisor(file, say).run()


def _serve(file: Path, found: "Gateway") -> None:
    from cxrtext_cli.commands.server.service import serve

    given = found.serve
    assert given is not None  # noqa: S101 - the file asks for the part
    assert found.project is not None  # noqa: S101 - a file with serve has one
    more = given.model_dump(exclude={"trusted_hosts"})
    serve([found.project], gateway=file, trusted_host=list(given.trusted_hosts), **more)


@gateway.command("check", short_help="Say which layer of which peer fails, and what to do.")
@checked
def check(
    file: GatewayFile,
    peer: Annotated[str | None, typer.Argument(help="One peer; by default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look at the file, what it names, and each layer of each peer.

    It takes 10 seconds a peer at most, changes nothing and names the first layer that fails, with
    what to do.
    """
    from cxrtext.pacs.check import check_peer
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext_cli.gateway.checks import check_own

    found = read_gateway(file)
    chosen = [found.peer(peer)] if peer else found.peers
    steps = [] if peer else [("gateway", step) for step in check_own(found)]
    steps += [
        (one.name, step) for one in chosen if one.dicomweb or one.dimse for step in check_peer(one)
    ]
    if as_json:
        print_json([{"of": name, **asdict(step)} for name, step in steps])
    else:
        rows = [
            (name, step.protocol, step.layer, "good" if step.ok else "FAILED", step.said)
            for name, step in steps
        ]
        print_table([("of", "protocol", "layer", "state", "what"), *rows], left=5)
    if not all(step.ok for _, step in steps):
        raise typer.Exit(1)


@gateway.command("status", short_help="How the parts do, what waits, what became of the rest.")
@checked
def status(file: GatewayFile, as_json: AsJson = False) -> None:
    """Show how the parts do, what waits and since when, and what became of the rest and why."""
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext_cli.gateway.status import ask

    given = read_gateway(file)
    _show(given, ask(given), as_json=as_json)


def _show(given: "Gateway", parts: dict[str, Any] | None = None, *, as_json: bool = False) -> None:
    from cxrtext.pacs.inbox.status import read_status, reasons

    found, why = read_status(given.inbox), reasons(given.inbox)
    outcomes = [(*key, count) for key, count in sorted(found.outcomes.items())]
    if as_json:
        names, counted = ("what", "outcome", "reason", "count"), ("what", "outcome", "count")
        print_json(
            {
                **(parts or {"healthy": False, "parts": {}}),
                **asdict(found),
                "outcomes": [dict(zip(counted, row, strict=True)) for row in outcomes],
                "reasons": [dict(zip(names, row, strict=True)) for row in why],
            }
        )
        return
    if parts is not None:
        states = [
            (name, "up" if one["up"] else "DOWN", str(one["restarts"]), one["said"])
            for name, one in parts["parts"].items()
        ]
        print_table([("part", "state", "restarts", "last said"), *states], left=4)
        typer.echo()
    rows: list[tuple[str, ...]] = [("what", "state", "count", "why")]
    rows += [(what, "waiting", str(n), "") for what, n in sorted(found.waiting.items())]
    explained = {(what, outcome) for what, outcome, _, _ in why}
    rows += [
        (what, outcome, str(n), "")
        for what, outcome, n in outcomes
        if (what, outcome) not in explained
    ]
    rows += [(what, outcome, str(n), reason) for what, outcome, reason, n in why]
    print_table(rows, left=4)
    waiting = sum(found.waiting.values())
    typer.echo(
        f"{found.received} received; {waiting} wait, the first for {found.oldest_s:.0f} s; "
        f"{found.held} held, {found.failed} failed; {found.unjoined} reports have no study here"
    )
