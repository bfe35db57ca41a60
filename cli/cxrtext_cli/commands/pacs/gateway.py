"""``cxrtext gateway``: run beside a hospital's systems, by one file."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext_cli.commands.pacs.results import results
from cxrtext_cli.given import checked
from cxrtext_cli.options import AsJson, GatewayFile, group, print_json, print_table

if TYPE_CHECKING:
    from cxrtext.pacs.gateway.file import Gateway

gateway = group("Run beside a hospital's systems: follow, take in, send back.")
gateway.add_typer(results, name="results")


@gateway.command("run", short_help="Run it until it is stopped.")
@checked
def run(
    file: GatewayFile,
    once: Annotated[
        bool, typer.Option("--once", help="Follow, take in and answer what is there, then end.")
    ] = False,
) -> None:
    """Run all that the file asks for; stop it at any time, and it continues from there.

    Parts that fail start again.  Restart it for changes of the file.
    """
    from cxrtext.pacs.gateway.file import read_gateway

    settings = read_gateway(file)  # before anything heavy is imported
    from cxrtext_cli.gateway.run import run as run_gateway
    from cxrtext_cli.gateway.run import run_once

    if not once:
        run_gateway(settings, partial(_serve, file))
        return
    failed = run_once(settings)
    _show(settings)
    raise typer.Exit(1 if failed else 0)


def _serve(file: Path, settings: "Gateway") -> None:
    from cxrtext_cli.commands.server.service import serve

    given = settings.serve
    assert given is not None  # noqa: S101 - the file asks for the part
    assert settings.project is not None  # noqa: S101 - a file with serve has one
    more = given.model_dump(exclude={"trusted_hosts"})
    serve([settings.project], gateway=file, trusted_host=list(given.trusted_hosts), **more)


@gateway.command("check", short_help="Show which layer of which peer fails, and what to do.")
@checked
def check(
    file: GatewayFile,
    peer: Annotated[str | None, typer.Argument(help="One peer; by default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the file, and ask each peer what following asks.

    This changes nothing.  It names the first layer that fails, and what to do.
    """
    from cxrtext.pacs.check import check_peer
    from cxrtext.pacs.gateway.file import read_gateway

    settings = read_gateway(file)
    chosen = [settings.peer(peer)] if peer else settings.peers
    steps = [(one.name, step) for one in chosen for step in check_peer(one)]
    if as_json:
        print_json([{"of": name, **asdict(step)} for name, step in steps])
    else:
        rows = [
            (name, step.layer, "good" if step.ok else "FAILED", step.said) for name, step in steps
        ]
        print_table([("of", "layer", "state", "what"), *rows], left=4)
    if not all(step.ok for _, step in steps):
        raise typer.Exit(1)


@gateway.command("status", short_help="Show the parts, what waits, and what became of the rest.")
@checked
def status(file: GatewayFile, as_json: AsJson = False) -> None:
    """Show the state of the parts, what waits and since when, and what became of the rest."""
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext_cli.gateway.status import ask

    settings = read_gateway(file)
    _show(settings, ask(settings), as_json=as_json)


def _show(
    settings: "Gateway", parts: dict[str, Any] | None = None, *, as_json: bool = False
) -> None:
    from cxrtext.pacs.inbox.status import read_status, reasons

    inbox, why = read_status(settings.inbox), reasons(settings.inbox)
    outcomes = [(*key, count) for key, count in sorted(inbox.outcomes.items())]
    if as_json:
        names, counted = ("what", "outcome", "reason", "count"), ("what", "outcome", "count")
        print_json(
            {
                **(parts or {"healthy": False, "parts": {}}),
                **asdict(inbox),
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
    rows += [(what, "waiting", str(n), "") for what, n in sorted(inbox.waiting.items())]
    explained = {(what, outcome) for what, outcome, _, _ in why}
    rows += [
        (what, outcome, str(n), "")
        for what, outcome, n in outcomes
        if (what, outcome) not in explained
    ]
    rows += [(what, outcome, str(n), reason) for what, outcome, reason, n in why]
    print_table(rows, left=4)
    waiting = sum(inbox.waiting.values())
    typer.echo(
        f"{inbox.received} received; {waiting} wait, the first for {inbox.oldest_s:.0f} s; "
        f"{inbox.held} held, {inbox.failed} failed; "
        f"{inbox.unjoined} reports have no study here, {inbox.undecided} are held"
    )
