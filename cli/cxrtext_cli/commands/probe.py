"""``cxrtext probe``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext_cli.given import DATA_FOLDER, EXPORT, FEATURES, FILE, NEW_FOLDER
from cxrtext_cli.options import AsJson, print_json, print_table, progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cxrtext.evaluation.probes.feature_probe import FeatureProbe


def probe(
    features: Annotated[
        Path, typer.Argument(help="Folder of features, of 'cxrtext encode'."), FEATURES
    ],
    data: Annotated[
        Path, typer.Option(help="Data folder: manifest.csv, and labels.csv."), DATA_FOLDER
    ],
    labels: Annotated[
        Path | None, typer.Option(help="Table of labels, instead of the folder's."), FILE
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for probe.json and tsne.svg."), NEW_FOLDER
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="File for the mean features of each image, .parquet or .npz."),
        EXPORT,
    ] = None,
    uncertain: Annotated[
        str, typer.Option(help="Labels of -1: ignore, positive or negative.")
    ] = "ignore",
    as_json: AsJson = False,
) -> None:
    """Measure what features hold: linear and few-label probes, neighbors, t-SNE."""
    from cxrtext.evaluation.settings import Settings

    settings = Settings(uncertain=uncertain)  # type: ignore[arg-type]  # checked there
    from cxrtext.evaluation.probes.feature_probe import probe_features
    from cxrtext.models.features import open_features

    opened = open_features(features)
    with progress("reading", "images") as update:
        found = probe_features(
            opened, data, settings, labels=labels, out=out, export=export, progress=update
        )
    if as_json:
        print_json(found.as_dict())
        return
    _print(found)
    for path in (out, export):
        if path is not None:
            typer.echo(f"written: {path}")


def _print(found: "FeatureProbe") -> None:
    shots = sorted({int(n) for one in found.linear.values() for n in one["few_labels"]})
    if found.neighbors:
        head = ["finding", "training", "probe AUC", "95 %"]
        rows = [[*head, *(f"{n} of each" for n in shots), "kNN AUC", "kNN accuracy"]]
        for finding, near in found.neighbors.items():
            one = found.linear.get(finding)
            linear = _linear(one, shots) if one else [""] * (2 + len(shots))
            ends = [f"{near['auc']:.3f}", f"{near['accuracy']:.3f}"]
            rows.append([finding, str(near["train"]), *linear, *ends])
        print_table(rows)
    counts = ", ".join(f"{count} {split}" for split, count in found.images.items())
    missing = f"; {found.missing} of the manifest have no features" if found.missing else ""
    typer.echo(f"images: {counts}{missing}")
    for line in found.left_out:
        typer.echo(f"left out: {line}")


def _linear(one: "Mapping[str, Any]", shots: "Sequence[int]") -> list[str]:
    interval = one["interval"]
    low_high = f"{interval[0]:.3f}-{interval[1]:.3f}" if interval else ""
    few = [one["few_labels"].get(str(n)) for n in shots]
    means = [f"{sum(areas) / len(areas):.3f}" if areas else "" for areas in few]
    return [f"{one['auc']:.3f}", low_high, *means]
