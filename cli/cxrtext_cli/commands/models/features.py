"""``cxrtext encode``: features of a backbone."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cxrtext_cli.commands.archive.index import Cluster, Workers
from cxrtext_cli.given import BACKBONE, FILE, NEW_FOLDER
from cxrtext_cli.options import (
    Device,
    MaxRejected,
    Stages,
    pick_device,
    say,
)

if TYPE_CHECKING:
    from cxrtext.models.features import FeatureFolder


def encode(
    manifest: Annotated[Path, typer.Argument(help="Manifest of images."), FILE],
    backbone: Annotated[
        Path, typer.Option(help="Folder of the backbone, as transformers saves it."), BACKBONE
    ],
    out: Annotated[Path, typer.Option(help="Folder of features to write."), NEW_FOLDER],
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Side of the model's input in pixels; its own by default."),
    ] = None,
    grid: Annotated[
        int | None,
        typer.Option(min=1, help="Most regions along each side; the backbone's by default."),
    ] = None,
    reduce: Annotated[
        int | None,
        typer.Option(min=1, help="Principal components to keep; all channels by default."),
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Precision of the backbone; bfloat16 if the processor has it."),
    ] = "float32",
    address: Cluster = None,
    workers: Workers = None,
    device: Device = "auto",
    max_rejected: MaxRejected = 100,
) -> None:
    """Compute the region features of a manifest's images once; run it again to resume."""
    from cxrtext.jobs import EncodeOptions, encode_images

    options = EncodeOptions(
        size=size,
        grid=grid,
        reduce=reduce,
        precision=precision,
        max_rejected=max_rejected,
        device=pick_device(device),
        workers=workers,
        address=address,
    )
    with Stages() as stages:
        encoded = encode_images(
            manifest, backbone, out, options, say=say, stage=partial(stages.show, unit="images")
        )
    _print_folder(encoded)


def _print_folder(features: "FeatureFolder") -> None:
    height, width, channels = features.shape
    about, backbone = features.about, features.backbone
    kept = about["map"]["variance_kept"]
    share = f", {kept:.1%} of the variance" if about["map"]["reduce"] else ""
    typer.echo(
        f"{features.folder}: {len(features)} images of {about['rows']}, {height} x {width} "
        f"regions with {channels} numbers each{share}"
    )
    typer.echo(f"backbone: {backbone['name']} ({backbone['model_type']}), {backbone['digest']}")
    typer.echo(f"its licence: {backbone['licence'] or 'its folder names none'}")
    if about["rejected"]:
        typer.echo(f"images rejected: {about['rejected']}, in {features.folder / 'rejected.csv'}")
