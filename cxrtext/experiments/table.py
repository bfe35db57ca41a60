"""The tables of an experiment: what the trainings of each row came to, beside the baseline's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.experiments.comparison import Trainings, compare_rows
from cxrtext.experiments.experiment import Group, Trial
from cxrtext.experiments.measures import mean_of_seeds
from cxrtext.experiments.processes import Failures, Finished

Recipe = Callable[[Finished], Mapping[str, Any]]
"""What a run was trained with, as its record in ``table.json`` has it."""


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
