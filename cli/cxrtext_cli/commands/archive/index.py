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
    """Explains what to write if a manifest or a folder stands in a command's place."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and f"index {args[0]}" not in gone():
            raise InputError(
                f"'{args[0]}' is not a command of 'cxrtext index': make a new index with 'cxrtext "
                f"index build MANIFEST --model DIR --out DIR'; there are {', '.join(self.commands)}"
            )
        return super().resolve_command(ctx, args)


index = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Embed and index an archive for search, and maintain the index.",
)

Folder = Annotated[Path, typer.Argument(help="Folder of the index.", metavar="INDEX"), INDEX]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Number of processes; by default one per core or GPU.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Address of a Dask scheduler (tcp:// or tls://) whose workers do the work; by default "
        "this machine does it.",
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
        typer.Argument(help="Manifest of images; without it, make an empty index to fill later."),
        FILE,
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Checkpoint; by default the one that an existing index names."),
        CHECKPOINT,
    ] = None,
    reports: Reports = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Embed images that are already in the index again.")
    ] = False,
    storage: Annotated[
        Storage, typer.Option(help="Number format of a new index; int8 takes half the space.")
    ] = "float16",
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts for a new index's labels."), PROMPTS
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    cache: Cache = None,
    features: Features = None,
    workers: Workers = None,
    address: Cluster = None,
) -> None:
    """Embed and index an archive for search, or add to an index that stays searchable meanwhile.

    A stopped run resumes. If images or the model were moved, the index notes their new place, and
    nothing is embedded again. Without a manifest, make an index without images, to be filled by
    the gateway or by uploads. With --workers or --address, several processes make a new index, in
    shards that stay beside it in OUT.shards until you remove them.
    """
    if manifest is None and model is None:
        raise InputError(
            "give the manifest of the images, or --model DIR for an index without images"
        )
    in_shards = workers is not None or address is not None
    beside = {"--replace": replace, "--cache": cache, "--features": features}
    if in_shards and (wrong := [name for name, value in beside.items() if value]):
        raise InputError(f"{wrong[0]} cannot be combined with --workers or --address")
    model = model or _noted(out)
    from cxrtext.index import build_index, make_index

    asked = prompts_in(prompts)
    if manifest is None:
        summary = make_index(model, out, prompts=asked, storage=storage, device=pick_device(device))
        if summary.images:
            typer.echo(f"{out}: {summary.images} images; their model is noted at {model}")
        else:
            typer.echo(f"{out}: an index without images; a gateway with it as 'project' fills it")
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
        say(f"{shards}: holds patients' data, only needed to resume; remove it now")
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
    """The checkpoint that an existing index names."""
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
    """Delete studies, all of them or none; their vectors stay unused until 'compact'."""
    from cxrtext.index import delete as delete_studies

    count = delete_studies(folder, studies, wait_s=WAIT_S)
    typer.echo(f"{folder}: {count} images of {len(set(studies))} studies deleted")


@index.command("check", short_help="Look for damage.")
@checked
def check(folder: Folder) -> None:
    """Look for damage: check vectors by their checksums, and the pages of the catalogue."""
    from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
    from cxrtext.index.store.check import check_index

    with Catalogue(folder / CATALOGUE) as catalogue:
        wrong = check_index(folder, catalogue)
        images, sentences = catalogue.counts()
    for line in wrong:
        say(f"{folder}: {line}")
    if wrong:
        raise WorkError(
            f"{folder}: {len(wrong)} faults; 'cxrtext index compact {quote(str(folder))}' derives "
            "again what can be derived; regions, sentences and the catalogue must come from a copy"
        )
    typer.echo(f"{folder}: {images} images, {sentences} distinct sentences, nothing is wrong")


@index.command("compact", short_help="Rewrite it without deleted images, or for a new model.")
@checked
def compact(
    folder: Folder,
    model: Annotated[
        Path | None,
        typer.Option(help="Checkpoint; a new model embeds everything again."),
        CHECKPOINT,
    ] = None,
    device: Device = "auto",
    max_rejected: Annotated[
        int, typer.Option(min=0, help="With a new model: how many images may be unreadable.")
    ] = 0,
    cache: Cache = None,
    features: Features = None,
) -> None:
    """Rewrite the vectors without those of deleted images, and all that derives from them.

    No image is decoded.  With another model's checkpoint, embed all images and sentences again
    beside the old vectors, then switch at once.  Searches and uploads go on meanwhile, a server
    follows without a restart, and a stopped run resumes.
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
