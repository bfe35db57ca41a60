"""The one runner of experiments, from its options to its page.

Reading order is execution order: what all rows share is made once, the rows are trained and
measured in processes of their own, and the tables are drawn from what they left.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cxrtext.config import first_difference
from cxrtext.errors import ConfigError, CxrTextError, DataError, WorkError
from cxrtext.experiments.experiment import ExperimentListener, ExperimentOptions, Outcome
from cxrtext.experiments.page import failed_lines, sections
from cxrtext.experiments.papers import EXPERIMENTS, SMALL_EXPERIMENTS
from cxrtext.experiments.processes import Failures, Finished, Run, run_all
from cxrtext.experiments.stages import (
    METRICS,
    RESAMPLED,
    claim,
    paired,
    read_json,
    read_measures,
    versions,
)
from cxrtext.files import only_one, write_json, write_text
from cxrtext.page import html_page, markdown

if TYPE_CHECKING:
    from cxrtext.experiments.table1 import Table1
    from cxrtext.experiments.views import Views


Kind: TypeAlias = "Table1 | Views"


def run_experiment(
    name: str,
    options: ExperimentOptions | None = None,
    listener: ExperimentListener | None = None,
) -> Outcome:
    """Run an experiment (one of ``EXPERIMENTS``), or resume it; nothing finished is repeated.

    The table is also written to ``table.html`` and ``table.json``.  Where every row failed it is a
    WorkError; one that failed beside others stands in ``Outcome.failed``.
    """
    if name not in EXPERIMENTS:
        known = "; ".join(f"{key}: {what}" for key, what in EXPERIMENTS.items())
        raise ConfigError(f"there is no experiment '{name}'; there is {known}")
    asked, heard = options or ExperimentOptions(), listener or ExperimentListener()
    for option, value in (("--seeds", asked.seeds), ("--parallel", asked.parallel)):
        if value is not None and value < 1:
            raise ConfigError(f"{option} {value}: must be 1 or more")
    kind = _kind(name, asked)
    out = asked.out or Path("experiments") / f"{name}-{asked.scale}"
    identity = kind.identity()
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; name a folder with --out")
    with only_one(out / name):
        claim(out, identity)
        return _go(kind, asked, out, heard)


def _kind(name: str, options: ExperimentOptions) -> Kind:
    # Imported here: they need torch, and listing does not.
    if name in SMALL_EXPERIMENTS:
        if options.features is not None:
            raise ConfigError(f"--features: {name} takes none; table1 and sweep do")
        from cxrtext.experiments.views import Views

        return Views(SMALL_EXPERIMENTS[name], options)
    from cxrtext.experiments.papers.sweep import SWEEP
    from cxrtext.experiments.table1 import Table1

    return Table1(options, SWEEP) if name == SWEEP.name else Table1(options)


def _go(kind: Kind, options: ExperimentOptions, out: Path, listener: ExperimentListener) -> Outcome:
    plan = kind.plan(out, listener)
    for name, line in plan.missing.items():
        listener.say(f"{name}: left out: {line}")
    failures = _train(kind, plan.runs, options.parallel, listener)
    done = [run for run in plan.runs if run.key not in failures and run.is_done()]
    finished, unfit = read_finished(done)
    failed = _by_row(plan.missing, failures | unfit)
    require_finished(finished, failed)
    table = {
        **kind.source(),
        "seeds": kind.seeds,
        "machine": "; ".join(sorted({one.metrics["machine"] for one in finished})),
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        **kind.table(finished, failed),
        "stages": plan.stages,
    }
    heading, head = kind.page(table)
    written = (out / "table.html", out / "table.json")
    write_text(written[0], html_page(heading, sections(table), head=head))
    write_json(written[1], table)
    text = markdown(heading, sections(table), head)
    return Outcome(text, table, written, tuple(failed_lines(failed)))


def check_run(kind: Kind, run: Run) -> str | None:
    """Why a run cannot be started or resumed, known before anything is trained; or None."""
    try:
        metrics = read_json(run.folder / METRICS)
        before, wanted = kind.recipes(run, metrics)
    except (CxrTextError, ValueError, TypeError) as error:
        return str(error).splitlines()[0]
    # A key that a newer version knows has its default, which is what the older one did.
    found = None if metrics is None else first_difference(before, wanted, shared=True)
    if found is None:
        return None
    key, then, now = found
    return (
        f"{run.folder}: was trained with {key} {then!r}, not {now!r}; remove the folder to "
        "train it again"
    )


def _train(
    kind: Kind, runs: Sequence[Run], parallel: int, listener: ExperimentListener
) -> dict[tuple[str, int], str]:
    failures: dict[tuple[str, int], str] = {}
    for run in runs:
        if (line := check_run(kind, run)) is not None:
            failures[run.key] = line
            listener.say(f"{run.name}: failed: {line}")
    return failures | run_all([run for run in runs if run.key not in failures], parallel, listener)


def read_finished(runs: Iterable[Run]) -> tuple[list[Finished], dict[tuple[str, int], str]]:
    """Read finished runs; a line for each that is damaged or cannot be compared with its group."""
    finished: list[Finished] = []
    failures: dict[tuple[str, int], str] = {}
    first: dict[str, Finished] = {}
    for run in runs:
        try:
            metrics = read_json(run.folder / METRICS)
            measures = read_measures(run.folder / RESAMPLED)
        except (DataError, WorkError) as error:
            failures[run.key] = str(error)
            continue
        if metrics is None:
            continue
        one = Finished(run, metrics, measures)
        before = first.setdefault(run.group, one)
        # A model may lack a measure: a map that is flat in every box has no contrast to noise.
        common = measures.keys() & before.measures.keys()
        if all(paired(measures[name], before.measures[name]) for name in common):
            finished.append(one)
        else:
            failures[run.key] = (
                f"{run.folder / RESAMPLED}: was measured on other images than {before.run.name}; "
                f"remove its {METRICS}, and the command measures again"
            )
    return finished, failures


def require_finished(finished: Sequence[Finished], failed: Failures) -> None:
    if not finished:
        lines = (f"{name}: {one['line']}" for name, found in failed.items() for one in found)
        raise WorkError(f"every row failed; the first, {next(lines, 'none was asked')}")


def _by_row(
    missing: Mapping[str, str], failures: Mapping[tuple[str, int], str]
) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]]
    rows = {name: [{"seed": None, "line": line}] for name, line in missing.items()}
    for (name, seed), line in sorted(failures.items()):
        rows.setdefault(name, []).append({"seed": seed, "line": line})
    return rows
