"""``cxrtext search``."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cxrtext.errors import InputError
from cxrtext_cli.options import (
    AsJson,
    Device,
    pick_device,
    print_json,
    print_rows,
    write_rows,
)

if TYPE_CHECKING:
    from cxrtext.index import ImageHit


class Target(StrEnum):
    """What is looked for."""

    IMAGES = "images"
    SENTENCES = "sentences"


def search(
    index: Annotated[Path, typer.Option(help="Folder of the index.")],
    query: Annotated[str | None, typer.Argument(help="A sentence.")] = None,
    image: Annotated[
        Path | None, typer.Option(help="Look for what is like, or is said of, this image.")
    ] = None,
    target: Annotated[Target, typer.Option(help="What to look for with --image.")] = Target.IMAGES,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of results.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Write the results as CSV, too.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Checkpoint, if it no longer lies where it was.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find images by a sentence or an image, or sentences by an image."""
    from cxrtext.service import load_service

    if (query is None) == (image is None):
        raise InputError("give either a sentence or --image FILE")
    if query is not None and target is Target.SENTENCES:
        raise InputError("sentences are looked for with --image FILE")
    service = load_service(model, index, device=pick_device(device))
    rows: list[dict[str, Any]]
    if query is not None:
        rows = [_image_row(hit) for hit in service.search_text(query, k)]
    else:
        embedded = service.embed_file(cast("Path", image))
        if target is Target.SENTENCES:
            rows = [asdict(hit) for hit in service.search_sentences(embedded, k)]
        else:
            rows = [_image_row(hit) for hit in service.search_image(embedded, k)]
    if out is not None:
        write_rows(out, rows)
    if as_json:
        print_json(rows)
    else:
        print_rows(rows)


def _image_row(hit: "ImageHit") -> dict[str, Any]:
    image = hit.image
    return {
        "score": hit.score,
        "image": image.image,
        "study_id": image.study_id,
        "patient_id": image.patient_id,
        "split": image.split,
        **image.metadata,
    }
