"""Several models next to each other."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cxrtext_cli.evaluation.show import say_written, write_out
from cxrtext_cli.options import print_json, print_table

if TYPE_CHECKING:
    from cxrtext.evaluation import Evaluation
    from cxrtext.records import Rejects


def compare_models(
    checkpoints: list[Path],
    measure: "Callable[[Path, Rejects], Evaluation]",
    out: Path | None,
    options: Any,
    max_rejected: int,
    margin: float | None,
    as_json: bool,
) -> None:
    """Compare checkpoints, each measured by ``measure`` and written into its own subfolder."""
    from cxrtext.evaluation.report.comparison import model_names
    from cxrtext.records import Rejects

    def results() -> Iterator[tuple[str, "Evaluation"]]:
        for name, checkpoint in zip(model_names(checkpoints), checkpoints, strict=True):
            rejects = Rejects(max_rejected)
            result = measure(checkpoint, rejects)
            write_out(out / name if out else None, result, options, rejects)
            yield name, result
            del result  # a model and its images go before the next come

    compare_results(results(), out, margin, as_json)


def compare_files(
    predictions: list[Path],
    asked: dict[str, Any],
    out: Path | None,
    margin: float | None,
    as_json: bool,
) -> None:
    """Compare models by their predictions, with settings ``asked``."""
    from cxrtext.errors import ConfigError
    from cxrtext.evaluation.measure import measure_files
    from cxrtext.evaluation.report.comparison import model_names

    if len(predictions) < 2:
        raise ConfigError("--compare wants at least two files: --from A --from B")
    names = model_names(predictions)
    results = zip(names, measure_files(predictions, **asked), strict=True)
    compare_results(results, out, margin, as_json)


def compare_results(
    results: Iterable[tuple[str, "Evaluation"]],
    out: Path | None,
    margin: float | None,
    as_json: bool,
) -> None:
    """Compare models, each measured when it is its turn."""
    from cxrtext.evaluation import compare
    from cxrtext.evaluation.report.comparison import (
        difference_rows,
        measure_rows,
        primary_lines,
        write_comparison,
    )
    from cxrtext.evaluation.report.write import summary_line

    measures, lines, primary = {}, {}, "AUC"
    for name, result in results:
        measures[name] = result.rows.compared
        lines[name] = summary_line(result)
        primary = result.settings["primary"]
        del result
    comparison = compare(measures, primary=primary, margin=margin)
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
