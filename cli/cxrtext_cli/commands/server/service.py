"""``cxrtext serve``, and ``cxrtext keys``: the API keys of a server."""

import gc
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import ANY_PATH, NEW_FILE, NEW_FOLDER, PLACE, checked
from cxrtext_cli.options import Device, PromptsFile, group, say

if TYPE_CHECKING:
    from cxrtext_api.settings import Settings


def serve(
    place: Annotated[
        list[Path],
        typer.Argument(
            help="A project, a checkpoint or an index; or a checkpoint and an index made with it."
        ),
        PLACE,
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines need API keys.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 8000,
    trusted_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which callers may address the server; repeatable."),
    ] = None,
    prompts: PromptsFile = None,
    uploads: Annotated[
        Path | None,
        typer.Option(help="Folder for images added over HTTP; without it, none can be added."),
        NEW_FOLDER,
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse to add and delete images.")
    ] = False,
    gateway: Annotated[
        Path | None,
        typer.Option(help="The gateway's file, to show and decide what it holds."),
        ANY_PATH,
    ] = None,
    hash_ids: Annotated[
        Path | None,
        typer.Option(
            "--hash-ids",
            metavar="KEYFILE",
            help="Key file of the import: ids of uploaded DICOM files become hashes under it.",
        ),
        ANY_PATH,
    ] = None,
    readers: Annotated[int, typer.Option(min=1, max=64, help="Processes that decode images.")] = 2,
    audit_log: Annotated[
        Path | None, typer.Option(help="File that logs who asked about which study."), NEW_FILE
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="How log lines are written.")
    ] = "text",
    device: Device = "auto",
) -> None:
    """Serve the REST API and the page until it is stopped.

    API keys are read from the file that CXRTEXT_API_KEYS_FILE names; `cxrtext keys` makes them.
    They are read again when the file changes. The audit log may be moved away at any time.
    """
    from cxrtext.pacs.gateway.file import read_gateway
    from cxrtext.project import find_place

    home = find_place(*place)
    for option, wanted in (("--uploads", uploads), ("--gateway", gateway)):
        if wanted is not None and not home.index:
            raise InputError(f"{option} needs an index: {home.folder} has none")
    beside = None if gateway is None else read_gateway(gateway)
    if uploads is not None and read_only:
        raise InputError(
            "--uploads: a --read-only server takes no images; leave one of the two out"
        )
    from cxrtext_api.gate.keys import keys_file_of
    from cxrtext_api.observe.logs import configure_logging
    from cxrtext_api.server.serve import run_server

    settings = _checked(
        checkpoint=home.checkpoint,
        index=home.index,
        device=device,
        prompts=prompts,
        uploads=uploads,
        read_only=read_only,
        inbox=beside and beside.inbox,
        hash_ids=hash_ids or (beside and beside.ids.hash),
        host=host,
        port=port,
        keys_file=keys_file_of(os.environ),
        trusted_hosts=tuple(trusted_host or ()),
        readers=readers,
        audit_log=audit_log,
        log_format=log_format,
    )
    configure_logging(log_format)
    run_server(settings, on_ready=lambda url: typer.echo(f"serving at {url}"))
    gc.freeze()  # the process ends, and collecting the garbage of a model would take seconds


def _checked(**options: object) -> "Settings":
    from pydantic import ValidationError

    from cxrtext_api.settings import Settings

    try:
        return Settings.model_validate(options)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)
        names = sorted({str(fault["loc"][0]).replace("_", "-") for fault in faults})
        raise InputError(f"--{names[0]}: {faults[0]['msg']}") from None


keys = group("Make a server's API keys; the server follows the key file, which holds no secret.")


@keys.command("add", short_help="Make a key and print it once.")
@checked
def add(
    file: Annotated[Path, typer.Argument(help="The key file; made if it is missing."), NEW_FILE],
    name: Annotated[str, typer.Argument(help="Name of the key, for the audit log.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What it may do: read, write, admin, metrics; repeatable. Default: read."
        ),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The last day on which it is valid (UTC)."),
    ] = None,
) -> None:
    """Make a key and print it once; the file keeps only its SHA-256 digest."""
    from cxrtext_api.gate.keys import add_key

    key = add_key(file, name, scope or ["read"], expires.date() if expires else None)
    say(f"the key {name}, which is not shown again:")
    typer.echo(key)
