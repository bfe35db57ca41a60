"""Table 1 from its finished runs: everything that ``table.json`` holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cxrtext.errors import DataError, WorkError
from cxrtext.experiments.comparison import (
    LEVEL,
    RowValues,
    Sample,
    compare_rows,
    draw_sample,
    estimate,
    row_values,
)
from cxrtext.experiments.figures import NAMES, box_figures
from cxrtext.experiments.measuring import ImageScores, read_scores
from cxrtext.experiments.questions import answer_questions
from cxrtext.experiments.rows import BASELINE, TABLE1, Row
from cxrtext.experiments.runs import METRICS, SCORES, Run, require_equal_budget
from cxrtext.experiments.stages import read_json

Failures = Mapping[str, Sequence[Mapping[str, Any]]]
"""By row: ``seed`` (None for all of them) and ``line``."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is trained and measured.

    Args:
        run: The run.
        metrics: Its ``metrics.json``.
        scores: Its ``scores.npz``.
    """

    run: Run
    metrics: dict[str, Any]
    scores: ImageScores


def read_finished(runs: Sequence[Run]) -> tuple[list[Finished], dict[tuple[str, int], str]]:
    """Read finished runs; a line for each that cannot be compared with the first one."""
    finished: list[Finished] = []
    failures: dict[tuple[str, int], str] = {}
    for run in runs:
        try:
            metrics = read_json(run.folder / METRICS)
            scores = read_scores(run.folder / SCORES)
        except (DataError, WorkError) as error:
            failures[run.row.name, run.seed] = str(error)
            continue
        if metrics is None:
            continue
        if finished and scores.images.tolist() != finished[0].scores.images.tolist():
            failures[run.row.name, run.seed] = (
                f"{run.folder / SCORES}: was measured on other images than the first row; remove "
                f"its {METRICS}, and the command measures again"
            )
            continue
        finished.append(Finished(run, metrics, scores))
    require_equal_budget([one.metrics["configuration"] for one in finished])
    return finished, failures


def _boxes(finished: Sequence[Finished]) -> dict[str, dict[str, Any]]:
    """CNR, mIoU, Recall and MedR, mean over seeds, where the evaluations have them."""
    by_seed = {one.run.seed: box_figures(one.metrics["evaluation"]) for one in finished}
    cells = {}
    for name in NAMES:
        values = {seed: figures[name] for seed, figures in by_seed.items() if name in figures}
        if values:
            mean = sum(values.values()) / len(values)
            cells[name] = {"value": mean, "low": None, "high": None, "by_seed": values}
    return cells


def _run(one: Finished, values: RowValues) -> dict[str, Any]:
    budget = one.metrics["budget"]
    return {
        "seed": one.run.seed,
        "steps": budget["steps"],
        "seconds": budget["seconds"],
        "training_images": budget["images"],
        "AUC": float(values.auc([one.run.seed])[0]),
        "ACC": float(values.accuracy([one.run.seed])[0]),
        "machine": one.metrics["machine"],
        "threads": one.metrics["threads"],
        "versions": one.metrics["versions"],
        "configuration": one.metrics["configuration"],
    }


def _paper_difference(row: Row) -> dict[str, float]:
    (base,) = (one for one in TABLE1 if one.name == BASELINE)
    return {name: round(row.paper[name] - base.paper[name], 3) for name in row.paper}


def _row(
    row: Row,
    finished: Sequence[Finished],
    values: Mapping[str, RowValues],
    failed: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    own = values.get(row.name)
    cells: dict[str, Any] = {}
    if own is not None:
        for name, measure in (("AUC", own.auc), ("ACC", own.accuracy)):
            by_seed = {seed: float(measure([seed])[0]) for seed in own.seeds}
            cells[name] = {**estimate(measure()), "by_seed": by_seed}
        cells |= _boxes(finished)
    compared = own is not None and row.name != BASELINE and BASELINE in values
    return {
        "name": row.name,
        "title": row.title,
        "measures": cells,
        "paper": dict(row.paper),
        "auc_by_finding": {
            name: estimate(areas) for name, areas in (own.by_finding() if own else {}).items()
        },
        "paper_auc_by_finding": dict(row.paper_auc),
        "difference": compare_rows(values[row.name], values[BASELINE]) if compared else None,
        "paper_difference": _paper_difference(row),
        "runs": [_run(one, own) for one in finished] if own else [],
        "failed": list(failed),
    }


def _sample(sample: Sample, first: Finished) -> dict[str, Any]:
    labels = first.scores.labels
    return {
        "images": len(sample.images),
        "patients": sample.patients,
        "split": first.metrics["evaluation"]["split"],
        "resamples": len(sample.weights) - 1,
        "redrawn": sample.redrawn,
        "level": LEVEL,
        "left_out": list(sample.left_out),
        "findings": {
            name: {"with": int((row == 1).sum()), "without": int((row == 0).sum())}
            for name, row in zip(first.scores.findings, labels, strict=True)
            if name in sample.findings
        },
    }


def build_table(
    rows: Sequence[Row], finished: Sequence[Finished], failures: Failures, resamples: int
) -> dict[str, Any]:
    """Measure the rows on the same resamples, and lay the table out.

    Args:
        rows: The rows, in order.
        finished: Their finished runs.
        failures: What failed, by row.
        resamples: Of the bootstrap.

    Returns:
        ``sample``, ``rows``, ``questions`` and ``budget``, as JSON has them.

    Raises:
        WorkError: No run is finished.
        DataError: The data have no labels that would tell the rows apart.
    """
    if not finished:
        lines = [f"{name}: {one['line']}" for name, found in failures.items() for one in found]
        raise WorkError(f"every row failed; the first, {lines[0] if lines else 'none was asked'}")
    first = finished[0]
    sample = draw_sample(first.scores, resamples)
    if not sample.findings:
        raise DataError(
            "the images measured have no finding with and without among their labels; give data "
            "with a labels.csv"
        )
    by_row = {row.name: [one for one in finished if one.run.row.name == row.name] for row in rows}
    values = {
        name: row_values({one.run.seed: one.scores for one in own}, sample)
        for name, own in by_row.items()
        if own
    }
    training = first.metrics["configuration"]["training"]
    return {
        "sample": _sample(sample, first),
        "budget": {key: training[key] for key in ("steps", "batch", "sentences", "lr")},
        "rows": [_row(row, by_row[row.name], values, failures.get(row.name, ())) for row in rows],
        "questions": answer_questions(values),
    }
