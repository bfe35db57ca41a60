"""The tables of an experiment: the results of each row's trainings, compared with other rows.

Differences are paired by patient.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cxrtext.evaluation.comparison import BETTER, TIED, WORSE, verdict_of
from cxrtext.experiments.definition import Claim, Group, Measure, Row
from cxrtext.experiments.runs import Finished, Measures, interval_of, mean_of_seeds, paired
from cxrtext.metrics.intervals import TRAININGS, Measured, average, with_training
from cxrtext.metrics.intervals import difference as paired_difference

Trainings = Mapping[int, Measures]
"""The measures of a row's trainings, by seed."""
Failures = Mapping[str, Sequence[Mapping[str, Any]]]
"""By row: ``seed`` (None for all seeds) and ``line``."""


def _pairs(
    first: Trainings | None, second: Trainings | None, name: str
) -> list[tuple[Measured, Measured]]:
    """A measure of two rows for each seed that both have."""
    one, other = first or {}, second or {}
    return [
        (one[seed][name], other[seed][name])
        for seed in sorted(one.keys() & other.keys())
        if name in one[seed] and name in other[seed]
    ]


def difference(measure: Measure, pairs: Sequence[tuple[Measured, Measured]]) -> dict[str, Any]:
    """The first minus the second, over the trainings of both.

    ``value``, ``low`` and ``high`` (None for a single patient), ``seeds``, ``training`` (whether
    the interval includes training), ``ahead`` (in how many seeds the first is better), ``verdict``
    on the first: it must be large enough to count, and the interval must leave out 0; if the
    interval does not include training, every seed must agree.
    """
    first, second = (average([pair[at] for pair in pairs]) for at in (0, 1))
    mean, each = paired_difference(first, second), [one.value - two.value for one, two in pairs]
    value, sign = float(np.mean(each)), -1 if measure.smaller else 1
    ahead = sum(sign * apart > 0 for apart in each)
    training = mean is not None and len(pairs) >= TRAININGS
    ends = None if mean is None else (mean.low, mean.high)
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
    pairs_by = {measure: _pairs(first, second, measure.name) for measure in measures}
    return {m.name: difference(m, pairs) for m, pairs in pairs_by.items() if pairs}


def order_of(
    claims: Iterable[Claim], rows: Mapping[str, Trainings], measures: Mapping[str, Measure]
) -> dict[str, Any]:
    """How many of the paper's pairs have its order here, each on the seeds that both rows have.

    ``pairs`` counts those measured alike; ``agree`` and ``contrary`` count their orders, and
    ``agree_clearly`` and ``contrary_clearly`` those with an interval that leaves out 0; ``claims``
    has each with its :func:`difference`.
    """
    compared = []
    for claim in dict.fromkeys(claims):
        pairs = _pairs(rows.get(claim.better), rows.get(claim.worse), claim.measure)
        if pairs and paired(*pairs[0]):
            measure = measures[claim.measure]
            compared.append({**claim.model_dump(), **difference(measure, pairs)})
    ahead = [one["value"] * (-1 if measures[one["measure"]].smaller else 1) for one in compared]
    return {
        "pairs": len(compared),
        "agree": sum(value > 0 for value in ahead),
        "contrary": sum(value < 0 for value in ahead),
        "agree_clearly": sum(one["verdict"] == BETTER for one in compared),
        "contrary_clearly": sum(one["verdict"] == WORSE for one in compared),
        "claims": compared,
    }


def trainings_of(finished: Sequence[Finished], starts: int = 1) -> dict[str, Trainings]:
    """The measures of each row's trainings, by row and seed.

    With several common starts, the seeds of one start are not independent trainings: each start
    counts as one training, with the mean of its seeds.
    """
    rows: dict[str, dict[int, list[Measures]]] = {}
    for one in finished:
        seed = one.run.seed % starts if starts > 1 else one.run.seed
        rows.setdefault(one.run.row, {}).setdefault(seed, []).append(one.measures)
    return {
        row: {seed: mean_of_seeds(several) for seed, several in seeds.items()}
        for row, seeds in rows.items()
    }


def group_table(
    group: Group,
    rows: Sequence[Row],
    finished: Sequence[Finished],
    failures: Failures,
    starts: int,
) -> dict[str, Any]:
    """Rows of a group: ``name``, ``title``, ``baseline``, ``measures`` and ``rows``.

    A row has its ``measures`` (value, interval, and deviation over seeds), the ``paper``'s figures,
    the ``difference`` from the baseline by measure, its ``runs`` and what ``failed``.
    """
    trainings = trainings_of(finished, starts)
    base = trainings.get(group.baseline)
    compared = [measure for measure in group.measures if measure.compared]
    measured = {name for one in finished for name in one.measures}
    return {
        "name": group.name,
        "title": group.title,
        "baseline": group.baseline,
        "measures": [m.model_dump() for m in group.measures if m.name in measured],
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "measures": _cells(group, trainings.get(row.name)),
                "paper": row.paper,
                "difference": {}
                if row.name == group.baseline
                else compare_rows(trainings.get(row.name), base, compared),
                "runs": [_run(one) for one in finished if one.run.row == row.name],
                "failed": list(failures.get(row.name, ())),
            }
            for row in rows
        ],
    }


def _run(one: Finished) -> dict[str, Any]:
    measures = {name: measure.value for name, measure in one.measures.items()}
    return {"seed": one.run.seed, **one.noted, "measures": measures}


def _cells(group: Group, trainings: Trainings | None) -> dict[str, dict[str, Any]]:
    if not trainings:
        return {}
    cells: dict[str, dict[str, Any]] = {}
    for measure in group.measures:
        each = [one[measure.name] for one in trainings.values() if measure.name in one]
        if len(each) < len(trainings):
            continue
        values, (low, high) = [one.value for one in each], interval_of(each) or (None, None)
        cells[measure.name] = {
            "value": float(np.mean(values)),
            "low": low and max(0.0, low),
            "high": high and min(measure.most or np.inf, high),
            "deviation": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        }
    return cells
