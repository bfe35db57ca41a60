"""``cxrtext job embed|score|decode|status|finish``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import ConfigError, InputError
from cxrtext_cli import given
from cxrtext_cli.commands.archive.index import Reports, Storage
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    Precision,
    Sections,
    duration,
    group,
    pick_device,
    print_json,
    progress,
    prompts_in,
    say,
)

if TYPE_CHECKING:
    from cxrtext.jobs import EveryNth, JobStatus, Running


job = group("Embed, score or decode an archive in shards, on one machine or many.")

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
    int | None, typer.Option(min=1, help="Processes that work, one a core by default.")
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
    as_json: AsJson = False,
) -> None:
    """Embed the images of a manifest in shards; run it again to resume.

    'cxrtext job finish' makes an index of the shards.
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
        workers=workers,
        cluster=address,
    )
    with _running(chosen, "embedding", "images") as running:
        status = embed_job(manifest, model, out, options, running)
    show_status(out, status, as_json)


@job.command("score", short_help="Score the sentences of reports.")
@given.checked
def score(
    reports: Annotated[
        Path,
        typer.Argument(help="Table of reports or sentences, or folder of text files."),
        given.SOURCE,
    ],
    out: Address,
    model: Annotated[
        str,
        typer.Option(help="Masked language model: a folder, or a hub id."),
        given.LANGUAGE_MODEL,
    ] = "microsoft/BiomedVLP-CXR-BERT-general",
    section: Sections = None,
    precision: Precision = "float32",
    shard: Shard = 500,
    address: Cluster = None,
    workers: Workers = None,
    part: InParts = "1/1",
    device: Device = "auto",
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """Score the distinct sentences of reports in shards; run it again to resume.

    'cxrtext job finish' makes the table of 'cxrtext score-text' of the shards.
    """
    from cxrtext.language.scoring.settings import ScoreSettings

    settings = ScoreSettings(
        sections=section,
        precision=precision,  # type: ignore[arg-type]  # checked there
        max_rejected=max_rejected,
    )
    settings.check()
    chosen = chosen_part(part)
    from cxrtext.jobs import ScoreOptions, score_job

    options = ScoreOptions(
        settings=settings, shard=shard, device=pick_device(device), workers=workers, cluster=address
    )
    with _running(chosen, "scoring", "sentences") as running:
        status = score_job(reports, out, model, options, running)
    show_status(out, status, as_json)


@job.command("decode", short_help="Decode the images of a manifest.")
@given.checked
def decode(
    manifest: Manifest,
    out: Address,
    resize: Annotated[
        int, typer.Option(min=1, help="Side of the squares, as data.resize of the training.")
    ] = 512,
    shard: Shard = 500,
    address: Cluster = None,
    workers: Workers = None,
    part: InParts = "1/1",
    allow_outside: AllowOutside = False,
    as_json: AsJson = False,
) -> None:
    """Decode the images of a manifest in shards; run it again to resume.

    'cxrtext job finish' fills a folder of decoded images for --cache of other commands.
    """
    chosen = chosen_part(part)
    from cxrtext.jobs import DecodeOptions, decode_job

    options = DecodeOptions(
        resize=resize, allow_outside=allow_outside, shard=shard, workers=workers, cluster=address
    )
    with _running(chosen, "decoding", "images") as running:
        status = decode_job(manifest, out, options, running)
    show_status(out, status, as_json)


@job.command("status", short_help="How far a job is.")
@given.checked
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say how far a job is, from its shards alone; anyone can ask, from any machine."""
    from cxrtext.files.storage import open_storage
    from cxrtext.jobs import job_status

    show_status(folder, job_status(open_storage(folder)), as_json)


@job.command("finish", short_help="Make an index, table or cache of the shards.")
@given.checked
def finish(
    folder: Folder,
    out: Annotated[
        Path,
        typer.Option(help="Index (embed), table of sentences (score) or decoded images (decode)."),
        given.ANY_PATH,
    ],
    source: Annotated[
        Path | None,
        typer.Option(help="Where the manifest or the reports lie now, if they were moved."),
        given.ANY_PATH,
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Where the model lies now, if it was moved.")
    ] = None,
    reports: Annotated[
        Path | None, typer.Option(help="embed: where the table of reports lies now."), given.FILE
    ] = None,
    a: Annotated[float, typer.Option(help="score: scale of the class probability.")] = DEFAULT_A,
    k: Annotated[float, typer.Option(min=0.0, help="score: exponent on it.")] = DEFAULT_K,
    fit: Annotated[bool, typer.Option("--fit", help="score: fit a and k.")] = False,
    device: Device = "auto",
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """See that every row is there exactly once, and make an index, a table or a cache of them."""
    from cxrtext.files.storage import open_storage
    from cxrtext.jobs.plan import read_plan

    plan = read_plan(open_storage(folder))
    if source is not None and not source.exists():
        raise InputError(f"{source}: no such file or folder")
    if plan.kind == "embed":
        _finish_embed(
            folder, out, as_json, manifest=source, reports=reports,
            checkpoint=Path(model) if model else None, device=pick_device(device),
            max_rejected=max_rejected,
        )  # fmt: skip
    elif plan.kind == "score":
        from cxrtext.language import ScoreSettings

        given.NEW_TABLE.check(out)
        _finish_score(
            folder, out, as_json, reports=source, model=model, device=pick_device(device),
            settings=ScoreSettings(a=a, k=k, fit=fit, max_rejected=max_rejected),
        )  # fmt: skip
    elif plan.kind == "encode":
        raise ConfigError(
            f"{folder}: 'cxrtext encode' finishes what it has begun itself; run it again: "
            f"{plan.shared['command']}"
        )
    else:
        _finish_decode(folder, out, as_json, manifest=source, max_rejected=max_rejected)


def _finish_embed(folder: str, out: Path, as_json: bool, **options: Any) -> None:
    from cxrtext.jobs import finish_embed

    with progress("indexing", "images") as update:
        made = finish_embed(folder, out, progress=update, **options)
    if as_json:
        print_json(made.as_dict())
        return
    rejected = f", {made.rejected} rejected ({made.rejected_list})" if made.rejected else ""
    typer.echo(
        f"{out}: {made.planned} images planned, each there exactly once: {made.index.images} "
        f"in the index{rejected}"
    )
    typer.echo(f"{out}: {made.index.sentences} distinct sentences")


def _finish_score(folder: str, out: Path, as_json: bool, **options: Any) -> None:
    from cxrtext.jobs import finish_score

    with progress("collecting", "sentences") as update:
        summary = finish_score(folder, out, progress=update, **options)
    if as_json:
        print_json(summary)
        return
    typer.echo(
        f"{out}: {summary.sentences} sentences ({summary.distinct_sentences} distinct, each scored "
        f"exactly once) of {summary.with_text} reports"
    )
    if summary.warning:
        typer.echo(f"warning: {summary.warning}")
    if summary.rejected:
        typer.echo(f"rows and sentences rejected: {summary.rejected}, in {out}.rejected.csv")


def _finish_decode(folder: str, out: Path, as_json: bool, **options: Any) -> None:
    from cxrtext.jobs import finish_decode

    with progress("keeping", "images") as update:
        made = finish_decode(folder, out, say=say, progress=update, **options)
    listed = str(made.rejected_list) if made.rejected_list else None
    if as_json:
        counts = {"planned": made.planned, "added": made.added, "rejected": made.rejected}
        print_json({**counts, "rejected_list": listed})
        return
    rejected = f", {made.rejected} rejected ({listed})" if made.rejected else ""
    typer.echo(f"{out}: {made.planned} images, {made.added} new{rejected}")


def chosen_part(text: str) -> "EveryNth":
    """The part of a job that I/N names (ConfigError)."""
    from cxrtext.jobs.driver import EveryNth

    number, _, of = text.partition("/")
    try:
        return EveryNth(int(number), int(of))
    except ValueError:
        raise ConfigError(f"--part '{text}' is not I/N, with I from 1 to N, such as 2/8") from None


@contextmanager
def _running(part: "EveryNth", title: str, unit: str) -> "Iterator[Running]":
    from cxrtext.jobs import Running

    with progress(title, unit) as update:
        yield Running(part, say, lambda status: update(status.rows_done, status.rows))


def show_status(folder: str, status: "JobStatus", as_json: bool) -> None:
    if as_json:
        print_json(status.as_dict())
        return
    typer.echo(
        f"{folder}: {status.rows_done} of {status.rows} {status.unit} "
        f"({status.shards_done} of {status.shards} shards done, {status.shards_failed} failed, "
        f"{status.shards - status.shards_done} left), {status.rejected} rejected"
    )
    if status.rate is not None:
        typer.echo(f"rate: {status.rate:.1f} {status.unit} a second")
    if status.is_done and status.kind == "encode":
        typer.echo("every shard is there; 'cxrtext encode' finishes the folder of features")
    elif status.is_done:
        typer.echo(f"every shard is there; next: 'cxrtext job finish {folder} --out PATH'")
    elif status.seconds_left is not None:
        typer.echo(f"time left: {duration(status.seconds_left)}")
    elif status.idle_s is not None:
        typer.echo(f"nothing was added for {duration(status.idle_s)}; run the job again to resume")
    for number, reason in sorted(status.failures.items())[:10]:
        typer.echo(f"shard {number} failed: {reason}")
