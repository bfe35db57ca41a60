"""``cxrtext phantom``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cxrtext_cli.given import NEW_FOLDER
from cxrtext_cli.options import progress


def phantom(
    out: Annotated[Path, typer.Argument(help="Folder to write."), NEW_FOLDER],
    studies: Annotated[int, typer.Option(min=1, help="Number of studies.")] = 2000,
    size: Annotated[int, typer.Option(help="Side of an image in pixels, 64 to 1024.")] = 512,
    seed: Annotated[int, typer.Option(min=0, help="Each seed gives another data set.")] = 0,
    image_format: Annotated[
        Literal["png", "dicom"], typer.Option("--format", help="Image files.")
    ] = "png",
) -> None:
    """Write an embedded data set: drawn radiographs, reports, labels and boxes."""
    from cxrtext.phantom.write import write_phantoms

    with progress("drawing", "images") as update:
        summary = write_phantoms(
            out,
            studies=studies,
            size=size,
            seed=seed,
            image_format=image_format,
            progress=update,
        )
    splits = ", ".join(f"{count} {split}" for split, count in summary.splits.items())
    typer.echo(
        f"{out}: {summary.studies} studies of {summary.patients} patients ({splits}), "
        f"{summary.classes} sentence classes"
    )
    typer.echo("; ".join(f"{name} {count}" for name, count in summary.findings.items()))
