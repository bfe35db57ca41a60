"""An experiment on small images, from its options to its page.

Reading order is execution order: the sets are made once, the rows are trained and measured in
processes of their own, and the tables are drawn from what they left.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cxrtext.errors import ConfigError
from cxrtext.experiments.options import ExperimentListener, ExperimentOptions, Outcome
from cxrtext.experiments.processes import run_all
from cxrtext.experiments.small.data_sets import fingerprint, prepare_sets, require_data
from cxrtext.experiments.small.definition import Experiment, Group, Scale, Trial
from cxrtext.experiments.small.figures import draw_figures
from cxrtext.experiments.small.runs import SmallRun, check, choose_trials, plan
from cxrtext.experiments.small.table import build_table, read_finished
from cxrtext.experiments.stages import claim
from cxrtext.files import only_one, write_json, write_text

DRAWN = "drawn radiographs"


def _scale(experiment: Experiment, options: ExperimentOptions) -> Scale:
    for name, value in (("--seeds", options.seeds), ("--parallel", options.parallel)):
        if value < 1:
            raise ConfigError(f"{name} {value}: must be 1 or more")
    if options.scale not in experiment.scales:
        known = ", ".join(experiment.scales)
        raise ConfigError(f"--scale {options.scale}: is not one of {known}")
    return experiment.scales[options.scale]


def _train(
    runs: Sequence[SmallRun], parallel: int, listener: ExperimentListener
) -> dict[tuple[str, int], str]:
    """Train what is not done; the line of each run that failed."""
    failures: dict[tuple[str, int], str] = {}
    for run in runs:
        line = check(run)
        if line is not None:
            failures[run.key] = line
            listener.say(f"{run.name}: failed: {line}")
    fit = [run for run in runs if run.key not in failures]
    return failures | run_all(fit, parallel, listener)


def _by_row(failures: Mapping[tuple[str, int], str]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (name, seed), line in sorted(failures.items()):
        rows[name].append({"seed": seed, "line": line})
    return rows


def _machine(table: Mapping[str, Any]) -> str:
    runs = [run for group in table["groups"] for row in group["rows"] for run in row["runs"]]
    return "; ".join(sorted({run["machine"] for run in runs}))


def _go(
    experiment: Experiment,
    options: ExperimentOptions,
    trials: Sequence[tuple[Group, Trial]],
    out: Path,
    listener: ExperimentListener,
) -> Outcome:
    """Do all of it in a folder that is ours."""
    from cxrtext.experiments.measuring import versions
    from cxrtext.experiments.small.page import markdown_page

    scale = experiment.scales[options.scale]
    wanted = [group.data for group, _ in trials]
    sets, notes = prepare_sets(experiment, wanted, options.data, scale, out, listener)
    runs = plan(experiment, scale, trials, options.seeds, sets, out)
    failures = _train(runs, options.parallel, listener)
    done = [run for run in runs if run.key not in failures and run.is_done()]
    finished, unfit = read_finished(done)
    failures |= unfit
    table = build_table(experiment, trials, finished, _by_row(failures))
    table = {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "question": experiment.question,
        "scale": options.scale,
        "given": DRAWN if options.data is None else f"'{options.data.resolve().name}'",
        "seeds": options.seeds,
        "machine": _machine(table),
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        **table,
        "different": list(experiment.different),
        "stages": notes,
    }
    figures, left_out = draw_figures(table, out)
    table |= {"figures": [path.name for path in figures], "left_out": left_out}
    page, written = markdown_page(table), (out / "table.md", out / "table.json")
    write_text(written[0], page)
    write_json(written[1], table)
    lines = tuple(f"{name}, seed {seed}: {line}" for (name, seed), line in sorted(failures.items()))
    return Outcome(page, table, (*written, *figures), lines)


def run_small(
    experiment: Experiment, options: ExperimentOptions, listener: ExperimentListener
) -> Outcome:
    """Run an experiment on small images, or go on with it.

    Args:
        experiment: Which.
        options: What is asked.
        listener: Who hears how it goes.

    Returns:
        The tables, also written to ``table.md`` and ``table.json``.

    Raises:
        ConfigError: An option is wrong, or the folder holds another experiment.
        DataError: The data cannot be read.
        WorkError: Every row failed, or another process works in the folder.
    """
    scale = _scale(experiment, options)
    trials = choose_trials(experiment, options.scale, options.rows)
    require_data(experiment, [group.data for group, _ in trials], options.data)
    out = options.out or Path("experiments") / f"{experiment.name}-{options.scale}"
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; name a folder with --out")
    # Steps and recipes are compared run by run, so that rows can be added and changed.
    identity = {
        "experiment": experiment.name,
        "scale": {
            key: value
            for key, value in asdict(scale).items()
            if key in ("train", "test", "studies", "side", "resamples")
        },
        "data": fingerprint(options.data) if experiment.given else None,
    }
    with only_one(out / experiment.name):
        claim(out, identity)
        return _go(experiment, options, trials, out, listener)
