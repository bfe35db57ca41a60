"""An experiment on small images from its finished runs: everything that ``table.json`` holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cxrtext.errors import DataError, WorkError
from cxrtext.evaluation.bootstrap import Resampled, paired_difference
from cxrtext.experiments.comparison import BETTER, TIED, WORSE, estimate, order_of
from cxrtext.experiments.measures import Measures, mean_of_seeds, read_measures
from cxrtext.experiments.runs import METRICS, RESAMPLED
from cxrtext.experiments.small.definition import Claim, Experiment, Group, Measure, Trial
from cxrtext.experiments.small.runs import SmallRun
from cxrtext.experiments.stages import read_json

Failures = Mapping[str, Sequence[Mapping[str, Any]]]
"""By row: ``seed`` and ``line``."""

BUDGET = ("steps", "batch", "lr", "optimizer", "encoder", "width", "gamma_sq", "precision")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is trained and measured.

    Args:
        run: The run.
        metrics: Its ``metrics.json``.
        measures: Its ``resampled.npz``.
    """

    run: SmallRun
    metrics: dict[str, Any]
    measures: Measures


def read_finished(
    runs: Sequence[SmallRun],
) -> tuple[list[FinishedRun], dict[tuple[str, int], str]]:
    """Read finished runs; a line for each that cannot be read or was measured on other images."""
    finished: list[FinishedRun] = []
    failures: dict[tuple[str, int], str] = {}
    first: dict[str, FinishedRun] = {}
    for run in runs:
        try:
            metrics, measures = (
                read_json(run.folder / METRICS),
                read_measures(run.folder / RESAMPLED),
            )
        except (DataError, WorkError) as error:
            failures[run.key] = str(error)
            continue
        if metrics is None:
            continue
        one = FinishedRun(run, metrics, measures)
        before = first.setdefault(run.group.name, one)
        if any(
            not _paired(measures[name], before.measures[name])
            for name in measures
            if name in before.measures
        ):
            failures[run.key] = (
                f"{run.folder / RESAMPLED}: was measured on other images than {before.run.name}; "
                f"remove its {METRICS}, and the command measures again"
            )
            continue
        finished.append(one)
    return finished, failures


def _paired(one: Resampled, other: Resampled) -> bool:
    return one.rows == other.rows and len(one.values) == len(other.values)


def _difference(measure: Measure, one: Resampled, other: Resampled) -> dict[str, Any]:
    """The first less the second, with its interval and what it means for the first."""
    found: dict[str, Any] = {"value": one.estimate - other.estimate, "low": None, "high": None}
    defined = ~(np.isnan(one.values) | np.isnan(other.values))
    verdict = TIED
    if len(defined) and defined.mean() >= 0.9:
        paired = paired_difference(one.values[defined], other.values[defined], found["value"])
        found |= {"low": paired.low, "high": paired.high, "p": paired.p_value}
        if paired.low > 0 or paired.high < 0:
            verdict = BETTER if (paired.low > 0) != measure.smaller else WORSE
    return found | {"verdict": verdict}


def _cells(group: Group, own: Sequence[FinishedRun]) -> dict[str, dict[str, Any]]:
    if not own:
        return {}
    mean = mean_of_seeds([one.measures for one in own])
    cells: dict[str, dict[str, Any]] = {}
    for measure in group.measures:
        if measure.name in mean:
            cells[measure.name] = dict(estimate(mean[measure.name]))
            several = [one.measures[measure.name].estimate for one in own]
            deviation = float(np.std(several, ddof=1)) if len(several) > 1 else None
            cells[measure.name]["deviation"] = deviation
    return cells


def _run(group: Group, one: FinishedRun) -> dict[str, Any]:
    budget = one.metrics["budget"]
    return {
        "seed": one.run.seed,
        "steps": budget["steps"],
        "seconds": budget["seconds"],
        "images_seen": budget["images"],
        "measures": {
            measure.name: one.measures[measure.name].estimate
            for measure in group.measures
            if measure.name in one.measures
        },
        "machine": one.metrics["machine"],
        "threads": one.metrics["threads"],
        "versions": one.metrics["versions"],
        "settings": one.metrics["settings"],
    }


