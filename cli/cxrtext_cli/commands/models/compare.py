"""``cxrtext compare``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.commands.models.evaluate import say_written
from cxrtext_cli.given import FILE_OR_FOLDER, NEW_FOLDER
from cxrtext_cli.options import AsJson, print_json, print_table


def compare(
    evaluations: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that 'evaluate --out' wrote, or their predictions.parquet, of several "
            "models on the same images."
        ),
        FILE_OR_FOLDER,
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for comparison.html and comparison.json."),
        NEW_FOLDER,
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare models that were evaluated on the same images, with paired tests; needs no model."""
    if len(evaluations) < 2:
        raise ConfigError("name at least two evaluations: cxrtext compare A B")
    if out is not None and out.suffix in (".html", ".json", ".csv"):
        raise ConfigError(
            f"--out {out}: give a folder; it gets comparison.html and comparison.json"
        )

    from cxrtext.evaluation import compare as compare_measures
    from cxrtext.evaluation.measure import measure_files
    from cxrtext.evaluation.predictions.file import NAME
    from cxrtext.evaluation.report.comparison import (
        difference_rows,
        measure_rows,
        model_names,
        primary_lines,
        write_comparison,
    )
    from cxrtext.evaluation.report.write import summary_line

    files = [path / NAME if path.is_dir() else path for path in evaluations]
    for file, path in zip(files, evaluations, strict=True):
        if path.is_dir() and not file.is_file():
            raise ConfigError(
                f"{file}: no such file; give the folder of an evaluation, or the predictions that "
                f"{path} was computed from"
            )
    measures, lines, declared = {}, {}, "AUC"
    for name, result in zip(model_names(files), measure_files(files), strict=True):
        measures[name] = result.rows.compared
        lines[name] = summary_line(result)
        declared = result.settings["primary"]
    comparison = compare_measures(measures, primary=declared)
    written = write_comparison(out, comparison, lines) if out is not None else []
    if as_json:
        print_json(comparison.to_dict())
        return
    print_table(measure_rows(comparison))
    typer.echo("")
    print_table(difference_rows(comparison), left=3)
    typer.echo("")
    for line in primary_lines(comparison):
        typer.echo(line)
    for line in comparison.left_out:
        typer.echo(f"left out: {line}")
    say_written(written)
