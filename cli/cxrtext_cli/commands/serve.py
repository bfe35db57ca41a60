"""``cxrtext serve``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import InputError
from cxrtext_cli.options import Device, pick_device

if TYPE_CHECKING:
    from cxrtext.service import Service


def serve(
    model: Annotated[
        Path | None, typer.Option(help="Checkpoint folder; by default the one of the index.")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Folder of the index to search.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine only with API keys.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 8000,
    trusted_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which callers may address the server; repeatable."),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts; CheX5's by default.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Serve the REST API and the page until it is stopped.

    API keys are read from the file that CXRTEXT_API_KEYS_FILE names, one a line.
    """
    if model is None and index is None:
        raise InputError("give a checkpoint with --model, an index with --index, or both")
    from cxrtext_api.keys import read_keys
    from cxrtext_api.serve import run_server
    from cxrtext_api.settings import Settings

    settings = Settings(
        checkpoint=model,
        index=index,
        host=host,
        port=port,
        keys=read_keys(os.environ),
        trusted_hosts=tuple(trusted_host or ()),
    )

    def load(given: Settings) -> "Service":
        # Only here, so that a port in use is told before torch is imported.
        from cxrtext.evaluation import read_prompts
        from cxrtext.service import load_service

        return load_service(
            given.checkpoint,
            given.index,
            prompts=read_prompts(prompts) if prompts else None,
            device=pick_device(device),
        )

    run_server(settings, on_ready=lambda url: typer.echo(f"serving at {url}"), load=load)
