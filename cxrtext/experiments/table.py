"""The tables of an experiment: what the trainings of each row came to, beside those of others.

Differences are paired by resample of the patients.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cxrtext.evaluation.intervals.bootstrap import (
    BETTER,
    WORSE,
    Resampled,
    difference_of,
    interval_of,
)
from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.experiments.experiment import Claim, Group, Measure, Trial
from cxrtext.experiments.measures import Measures, mean_of_seeds, paired
from cxrtext.experiments.processes import Failures, Finished

UNKNOWN = "not measured"
Trainings = Mapping[int, Measures]
"""The measures of a row's trainings, by seed."""
Recipe = Callable[[Finished], Mapping[str, Any]]
"""What a run was trained with, as its record in ``table.json`` has it."""


def interval_text(cell: Mapping[str, Any], digits: int, sign: str = "") -> str:
    """A figure as "0.812 [0.780, 0.843]", its interval where there is one; a ``sign`` "+" shows."""
    text = f"{cell['value']:{sign}.{digits}f}"
    if cell["low"] is None:
        return text
    return f"{text} [{cell['low']:{sign}.{digits}f}, {cell['high']:{sign}.{digits}f}]"


def difference(measure: Measure, one: Resampled, other: Resampled) -> dict[str, Any]:
    """The first less the second: ``value``, ``low``, ``high``, ``p``, ``verdict`` on the first.

    The verdict is by whether the interval leaves out 0; without one ends and ``p`` are None.
    """
    found, verdict = difference_of(one, other, smaller=measure.smaller)
    return {
        "value": one.estimate - other.estimate,
        "low": found and found.low,
        "high": found and found.high,
        "p": found and found.p_value,
        "verdict": verdict,
    }


def compare_rows(
    first: Trainings | None, second: Trainings | None, measures: Iterable[Measure]
) -> dict[str, dict[str, Any]]:
    """Compare two rows, None where one was not measured, on the seeds that both have.

    Returns:
        By measure that both have: :func:`difference`, ``seeds`` in common, and ``ahead``: in how
        many of them the first one's figure is better.
    """
    if first is None or second is None:
        return {}
    one, other = _means(first, second)
    common = first.keys() & second.keys()
    differences = {}
    for measure in measures:
        name = measure.name
        if name in one and name in other:
            sign = -1 if measure.smaller else 1
            ahead = [
                sign * (first[seed][name].estimate - second[seed][name].estimate) > 0
                for seed in common
            ]
            found = difference(measure, one[name], other[name])
            differences[name] = {**found, "seeds": len(common), "ahead": sum(ahead)}
    return differences


def _means(*rows: Trainings | None) -> list[Measures]:
    """The mean of each row over the seeds that all of them have; nothing where they share none."""
    common = sorted(set[int].intersection(*(set(row or ()) for row in rows)))
    return [mean_of_seeds([row[seed] for seed in common]) if row and common else {} for row in rows]


def order_of(
    claims: Iterable[Claim], rows: Mapping[str, Trainings], measures: Mapping[str, Measure]
) -> dict[str, Any] | None:
    """How many of the paper's pairs stand in its order, each on the seeds that both rows have.

    Of those that were measured alike.

    Returns:
        ``pairs``; ``agree`` and ``contrary`` of them, and of those ``agree_clearly`` and
        ``contrary_clearly`` by a difference whose interval leaves out 0; ``tau``, ``low``,
        ``high``; ``claims``, each with its :func:`difference`.  None where there is no pair.

    Source: Kendall 1938 (tau), over the pairs without a tie in the paper.
    """
    found, estimates, signs = [], [], []
    patients = None
    for claim in dict.fromkeys(claims):
        better, worse = (
            one.get(claim.measure) for one in _means(rows.get(claim.better), rows.get(claim.worse))
        )
        if better is None or worse is None or not paired(better, worse):
            continue
        measure = measures[claim.measure]
        # Positive where it is the expected order.
        sign = -1.0 if measure.smaller else 1.0
        found.append({**asdict(claim), **difference(measure, better, worse)})
        estimates.append(sign * (better.estimate - worse.estimate))
        patients = better.patients
        signs.append(np.sign(sign * (better.values - worse.values)))
    if not found:
        return None
    # A resample in which a row has no figure is NaN, and left out of the interval.
    low, high = interval_of(np.mean(signs, axis=0), patients) or (None, None)
    return {
        "pairs": len(found),
        "agree": sum(one > 0 for one in estimates),
        "contrary": sum(one < 0 for one in estimates),
        "agree_clearly": sum(one["verdict"] == BETTER for one in found),
        "contrary_clearly": sum(one["verdict"] == WORSE for one in found),
        "tau": float(np.mean(np.sign(estimates))),
        "low": low,
        "high": high,
        "claims": found,
    }


def trainings_of(finished: Sequence[Finished]) -> dict[str, Trainings]:
    """The measures of each row's trainings, by row and seed."""
    rows = dict.fromkeys(one.run.row for one in finished)
    return {
        row: {one.run.seed: one.measures for one in finished if one.run.row == row} for row in rows
    }


def group_of(
    group: Group,
    trials: Sequence[Trial],
    finished: Sequence[Finished],
    failures: Failures,
    recipe: Recipe,
) -> dict[str, Any]:
    """Rows of a group: ``name``, ``title``, ``baseline``, ``measures`` and ``rows``.

    A row has its ``measures`` (value, interval, and deviation over seeds), the ``paper`` figures,
    the ``difference`` from the baseline by measure, its ``runs`` and what ``failed``.
    """
    trainings = trainings_of(finished)
    return {
        "name": group.name,
        "title": group.title,
        "baseline": group.baseline,
        "measures": [asdict(one) for one in group.measures],
        "rows": [
            {
                "name": trial.name,
                "title": trial.title,
                "measures": _cells(group, trainings.get(trial.name)),
                "paper": dict(trial.paper),
                "difference": _less_baseline(group, trial, trainings),
                "runs": [
                    one.record(group.measures, recipe(one))
                    for one in finished
                    if one.run.row == trial.name
                ],
                "failed": list(failures.get(trial.name, ())),
            }
            for trial in trials
        ],
    }


def _cells(group: Group, own: Trainings | None) -> dict[str, dict[str, Any]]:
    if not own:
        return {}
    mean = mean_of_seeds(list(own.values()))
    cells: dict[str, dict[str, Any]] = {}
    for name in (measure.name for measure in group.measures if measure.name in mean):
        several = [measures[name].estimate for measures in own.values()]
        deviation = float(np.std(several, ddof=1)) if len(several) > 1 else None
        cells[name] = {**estimate_of(mean[name]), "deviation": deviation}
    return cells


def _less_baseline(
    group: Group, trial: Trial, trainings: Mapping[str, Trainings]
) -> dict[str, dict[str, Any]]:
    if trial.name == group.baseline:
        return {}
    compared = [measure for measure in group.measures if measure.compared]
    return compare_rows(trainings.get(trial.name), trainings.get(group.baseline), compared)
