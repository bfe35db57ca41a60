"""SSD table 1: every correction for false negatives, trained with an equal budget.

Reading order is execution order: what all rows share is prepared, the rows are trained and
measured in processes of their own, and the table is drawn from what they left.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError
from cxrtext.experiments.data_tables import fingerprints
from cxrtext.experiments.options import ExperimentListener, ExperimentOptions, Outcome
from cxrtext.experiments.preparation import prepare
from cxrtext.experiments.processes import run_all
from cxrtext.experiments.rows import choose_rows
from cxrtext.experiments.runs import Run, check, is_done, plan
from cxrtext.experiments.scales import Scale, scale_named
from cxrtext.experiments.stages import claim
from cxrtext.experiments.table import build_table, read_finished
from cxrtext.files import only_one, write_json, write_text

NAME = "table1"


def _check(options: ExperimentOptions) -> None:
    for name, value in (("--seeds", options.seeds), ("--parallel", options.parallel)):
        if value < 1:
            raise ConfigError(f"{name} {value}: must be 1 or more")


def _identity(options: ExperimentOptions, scale: Scale) -> dict[str, Any]:
    """What must stay the same in a folder; rows and seeds may be added."""
    return {
        "experiment": NAME,
        "scale": asdict(scale),
        "data": None if options.data is None else fingerprints(options.data),
    }


def _source(options: ExperimentOptions, scale: Scale) -> str:
    if options.data is not None:
        return f"the data folder '{options.data.resolve().name}'"
    return f"{scale.studies} drawn studies of {scale.size} px"


def _train(
    runs: list[Run], parallel: int, listener: ExperimentListener
) -> dict[tuple[str, int], str]:
    """Train what is not done; the line of each run that failed."""
    failures: dict[tuple[str, int], str] = {}
    for run in runs:
        line = check(run)
        if line is not None:
            failures[run.row.name, run.seed] = line
            listener.say(f"{run.name}: failed: {line}")
    fit = [run for run in runs if (run.row.name, run.seed) not in failures]
    return failures | run_all(fit, parallel, listener)


def _by_row(
    missing: Mapping[str, str], failures: Mapping[tuple[str, int], str]
) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, line in missing.items():
        rows[name].append({"seed": None, "line": line})
    for (name, seed), line in sorted(failures.items()):
        rows[name].append({"seed": seed, "line": line})
    return rows


def _machine(table: Mapping[str, Any]) -> str:
    machines = {run["machine"] for row in table["rows"] for run in row["runs"]}
    return "; ".join(sorted(machines))


def _lines(failed: Mapping[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    """A line for each row and seed that failed."""
    return tuple(
        name + ("" if one["seed"] is None else f", seed {one['seed']}") + f": {one['line']}"
        for name, found in failed.items()
        for one in found
    )


def _go(
    options: ExperimentOptions, scale: Scale, out: Path, listener: ExperimentListener
) -> Outcome:
    """Do all of it in a folder that is ours."""
    from cxrtext.experiments.measuring import versions
    from cxrtext.experiments.page import markdown_page

    rows = choose_rows(options.rows)
    prepared = prepare(out, options.data, scale, listener)
    runs, missing = plan(rows, options.seeds, out, prepared, scale)
    for name, line in missing.items():
        listener.say(f"{name}: left out: {line}")
    failures = _train(runs, options.parallel, listener)
    done = [r for r in runs if (r.row.name, r.seed) not in failures and is_done(r)]
    finished, unfit = read_finished(done)
    failed = _by_row(missing, failures | unfit)
    table = build_table(rows, finished, failed)
    table = {
        "experiment": NAME,
        "scale": options.scale,
        "source": _source(options, scale),
        "seeds": options.seeds,
        "machine": _machine(table),
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        **table,
        "stages": prepared.stages,
    }
    page, written = markdown_page(table), (out / "table.md", out / "table.json")
    write_text(written[0], page)
    write_json(written[1], table)
    return Outcome(page, table, written, _lines(failed))


def table1(options: ExperimentOptions, listener: ExperimentListener) -> Outcome:
    """Run SSD table 1, or go on with it.

    Args:
        options: What is asked.
        listener: Who hears how it goes.

    Returns:
        The table, also written to ``table.md`` and ``table.json``.

    Raises:
        ConfigError: An option is wrong, or the folder holds another experiment.
        DataError: The data lack what is needed.
        WorkError: Every row failed, or another process works in the folder.
    """
    _check(options)
    scale = scale_named(options.scale)
    choose_rows(options.rows)  # a wrong name is said before any work
    out = options.out or Path("experiments") / f"{NAME}-{options.scale}"
    if options.data is None and not scale.studies:
        raise ConfigError(
            f"--scale {options.scale}: wants real data; give a data folder with --data"
        )
    identity = _identity(options, scale)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; name a folder with --out")
    with only_one(out / NAME):
        claim(out, identity)
        return _go(options, scale, out, listener)
