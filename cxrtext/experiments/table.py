"""The tables of an experiment: what the trainings of each row came to, beside those of others.

Differences are paired by resample of the patients.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cxrtext.evaluation.intervals.bootstrap import (
    BETTER,
    TIED,
    TRAININGS,
    WORSE,
    Resampled,
    interval_of,
    verdict_of,
)
from cxrtext.evaluation.intervals.comparison import estimate_of
from cxrtext.experiments.experiment import Claim, Group, Measure, Trial
from cxrtext.experiments.processes import Failures, Finished
from cxrtext.experiments.stages import Measures, mean_of_seeds, mean_of_trainings, paired

UNKNOWN = "not measured"
Trainings = Mapping[int, Measures]
"""The measures of a row's trainings, by seed."""


def interval_text(cell: Mapping[str, Any], digits: int, sign: str = "") -> str:
    """A figure as "0.812 [0.780, 0.843]", its interval where there is one; a ``sign`` "+" shows."""
    text = f"{cell['value']:{sign}.{digits}f}"
    if cell["low"] is None:
        return text
    return f"{text} [{cell['low']:{sign}.{digits}f}, {cell['high']:{sign}.{digits}f}]"


def _pairs(
    first: Trainings | None, second: Trainings | None, name: str
) -> list[tuple[Resampled, Resampled]]:
    """A measure of two rows by each seed that both have."""
    one, other = first or {}, second or {}
    return [
        (one[seed][name], other[seed][name])
        for seed in sorted(one.keys() & other.keys())
        if name in one[seed] and name in other[seed]
    ]


def _mean_difference(pairs: Sequence[tuple[Resampled, Resampled]]) -> Resampled:
    return mean_of_trainings(
        [
            Resampled(one.estimate - two.estimate, one.values - two.values, (), None, one.patients)
            for one, two in pairs
        ]
    )


def difference(measure: Measure, pairs: Sequence[tuple[Resampled, Resampled]]) -> dict[str, Any]:
    """The first less the second, over the trainings of both.

    ``value``, ``low`` and ``high`` (None without resamples), ``seeds``, ``training`` (whether the
    interval includes training), ``ahead`` (in how many seeds the first is better), ``verdict`` on
    the first: by whether the interval leaves out 0; where it does not include training, every seed
    has to agree.
    """
    mean = _mean_difference(pairs)
    ends, sign = mean.interval(), -1 if measure.smaller else 1
    ahead = sum(sign * (one.estimate - two.estimate) > 0 for one, two in pairs)
    training = ends is not None and len(pairs) >= TRAININGS
    verdict = TIED if ends is None else verdict_of(ends, smaller=measure.smaller)
    if not training and ahead != {BETTER: len(pairs), WORSE: 0}.get(verdict, ahead):
        verdict = TIED
    return {
        **estimate_of(mean),
        "verdict": verdict,
        "seeds": len(pairs),
        "training": training,
        "ahead": ahead,
    }


def compare_rows(
    first: Trainings | None, second: Trainings | None, measures: Iterable[Measure]
) -> dict[str, dict[str, Any]]:
    """:func:`difference` by measure, on the seeds that both rows have; None was not measured."""
    paired_by = {measure: _pairs(first, second, measure.name) for measure in measures}
    return {one.name: difference(one, pairs) for one, pairs in paired_by.items() if pairs}


def order_of(
    claims: Iterable[Claim], rows: Mapping[str, Trainings], measures: Mapping[str, Measure]
) -> dict[str, Any] | None:
    """How many of the paper's pairs stand in its order, each on the seeds that both rows have.

    Of those that were measured alike.

    Returns:
        ``pairs``; ``agree`` and ``contrary`` of them, and of those ``agree_clearly`` and
        ``contrary_clearly`` by a difference whose interval leaves out 0; ``tau``, ``low``,
        ``high``, without training; ``claims``, each with its :func:`difference`.  None where there
        is no pair.

    Source: Kendall 1938 (tau), over the pairs without a tie in the paper.
    """
    found, estimates, signs = [], [], []
    patients = None
    for claim in dict.fromkeys(claims):
        pairs = _pairs(rows.get(claim.better), rows.get(claim.worse), claim.measure)
        if not pairs or not paired(*pairs[0]):
            continue
        measure = measures[claim.measure]
        # Positive where it is the expected order.
        sign = -1.0 if measure.smaller else 1.0
        mean = _mean_difference(pairs)
        found.append({**asdict(claim), **difference(measure, pairs)})
        estimates.append(sign * mean.estimate)
        patients = mean.patients
        signs.append(np.sign(sign * mean.values))
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


def trainings_of(finished: Sequence[Finished], starts: int = 1) -> dict[str, Trainings]:
    """The measures of each row's trainings, by row and seed.

    Of several common starts, the seeds of one are no trainings apart: each start is one, and has
    the mean of its seeds.
    """
    rows: dict[str, dict[int, list[Measures]]] = {}
    for one in finished:
        seed = one.run.seed % starts if starts > 1 else one.run.seed
        rows.setdefault(one.run.row, {}).setdefault(seed, []).append(one.measures)
    return {
        row: {seed: mean_of_seeds(several, training=False) for seed, several in found.items()}
        for row, found in rows.items()
    }


def group_of(
    group: Group,
    trials: Sequence[Trial],
    finished: Sequence[Finished],
    failures: Failures,
    recipe: Callable[[Finished], Mapping[str, Any]],
    starts: int = 1,
) -> dict[str, Any]:
    """Rows of a group: ``name``, ``title``, ``baseline``, ``measures`` and ``rows``.

    A row has its ``measures`` (value, interval, and deviation over seeds), the ``paper`` figures,
    the ``difference`` from the baseline by measure, its ``runs``, with what ``recipe`` says that
    each was trained with, and what ``failed``.
    """
    trainings = trainings_of(finished, starts)
    base = trainings.get(group.baseline)
    compared = [measure for measure in group.measures if measure.compared]
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
                "difference": {}
                if trial.name == group.baseline
                else compare_rows(trainings.get(trial.name), base, compared),
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
    for measure in (one for one in group.measures if one.name in mean):
        several = [measures[measure.name].estimate for measures in own.values()]
        found = estimate_of(mean[measure.name])
        cells[measure.name] = {
            "value": found["value"],
            "low": found["low"] and max(0.0, found["low"]),
            "high": found["high"] and min(measure.most or np.inf, found["high"]),
            "deviation": float(np.std(several, ddof=1)) if len(several) > 1 else None,
        }
    return cells
