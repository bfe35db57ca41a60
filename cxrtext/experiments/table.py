"""Table 1 from its finished runs: everything that ``table.json`` holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cxrtext.errors import DataError, WorkError
from cxrtext.experiments.comparison import Trainings, compare_rows, estimate, paper_order
from cxrtext.experiments.measures import OF_FINDING, Measures, mean_of_seeds, read_measures
from cxrtext.experiments.questions import answer_questions
from cxrtext.experiments.rows import BASELINE, MEASURES, TABLE1, Row
from cxrtext.experiments.runs import METRICS, RESAMPLED, Run, recipe_of, require_equal_budget
from cxrtext.experiments.stages import read_json

Failures = Mapping[str, Sequence[Mapping[str, Any]]]
"""By row: ``seed`` (None for all of them) and ``line``."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is trained and measured.

    Args:
        run: The run.
        metrics: Its ``metrics.json``.
        measures: Its ``resampled.npz``.
    """

    run: Run
    metrics: dict[str, Any]
    measures: Measures


def _paired(one: Measures, other: Measures) -> bool:
    """Whether two runs were measured on the same images, with the same resamples."""
    # A model may lack a measure: a map that is flat in every box has no contrast to noise.
    return all(
        one[name].rows == other[name].rows and len(one[name].values) == len(other[name].values)
        for name in one.keys() & other.keys()
    )


def read_finished(runs: Sequence[Run]) -> tuple[list[Finished], dict[tuple[str, int], str]]:
    """Read finished runs; a line for each that cannot be compared with the first one."""
    finished: list[Finished] = []
    failures: dict[tuple[str, int], str] = {}
    for run in runs:
        try:
            metrics = read_json(run.folder / METRICS)
            measures = read_measures(run.folder / RESAMPLED)
        except (DataError, WorkError) as error:
            failures[run.row.name, run.seed] = str(error)
            continue
        if metrics is None:
            continue
        if finished and not _paired(measures, finished[0].measures):
            failures[run.row.name, run.seed] = (
                f"{run.folder / RESAMPLED}: was measured on other images than "
                f"{finished[0].run.name}; remove its {METRICS}, and the command measures again"
            )
            continue
        finished.append(Finished(run, metrics, measures))
    require_equal_budget([one.metrics["configuration"] for one in finished])
    return finished, failures


def _run(one: Finished) -> dict[str, Any]:
    budget = one.metrics["budget"]
    return {
        "seed": one.run.seed,
        "steps": budget["steps"],
        "seconds": budget["seconds"],
        "training_images": budget["images"],
        "measures": {
            name: one.measures[name].estimate for name in MEASURES if name in one.measures
        },
        "machine": one.metrics["machine"],
        "threads": one.metrics["threads"],
        "versions": one.metrics["versions"],
        "configuration": recipe_of(one.metrics["configuration"]),
    }


def _paper_difference(row: Row) -> dict[str, float]:
    (base,) = (one for one in TABLE1 if one.name == BASELINE)
    return {name: round(row.paper[name] - base.paper[name], 3) for name in row.paper}


def _row(
    row: Row,
    finished: Sequence[Finished],
    trainings: Mapping[str, Trainings],
    failed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    mean = mean_of_seeds([one.measures for one in finished]) if finished else {}
    base = row.name == BASELINE
    return {
        "name": row.name,
        "title": row.title,
        "measures": {name: estimate(mean[name]) for name in MEASURES if name in mean},
        "paper": dict(row.paper),
        "auc_by_finding": {
            name.removeprefix(OF_FINDING): estimate(one)
            for name, one in mean.items()
            if name.startswith(OF_FINDING)
        },
        "paper_auc_by_finding": dict(row.paper_auc),
        "difference": (
            {} if base else compare_rows(trainings.get(row.name), trainings.get(BASELINE))
        ),
        "paper_difference": _paper_difference(row),
        "runs": [_run(one) for one in finished],
        "failed": list(failed),
    }


def _sample(first: Finished) -> dict[str, Any]:
    found = first.metrics["evaluation"]
    counts = {
        name: {"with": one["positives"], "without": one["negatives"]}
        for name, one in found["classification"].items()
    }
    rare = [name for name, one in counts.items() if not (one["with"] and one["without"])]
    left_out = list(found["left_out"])
    if rare:
        left_out.append(f"AUC: no images with or none without {', '.join(rare)}")
    pairs = found["box_retrieval"].get("pairs", 0)
    if pairs and "Recall" not in first.measures:
        left_out.append(f"Recall: {pairs} boxes are too few for its cut-offs")
    return {
        "images": found["images"],
        "patients": found["patients"],
        "split": found["split"],
        "resamples": found["settings"]["resamples"],
        "findings": counts,
        "sentences": found["grounding"].get("mean", {}).get("sentences", 0),
        "boxes": pairs,
        "left_out": left_out,
    }


def build_table(
    rows: Sequence[Row], finished: Sequence[Finished], failures: Failures
) -> dict[str, Any]:
    """Lay the table out.

    Args:
        rows: The rows, in order.
        finished: Their finished runs.
        failures: What failed, by row.

    Returns:
        ``sample``, ``budget``, ``rows``, ``questions`` and ``order``, as JSON has them.

    Raises:
        WorkError: No run is finished.
        DataError: The data have nothing that a row could be measured by.
    """
    if not finished:
        lines = [f"{name}: {one['line']}" for name, found in failures.items() for one in found]
        raise WorkError(f"every row failed; the first, {lines[0] if lines else 'none was asked'}")
    first = finished[0]
    if not first.measures:
        raise DataError(
            f"{first.run.folder / METRICS}: nothing could be measured "
            f"({'; '.join(first.metrics['evaluation']['left_out'])}); give data with a labels.csv "
            "or a boxes.json"
        )
    by_row = {row.name: [one for one in finished if one.run.row.name == row.name] for row in rows}
    trainings = {
        name: {one.run.seed: one.measures for one in own} for name, own in by_row.items() if own
    }
    means = {name: mean_of_seeds(list(own.values())) for name, own in trainings.items()}
    training = first.metrics["configuration"]["training"]
    return {
        "sample": _sample(first),
        "budget": {key: training[key] for key in ("steps", "batch", "sentences", "lr")},
        "rows": [
            _row(row, by_row[row.name], trainings, failures.get(row.name, ())) for row in rows
        ],
        "questions": answer_questions(trainings),
        "order": paper_order(means, {row.name: row.paper for row in rows}),
    }
