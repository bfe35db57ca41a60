"""``cxrtext job embed|status``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli import given
from cxrtext_cli.commands.archive.index import Reports, Storage
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    Stages,
    duration,
    group,
    pick_device,
    print_json,
    prompts_in,
    say,
)

if TYPE_CHECKING:
    from cxrtext.jobs import EveryNth, JobStatus, Running


job = group("Embed an archive in shards, on one machine or many.")

Manifest = Annotated[Path, typer.Argument(help="Manifest of images."), given.FILE]
Address = Annotated[
    str,
    typer.Option("--out", help="Folder of the job, shared or not, or s3://BUCKET/FOLDER."),
    given.NEW_ADDRESS,
]
Folder = Annotated[
    str,
    typer.Argument(help="Folder of the job, or its address.", metavar="JOB", show_default=False),
]
Shard = Annotated[int, typer.Option(min=1, help="Rows a shard.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that work; one a core, or one a GPU.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Dask scheduler whose workers do it: tcp:// or tls:// and its address; else this "
        "machine's processors do.",
    ),
]
InParts = Annotated[
    str, typer.Option("--part", help="I/N: make every N-th shard from the I-th; for job arrays.")
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
    part: InParts = "1/1",
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """Embed the images of a manifest in shards, and index them; run it again to resume.

    With --part, the call that finds all shards there makes the index.
    """
    chosen = chosen_part(part)
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
        running = shown(chosen, stages, "embedding")
        made = embed_job(
            manifest, model, out, index, options, running,
            indexing=lambda done, total: stages.show("indexing", done, total, "images"),
        )  # fmt: skip
    if as_json:
        print_json({**made.status.as_dict(), "index": made.index and made.index.as_dict()})
        return
    show_status(out, made.status, as_json=False)
    if made.index is not None:
        rejected = f"; rejected images: {made.rejected}" if made.rejected else ""
        typer.echo(
            f"{index}: {made.index.images} images, each there exactly once, and "
            f"{made.index.sentences} sentences{rejected}"
        )


@job.command("status", short_help="How far a job is.")
@given.checked
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say how far a job is, from its shards alone; anyone can ask, from any machine."""
    from cxrtext.files.storage import open_storage
    from cxrtext.jobs import job_status

    show_status(folder, job_status(open_storage(folder)), as_json)


def chosen_part(text: str) -> "EveryNth":
    """The part of a job that I/N names (ConfigError)."""
    from cxrtext.jobs.driver import EveryNth

    number, _, of = text.partition("/")
    try:
        return EveryNth(int(number), int(of))
    except ValueError:
        raise ConfigError(f"--part '{text}' is not I/N, with I from 1 to N, such as 2/8") from None


def shown(part: "EveryNth", stages: Stages, title: str) -> "Running":
    """How a part of a job is run whose progress the terminal shows."""
    from cxrtext.jobs import Running

    def show(status: "JobStatus") -> None:
        stages.show(title, status.rows_done, status.rows, "images")

    return Running(part, say, show)


def show_status(folder: str, status: "JobStatus", as_json: bool) -> None:
    if as_json:
        print_json(status.as_dict())
        return
    typer.echo(
        f"{folder}: {status.rows_done} of {status.rows} images "
        f"({status.shards_done} of {status.shards} shards done, {status.shards_failed} failed, "
        f"{status.shards - status.shards_done} left), {status.rejected} rejected"
    )
    if status.rate is not None:
        typer.echo(f"rate: {status.rate:.1f} images a second")
    if status.is_done:
        typer.echo("every shard is there")
    elif status.seconds_left is not None:
        typer.echo(f"time left: {duration(status.seconds_left)}")
    elif status.idle_s is not None:
        typer.echo(f"nothing was added for {duration(status.idle_s)}; run the job again to resume")
    for number, reason in sorted(status.failures.items())[:10]:
        typer.echo(f"shard {number} failed: {reason}")
