"""``cxrtext job embed|status``."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli import given
from cxrtext_cli.commands.archive.index import Reports, Storage
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    Stages,
    group,
    pick_device,
    print_json,
    prompts_in,
    say,
)

if TYPE_CHECKING:
    from cxrtext.jobs import JobStatus

job = group("Embed an archive in shards, on one machine or many.")

Manifest = Annotated[Path, typer.Argument(help="Manifest of images."), given.FILE]
Address = Annotated[
    Path,
    typer.Option("--out", help="Folder of the job; shared, where other machines work on it."),
    given.NEW_FOLDER,
]
Folder = Annotated[
    Path,
    typer.Argument(help="Folder of the job.", metavar="JOB", show_default=False),
    given.ANY_PATH,
]
Shard = Annotated[int, typer.Option(min=1, help="Rows a shard.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that work; one a core, or one with a GPU.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Dask scheduler whose workers do it: tcp:// or tls:// and its address; else this "
        "machine's processors do.",
    ),
]


@job.command("embed", short_help="Embed the images of a manifest.")
@given.checked
def embed(
    manifest: Manifest,
    out: Address,
    model: Annotated[Path, typer.Option(help="Checkpoint folder."), given.CHECKPOINT],
    index: Annotated[
        Path, typer.Option(help="Index to make once all shards are there."), given.NEW_FOLDER
    ],
    reports: Reports = None,
    storage: Annotated[
        Storage, typer.Option(help="How regions are kept; int8 takes half the room.")
    ] = "float16",
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts of the labels."), given.PROMPTS
    ] = None,
    shard: Shard = 500,
    address: Cluster = None,
    workers: Workers = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """Embed the images of a manifest in shards, and index them; run it again to resume."""
    from cxrtext.jobs import EmbedOptions, embed_job

    options = EmbedOptions(
        reports=reports,
        storage=storage,
        prompts=prompts_in(prompts),
        allow_outside=allow_outside,
        shard=shard,
        device=pick_device(device),
        max_rejected=max_rejected,
        workers=workers,
        address=address,
    )
    with Stages() as stages:
        made = embed_job(
            manifest, model, out, index, options, say=say, stage=partial(stages.show, unit="images")
        )
    if as_json:
        print_json({**asdict(made.status), "index": made.index.as_dict()})
        return
    typer.echo(_line(out, made.status))
    rejected = f"; rejected images: {made.rejected}" if made.rejected else ""
    typer.echo(
        f"{index}: {made.index.images} images, each there exactly once, and "
        f"{made.index.sentences} sentences{rejected}"
    )


@job.command("status", short_help="How far a job is.")
@given.checked
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say how far a job is, from its shards alone; anyone can ask, from any machine."""
    from cxrtext.jobs import job_status

    found = job_status(folder)
    if as_json:
        print_json(found)
    else:
        typer.echo(_line(folder, found))


def _line(folder: Path, status: "JobStatus") -> str:
    return (
        f"{folder}: {status.rows_done} of {status.rows} images ({status.shards_done} of "
        f"{status.shards} shards), {status.rejected} rejected"
    )
