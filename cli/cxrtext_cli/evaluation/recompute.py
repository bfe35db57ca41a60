"""An evaluation again, from its predictions."""

from pathlib import Path
from typing import Any

import typer

from cxrtext_cli.evaluation.show import say_written, show
from cxrtext_cli.options import print_json

RECOMPUTED = {
    *("predictions", "out", "uncertain", "resamples", "seed", "slices", "as_json"),
    *("sensitivity", "prevalence", "primary"),
    *("data", "answers"),  # of the documents
}
"""Parameters that ``--from`` goes with: the others decide about the predictions themselves."""


COMPARED = (RECOMPUTED | {"compare", "noninferiority"}) - {"data", "answers"}
"""Parameters that ``--compare --from`` goes with."""


def given_with_from(ctx: typer.Context, compare: bool) -> set[str]:
    """The parameters that the command line has, all of which go with ``--from``."""
    from cxrtext.errors import ConfigError

    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = {name for name, one in sources.items() if one and one.name == "COMMANDLINE"}
    for name in sorted(given - (COMPARED if compare else RECOMPUTED)):
        reason = "" if name in RECOMPUTED else ": the predictions were made with it"
        beside = "--compare --from" if compare else "--from"
        raise ConfigError(f"{beside} goes without '{name.replace('_', '-')}'{reason}")
    return given


def recompute(
    predictions: list[Path],
    out: Path | None,
    report: dict[str, Any],
    asked: dict[str, Any],
    as_json: bool,
) -> None:
    """Compute the figures of an evaluation again from its predictions, with settings ``asked``.

    ``report``: the options of the report.
    """
    from cxrtext.errors import ConfigError
    from cxrtext.evaluation import measure_file
    from cxrtext.evaluation.report import ReportOptions, write_report

    if len(predictions) > 1:
        raise ConfigError(f"--from: {len(predictions)} files; give one, or several with --compare")
    result = measure_file(predictions[0], **asked)
    options = ReportOptions(**report)
    written = write_report(out, result, options) if out is not None else []
    if as_json:
        print_json(result.to_dict())
        return
    show(result)
    say_written(written)
