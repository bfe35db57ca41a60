"""``cxrtext index build|delete|check|compact|export``."""

from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cxrtext.errors import InputError, WorkError
from cxrtext.project.stages import WAIT_S
from cxrtext_cli.given import (
    CHECKPOINT,
    FILE,
    INDEX,
    NEW_FOLDER,
    PROMPTS,
    checked,
)
from cxrtext_cli.gone import Commands, gone
from cxrtext_cli.options import (
    AllowOutside,
    Cache,
    Device,
    Features,
    MaxRejected,
    Stages,
    cache_in,
    features_in,
    pick_device,
    progress,
    prompts_in,
    say,
    told,
)

if TYPE_CHECKING:
    from cxrtext.index import IndexSummary


Storage = Literal["float16", "int8"]


class _Group(Commands):
    """Says what to write where a manifest or a folder stands in a command's place."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and f"index {args[0]}" not in gone():
            raise InputError(
                f"'{args[0]}' is not a command of 'cxrtext index': a new index is made by 'cxrtext "
                f"index build MANIFEST --model DIR --out DIR'; there are {', '.join(self.commands)}"
            )
        return super().resolve_command(ctx, args)


index = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Embed and index an archive for search, and look after its index.",
)

Folder = Annotated[Path, typer.Argument(help="Folder of the index.", metavar="INDEX"), INDEX]
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
Reports = Annotated[
    Path | None,
    typer.Option(help="Table of reports; by default reports.csv beside the manifest."),
    FILE,
]


@index.command("build", short_help="Make an index of an archive, or add to one; resumes.")
@checked
def build(
    out: Annotated[
        Path, typer.Option(help="Folder of the index; an existing one is added to."), NEW_FOLDER
    ],
    manifest: Annotated[
        Path | None,
        typer.Argument(help="Manifest of images; without one an index to receive into is made."),
        FILE,
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Checkpoint; by default the one that an existing index notes."),
        CHECKPOINT,
    ] = None,
    reports: Reports = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Embed images again that are in the index.")
    ] = False,
    storage: Annotated[
        Storage, typer.Option(help="Of a new index; int8 takes half the room.")
    ] = "float16",
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts of a new index's labels."), PROMPTS
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    cache: Cache = None,
    features: Features = None,
    workers: Workers = None,
    address: Cluster = None,
) -> None:
    """Embed and index an archive for search, or add to an index, which is searched meanwhile.

    A run that was stopped resumes. Images and a model that were moved are noted where they lie now,
    and nothing is embedded again. Without a manifest an index without images is made: for what is
    received (gateway run) or uploaded. With --workers or --address a new index is made by several
    processes, in shards that lie beside it in OUT.shards until you remove them.
    """
    if manifest is None and model is None:
        raise InputError(
            "give the manifest of the images, or --model DIR for an index without images"
        )
    in_shards = workers is not None or address is not None
    beside = {"--replace": replace, "--cache": cache, "--features": features}
    if in_shards and (wrong := [name for name, value in beside.items() if value]):
        raise InputError(f"{wrong[0]} goes without --workers and --address; leave one out")
    model = model or _noted(out)
    from cxrtext.index import build_index, make_index

    asked = prompts_in(prompts)
    if manifest is None:
        summary = make_index(model, out, prompts=asked, storage=storage, device=pick_device(device))
        said = "an index without images; the gateway whose file names it as its project fills it"
        if summary.images:
            said = f"{summary.images} images; their model is noted at {model}"
        typer.echo(f"{out}: {said}")
        return
    if in_shards:
        from cxrtext.jobs import EmbedOptions, embed_job

        options = EmbedOptions(
            reports=reports,
            storage=storage,
            prompts=asked,
            allow_outside=allow_outside,
            device=pick_device(device),
            max_rejected=max_rejected,
            workers=workers,
            address=address,
        )
        shards = out.with_name(f"{out.name}.shards")
        with Stages() as stages:
            stage = partial(stages.show, unit="images")
            made = embed_job(manifest, model, shards, out, options, say=say, stage=stage)
        _show(out, made)
        say(f"{shards}: holds patients' data and serves to resume; remove it now")
        return
    with progress("indexing", "images") as update:
        summary = build_index(
            manifest,
            model,
            out,
            reports=reports,
            device=pick_device(device),
            allow_outside=allow_outside,
            max_rejected=max_rejected,
            cache=cache_in(cache),
            features=features_in(features),
            replace=replace,
            storage=storage,
            prompts=asked,
            wait_s=WAIT_S,
            progress=update,
        )
    _show(out, summary)
    if summary.warning:
        say(summary.warning)


def _noted(folder: Path) -> Path:
    """The checkpoint that an existing index notes."""
    from cxrtext.index.store.catalogue import CATALOGUE, checkpoint_of

    if not (folder / CATALOGUE).is_file():
        raise InputError("give the checkpoint of a new index with --model DIR")
    return checkpoint_of(folder)


@index.command("delete", short_help="Delete studies, all of them or none.")
@checked
def delete(
    folder: Folder,
    studies: Annotated[list[str], typer.Argument(help="Ids of the studies.", metavar="STUDY...")],
) -> None:
    """Delete studies, all of them or none; their vectors stay, unread, until 'compact'."""
    from cxrtext.index import delete as delete_studies

    count = delete_studies(folder, studies, wait_s=WAIT_S)
    typer.echo(f"{folder}: {count} images of {len(set(studies))} studies deleted")


@index.command("check", short_help="Look for damage.")
@checked
def check(folder: Folder) -> None:
    """Look for damage: vectors against their checksums, and the pages of the catalogue."""
    from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
    from cxrtext.index.store.check import check_index

    with Catalogue(folder / CATALOGUE) as catalogue:
        wrong = check_index(folder, catalogue)
        images, sentences = catalogue.counts()
    if not wrong:
        typer.echo(f"{folder}: {images} images, {sentences} distinct sentences, nothing is wrong")
    if wrong:
        for line in wrong:
            say(f"{folder}: {line}")
        raise WorkError(
            f"{folder}: {len(wrong)} faults; 'cxrtext index compact {quote(str(folder))}' derives "
            "anew what can be derived; regions, sentences and the catalogue must come from a copy"
        )


@index.command("compact", short_help="Write it anew: without what was deleted, or by a new model.")
@checked
def compact(
    folder: Folder,
    model: Annotated[
        Path | None,
        typer.Option(help="Checkpoint; another than the index's embeds everything anew."),
        CHECKPOINT,
    ] = None,
    device: Device = "auto",
    max_rejected: Annotated[
        int, typer.Option(min=0, help="With a new model: images that may be lost as unreadable.")
    ] = 0,
    cache: Cache = None,
    features: Features = None,
) -> None:
    """Write the vectors anew without those of deleted images, and all that derives from them.

    No image is decoded.  With the checkpoint of another model, embed all images and sentences anew
    beside the old vectors, then turn to them at once.  Searches and uploads go on meanwhile, a
    server follows without a restart, and a run that was stopped resumes.
    """
    from cxrtext.project.stages import renew_index

    decoded, encoded = cache_in(cache), features_in(features)
    with told() as tell:
        made = renew_index(
            folder, model, decoded, encoded, tell, max_rejected=max_rejected, device=device
        )
    _show(folder, made)


def _show(folder: Path, summary: "IndexSummary") -> None:
    replaced = f", {summary.replaced} replaced" if summary.replaced else ""
    typer.echo(
        f"{folder}: {summary.images} images ({summary.added} new{replaced}), "
        f"{summary.sentences} distinct sentences"
    )
    if summary.rejected:
        typer.echo(f"images rejected: {summary.rejected}")