def _row(
    group: Group,
    trial: Trial,
    by_row: Mapping[str, Sequence[FinishedRun]],
    failed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    own, base = by_row.get(trial.name, ()), by_row.get(group.baseline, ())
    cells = _cells(group, own)
    difference = {}
    common = {one.run.seed for one in own} & {one.run.seed for one in base}
    if common and trial.name != group.baseline:
        one, other = (
            mean_of_seeds([run.measures for run in several if run.run.seed in common])
            for several in (own, base)
        )
        difference = {
            measure.name: _difference(measure, one[measure.name], other[measure.name])
            for measure in group.measures
            if measure.name in one and measure.name in other
        }
    return {
        "name": trial.name,
        "title": trial.title,
        "measures": cells,
        "paper": dict(trial.paper),
        "beside_paper": {
            name: cells[name]["value"] - value
            for name, value in trial.paper.items()
            if name in cells
        },
        "difference": difference,
        "runs": [_run(group, one) for one in own],
        "failed": list(failed),
    }


def _group(
    group: Group,
    trials: Sequence[Trial],
    by_row: Mapping[str, Sequence[FinishedRun]],
    failures: Failures,
) -> dict[str, Any]:
    some = [one for trial in trials for one in by_row.get(trial.name, ())]
    first = some[0].metrics if some else None
    return {
        "name": group.name,
        "title": group.title,
        "data": group.data,
        "images": first["images"] if first else None,
        "measured": first["measured"] if first else None,
        "budget": {key: first["settings"][key] for key in BUDGET} if first else {},
        "baseline": group.baseline,
        "measures": [
            {"name": one.name, "digits": one.digits, "smaller": one.smaller}
            for one in group.measures
        ],
        "rows": [_row(group, trial, by_row, failures.get(trial.name, ())) for trial in trials],
    }


def _order(
    experiment: Experiment, by_row: Mapping[str, Sequence[FinishedRun]], claims: Sequence[Claim]
) -> dict[str, Any] | None:
    """Which of the paper's orderings appear; None where no such pair was measured."""
    known = {measure.name: measure for group in experiment.groups for measure in group.measures}
    pairs, smaller, told = [], [], []
    means = {
        name: mean_of_seeds([one.measures for one in own]) for name, own in by_row.items() if own
    }
    for claim in dict.fromkeys(claims):
        better = means.get(claim.better, {}).get(claim.measure)
        worse = means.get(claim.worse, {}).get(claim.measure)
        if better is None or worse is None or not _paired(better, worse):
            continue
        measure = known[claim.measure]
        pairs.append((better, worse))
        smaller.append(measure.smaller)
        told.append(
            {"better": claim.better, "worse": claim.worse, "measure": claim.measure}
            | _difference(measure, better, worse)
        )
    found = order_of(pairs, smaller)
    return None if found is None else found | {"claims": told}


def build_table(
    experiment: Experiment,
    trials: Sequence[tuple[Group, Trial]],
    finished: Sequence[FinishedRun],
    failures: Failures,
) -> dict[str, Any]:
    """Lay the tables out.

    Args:
        experiment: Whose.
        trials: The rows that were asked for.
        finished: Their finished runs.
        failures: What failed, by row.

    Returns:
        ``groups`` and ``order``, as JSON has them.

    Raises:
        WorkError: No run is finished.
    """
    if not finished:
        lines = [f"{name}: {one['line']}" for name, found in failures.items() for one in found]
        raise WorkError(f"every row failed; the first, {lines[0] if lines else 'none was asked'}")
    by_row = {
        trial.name: [one for one in finished if one.run.trial.name == trial.name]
        for _, trial in trials
    }
    groups = {group.name: group for group, _ in trials}
    return {
        "groups": [
            _group(group, [t for g, t in trials if g.name == group.name], by_row, failures)
            for group in groups.values()
        ],
        "order": _order(experiment, by_row, experiment.all_claims()),
    }
