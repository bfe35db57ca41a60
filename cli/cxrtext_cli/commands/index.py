"""``cxrtext index``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    Model,
    pick_device,
    print_json,
    progress,
    say,
)


def index(
    manifest: Annotated[Path, typer.Argument(help="CSV or Parquet manifest of the images.")],
    model: Model,
    out: Annotated[Path, typer.Option(help="Folder of the index; an existing one is added to.")],
    reports: Annotated[
        Path | None,
        typer.Option(help="Table of reports; by default reports.csv beside the manifest."),
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of decoded images, shared with training and others."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Embed and index an archive for search; goes on where it was stopped."""
    from cxrtext.images.cache import DecodedCache
    from cxrtext.index import build_index
    from cxrtext.index.build import summary_dict

    with progress("indexing", "images") as update:
        summary = build_index(
            manifest,
            model,
            out,
            reports=reports,
            device=pick_device(device),
            allow_outside=allow_outside,
            max_rejected=max_rejected,
            cache=DecodedCache(cache, say) if cache else None,
            progress=update,
        )
    if as_json:
        print_json(summary_dict(summary))
        return
    typer.echo(
        f"{out}: {summary.images} images ({summary.added} new), {summary.sentences} distinct "
        "sentences"
    )
    typer.echo(
        f"recall@10 of the candidate search against an exact scan: {summary.recall_at_10:.3f}"
    )
    if summary.rejected:
        typer.echo(f"images set aside: {summary.rejected}")
