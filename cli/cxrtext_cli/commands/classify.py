"""``cxrtext classify``."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from cxrtext.errors import ImageError, InputError
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    Model,
    pick_device,
    print_json,
    print_rows,
    progress,
    say,
    write_rows,
)


def classify(
    images: Annotated[
        list[Path], typer.Argument(help="Images (PNG, JPEG, DICOM), or one manifest.")
    ],
    model: Model,
    prompts: Annotated[
        Path | None, typer.Option(help="YAML file of prompts; CheX5's by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the probabilities as CSV, too.")] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    as_json: AsJson = False,
) -> None:
    """Zero-shot probabilities of findings in images, or in all images of a manifest."""
    from cxrtext.evaluation import read_prompts
    from cxrtext.service import load_service

    sources = _sources(images, allow_outside)
    service = load_service(
        model, prompts=read_prompts(prompts) if prompts else None, device=pick_device(device)
    )
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    many = len(sources) > 1
    with progress("classifying", "images") if many else nullcontext(_silent) as update:
        for number, (name, path) in enumerate(sources, 1):
            try:
                findings = service.classify(service.embed_file(path))
                rows.append({"image": name, **{f.finding: f.probability for f in findings}})
            except ImageError as error:
                if not many:
                    raise
                failed.append(str(error))
            update(number, len(sources))
    if out is not None and rows:
        write_rows(out, rows)
    if as_json:
        print_json(rows)
    elif rows:
        print_rows(rows)
    for line in failed:
        say(f"set aside: {line}")
    if failed and not rows:
        raise ImageError(f"none of {len(failed)} images can be read")


def _silent(_done: int, _total: int) -> None:
    """Shows nothing: one image is quick."""


def _sources(images: list[Path], allow_outside: bool) -> list[tuple[str, Path]]:
    """Name and path of every image; a table stands for the images that it names."""
    tables = [path for path in images if path.suffix.lower() in (".csv", ".parquet")]
    if not tables:
        return [(str(path), path) for path in images]
    if len(images) > 1:
        raise InputError("give images, or one manifest alone")
    from cxrtext.records import read_manifest

    records = read_manifest(tables[0], allow_outside=allow_outside)
    return [(record.name, record.path) for record in records]
