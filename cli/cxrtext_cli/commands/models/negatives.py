"""``cxrtext negatives``."""

from math import exp
from pathlib import Path
from typing import Annotated

import typer

from cxrtext_cli.given import FILE, FOLDER, NEW_FOLDER
from cxrtext_cli.options import Device, cache_in, pick_device, print_table, progress


def negatives(
    folder: Annotated[Path, typer.Argument(help="A project, or a data folder."), FOLDER],
    sentences: Annotated[
        Path | None,
        typer.Option(help="Scored sentences (cxrtext score-text). Default: FOLDER/sentences.csv."),
        FILE,
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write, for you alone. Default: FOLDER/negatives."),
        NEW_FOLDER,
    ] = None,
    batch: Annotated[int, typer.Option(min=2, help="Images of a training batch.")] = 64,
    device: Device = "auto",
) -> None:
    """Show which negatives of a training set are likely positives, and what η makes of them.

    A project's model also lists the likeliest pairs of a sentence and another study.
    """
    from cxrtext.errors import DataError
    from cxrtext.project.layout import CHECKPOINT, DATA, DECODED, RECIPE
    from cxrtext.training.negatives.run import find_negatives

    table = sentences or folder / "sentences.csv"
    if not table.is_file():
        raise DataError(f"{table}: no such file; make one with 'cxrtext score-text'")
    of_project = (folder / RECIPE).is_file()
    checkpoint = folder / CHECKPOINT if of_project and (folder / CHECKPOINT).is_dir() else None
    target = out or folder / "negatives"
    with progress("embedding", "images") as update:
        anchors, rows = find_negatives(
            folder / DATA if of_project else folder,
            table,
            target,
            checkpoint=checkpoint,
            cache=cache_in(folder / DECODED if of_project else None),
            batch=batch,
            device=pick_device(device),
            progress=update,
        )
    typer.echo(
        f"{len(anchors.records):,} training studies, {anchors.count.sum():,} sentences, "
        f"{len(anchors.sentences):,} distinct; false negatives of an anchor among {batch - 1}:"
    )
    head = ["measured by", "estimate", "made of", "measured", "expected", "ratio", "error"]
    lines = [
        [
            *(row["measured_by"], row["estimate"], row["made_of"]),
            *(f"{row[name]:.2f}" for name in ("measured", "expected")),
            *(f"{exp(row['log_ratio']):.3f}", f"{row['error']:.2f}"),
            f"{row['spearman']:.2f}",
            f"{row['spearman_shuffled_low']:.2f} … {row['spearman_shuffled_high']:.2f}",
        ]
        for row in rows
    ]
    print_table([[*head, "Spearman", "shuffled"], *lines], left=3)
    typer.echo(f"{target}: by sentence, figure{', pairs' if checkpoint else ''}; private")
