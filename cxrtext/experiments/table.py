"""The tables of an experiment: what the trainings of each row came to, beside those of others.

Differences are paired by patient.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cxrtext.evaluation.comparison import BETTER, TIED, WORSE, verdict_of
from cxrtext.experiments.experiment import Claim, Group, Measure, Trial
from cxrtext.experiments.processes import Failures, Finished
from cxrtext.experiments.stages import Measures, interval_of, mean_of_seeds, paired
from cxrtext.metrics.intervals import TRAININGS, Measured, average, with_training
from cxrtext.metrics.intervals import difference as paired_difference

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
) -> list[tuple[Measured, Measured]]:
    """A measure of two rows by each seed that both have."""
    one, other = first or {}, second or {}
    return [
        (one[seed][name], other[seed][name])
        for seed in sorted(one.keys() & other.keys())
        if name in one[seed] and name in other[seed]
    ]


def difference(measure: Measure, pairs: Sequence[tuple[Measured, Measured]]) -> dict[str, Any]:
    """The first less the second, over the trainings of both.

    ``value``, ``low`` and ``high`` (None of a single patient), ``seeds``, ``training`` (whether the
    interval includes training), ``ahead`` (in how many seeds the first is better), ``verdict`` on
    the first: by whether it is as large as counts and the interval leaves out 0; where that does
    not include training, every seed has to agree.
    """
    firsts, seconds = (average([pair[at] for pair in pairs]) for at in (0, 1))
    found, each = paired_difference(firsts, seconds), [one.value - two.value for one, two in pairs]
    value, sign = float(np.mean(each)), -1 if measure.smaller else 1
    ahead = sum(sign * one > 0 for one in each)
    training = found is not None and len(pairs) >= TRAININGS
    ends = None if found is None else (found.low, found.high)
    if training and ends is not None:
        ends = with_training(each, ends)
    verdict = TIED if ends is None else verdict_of(measure.name, value, ends)
    if not training and ahead != {BETTER: len(pairs), WORSE: 0}.get(verdict, ahead):
        verdict = TIED
    low, high = ends or (None, None)
    return {
        "value": value,
        "low": low,
        "high": high,
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
        ``contrary_clearly`` by a difference whose interval leaves out 0; ``tau``; ``claims``, each
        with its :func:`difference`.  None where there is no pair.

    Source: Kendall 1938 (tau), over the pairs without a tie in the paper.
    """
    found, estimates = [], []
    for claim in dict.fromkeys(claims):
        pairs = _pairs(rows.get(claim.better), rows.get(claim.worse), claim.measure)
        if not pairs or not paired(*pairs[0]):
            continue
        measure = measures[claim.measure]
        one = difference(measure, pairs)
        found.append({**asdict(claim), **one})
        # Positive where it is the expected order.
        estimates.append(-one["value"] if measure.smaller else one["value"])
    if not found:
        return None
    return {
        "pairs": len(found),
        "agree": sum(one > 0 for one in estimates),
        "contrary": sum(one < 0 for one in estimates),
        "agree_clearly": sum(one["verdict"] == BETTER for one in found),
        "contrary_clearly": sum(one["verdict"] == WORSE for one in found),
        "tau": float(np.mean(np.sign(estimates))),
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
        row: {seed: mean_of_seeds(several) for seed, several in found.items()}
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
    cells: dict[str, dict[str, Any]] = {}
    for measure in group.measures:
        several = [one[measure.name] for one in own.values() if measure.name in one]
        if len(several) < len(own):
            continue
        values, (low, high) = [one.value for one in several], interval_of(several) or (None, None)
        cells[measure.name] = {
            "value": float(np.mean(values)),
            "low": low and max(0.0, low),
            "high": high and min(measure.most or np.inf, high),
            "deviation": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        }
    return cells
