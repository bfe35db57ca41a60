"""``cxrtext calibrate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext_cli.commands.models.evaluate import measured
from cxrtext_cli.given import DATA_FOLDER, FILE, SPLIT
from cxrtext_cli.options import (
    Cache,
    Device,
    Features,
    PlaceFolder,
    PromptsFile,
    cache_in,
    features_in,
    pick_device,
    print_table,
    progress,
    prompts_in,
    say,
    told,
)

if TYPE_CHECKING:
    from cxrtext.evaluation.classification.calibration import KeptCalibration
    from cxrtext.images.cache import DecodedCache


def calibrate(
    place: PlaceFolder,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data folder: manifest.csv, and reports.csv, labels.csv; by default the project's."
        ),
        DATA_FOLDER,
    ] = None,
    split: Annotated[
        str, typer.Option(help="Images to measure the errors on: train, val, test."), SPLIT
    ] = "test",
    prompts: PromptsFile = None,
    keep_reference: Annotated[
        bool,
        typer.Option(
            "--keep-reference",
            help="Also keep the embeddings of validation images, for verify.",
        ),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels to use instead of the data's, such as those of label-reports."),
        FILE,
    ] = None,
    device: Device = "auto",
    cache: Cache = None,
    features: Features = None,
) -> None:
    """Calibrate a checkpoint on validation images, and keep the result with it.

    This gives calibrated probabilities for classify and thresholds for the verdicts of verify, or
    only one of them if the data are missing for the other.  Operating points are printed.
    """
    from cxrtext.project import find_place

    home = find_place(place)
    data, checkpoint = home.require_data(data), home.model
    from cxrtext.evaluation import Settings
    from cxrtext.project.stages import keep_fits, keep_how_good
    from cxrtext.records import Rejects

    decoded, encoded = cache_in(cache or home.decoded), features_in(features)
    result = measured(
        checkpoint, data, device, split=split, prompts=prompts_in(prompts), cache=decoded,
        features=encoded, settings=Settings(slices=()), labels=labels,
        rejects=Rejects(100),
    )  # fmt: skip
    with told() as tell:
        kept = keep_fits(checkpoint, result, decoded, encoded, tell)
    if kept.calibration is not None:
        _show_points(kept.calibration)
    written = kept.written
    if kept.lacking and not written and not keep_reference:
        raise kept.lacking[0]
    if keep_reference:
        written.append(_keep_references(checkpoint, data, device, decoded))
    if labels is None:
        written += keep_how_good(checkpoint, result, say)
    for line in (*result.left_out, *kept.lacking):
        typer.echo(f"left out: {line}")
    typer.echo(f"written: {', '.join(map(str, written))}")


def _show_points(kept: "KeptCalibration") -> None:
    """Print Youden's points for all images and each group; "pooled" for groups with too few."""
    shown = ("sensitivity", "specificity", "PPV", "NPV")
    rows = [["finding", "of", "threshold", *shown]]
    for name, one in kept.findings.items():
        for group, point in ({"all": one.point_of({})[1]} | one.groups).items():
            if point is None:
                rows.append([name, group, "pooled" if group != "all" else "-", *[""] * len(shown)])
                continue
            shares = (getattr(point, share.lower()) for share in shown)
            cells = ["not enough" if of is None else "{:.2f} [{:.2f}, {:.2f}]".format(*of)
                     for of in shares]  # fmt: skip
            rows.append([name, group, f"{point.threshold:.2f}", *cells])
    print_table(rows, left=2)


def _keep_references(
    checkpoint: Path, data: Path, device: str, cache: "DecodedCache | None"
) -> Path:
    """Keep the embeddings of validation images, the reference for verifying reports."""
    from cxrtext.evaluation.cohort import keep_reference

    with progress("embedding reference images", "images") as update:
        path, images = keep_reference(
            checkpoint,
            data,
            device=pick_device(device),
            cache=cache,
            progress=update,
        )
    say(f"{path}: {images} validation images")
    return path
