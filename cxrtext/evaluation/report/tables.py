"""An evaluation and a comparison as tables, ours above the paper's where it has the like.

Rows are lists of cells, the first the header.
"""

from collections.abc import Mapping
from typing import Any

from cxrtext.evaluation.bootstrap import SMALLER_IS_BETTER, Comparison
from cxrtext.evaluation.box_retrieval import DIRECTIONS
from cxrtext.evaluation.evaluate import Evaluation
from cxrtext.evaluation.grounding import CNR, COMMON, MIOU, POINTING, SIGNED
from cxrtext.evaluation.paper import (
    TABLE1,
    TABLE1_COLUMNS,
    TABLE3,
    TABLE3_COLUMNS,
    TABLE4,
    TABLE5,
    TABLE5_COLUMNS,
)
from cxrtext.evaluation.subgroups import UNKNOWN
from cxrtext.page import EMPTY, Table, number, with_interval

Rows = list[list[str]]

LIMIT = 99.99
"""Temperature from which on it is taken for the limit of its fit, 100."""

BESIDE = (
    "The rows below ours are the paper's, on MIMIC-CXR and MS-CXR. They stand here for "
    "orientation: on other data, other figures are to be expected."
)

OURS = "this model"
STRONG = frozenset({1})


def classification_rows(result: Evaluation) -> Rows:
    """Header, one row a finding, and the mean."""
    rows = [["finding", "AUC", "AP", "ACC", "with", "without", "left out"]]
    for finding, one in result.classification.items():
        ends = one.intervals
        rows.append(
            [
                finding,
                with_interval(one.auc, ends.get("auc")),
                with_interval(one.average_precision, ends.get("average_precision")),
                with_interval(one.accuracy, ends.get("accuracy")),
                *(str(n) for n in (one.positives, one.negatives, one.left_out)),
            ]
        )
    ends = result.classification_intervals
    auc = with_interval(result.mean_auc, ends.get("mean_auc"))
    accuracy = with_interval(result.mean_accuracy, ends.get("mean_accuracy"))
    rows.append(["mean", auc, "", accuracy, "", "", ""])
    return rows


def threshold_rows(result: Evaluation) -> Rows:
    """What validation images chose, and how it does; only the header without them."""
    header = ["finding", "threshold", "sensitivity", "specificity", "T"]
    rows = [[*header, "ECE before", "ECE with T", "ECE Platt", "Brier"]]
    for finding, one in result.classification.items():
        if one.threshold is None:
            continue
        rows.append(
            [
                finding,
                number(one.threshold, 2),
                with_interval(one.sensitivity, one.intervals.get("sensitivity"), 2),
                with_interval(one.specificity, one.intervals.get("specificity"), 2),
                _temperature(one.temperature),
                number(one.calibration_error_before),
                number(one.calibration_error),
                number(one.calibration_error_platt),
                with_interval(one.brier, one.intervals.get("brier")),
            ]
        )
    return rows


def _temperature(value: float | None) -> str:
    # At its limit the fit has no end: the scores rank, but have no zero.
    return f"≥ {LIMIT:.0f}" if value is not None and value >= LIMIT else number(value, 2)


def grounding_rows(result: Evaluation) -> Rows:
    """Header, one row a finding, and the means."""
    names = (CNR, SIGNED, MIOU, COMMON, POINTING)
    rows = [["finding", *names, "sentences", "boxes"]]
    blocks = {
        **result.grounding.get("by finding", {}),
        "mean of findings": result.grounding.get("mean of findings", {}),
        "mean of sentences": result.grounding.get("mean", {}),
    }
    for name, block in blocks.items():
        ends = block.get("intervals", {})
        cells = [with_interval(block.get(one), ends.get(one), 2) for one in names]
        counts = [str(block[one]) if one in block else "" for one in ("sentences", "boxes")]
        rows.append([name, *cells, *counts])
    return rows


def box_retrieval_rows(result: Evaluation) -> Rows:
    """Header, and both directions, strict and with equal sentences right."""
    found = result.box_retrieval
    names = [f"R@{k}" for k in (1, 5, 10, 50, 100)] + ["MedR", "MRR"]
    names = [name for name in names if name in found[DIRECTIONS[0]]]
    rows = [["direction", *names]]
    variants: list[tuple[str, dict[str, Any]]] = [("", found)]
    variants.append((", equal sentences right", found["equal sentences right"]))
    for suffix, part in variants:
        for direction in DIRECTIONS:
            block = part[direction]
            ends = block["intervals"]
            cells = [
                with_interval(block[name], ends.get(name), 1 if name == "MedR" else 3)
                for name in names
            ]
            rows.append([direction + suffix, *cells])
    return rows


def retrieval_rows(result: Evaluation) -> Rows:
    """Header and one row a direction."""
    names = list(dict.fromkeys(name for m in result.retrieval.values() for name in m))
    rows = [["direction", *names]]
    for direction, metrics in result.retrieval.items():
        ends = result.retrieval_intervals.get(direction, {})
        cells = []
        for name in names:
            whole = name in ("queries", "candidates")
            digits = 0 if whole else 1 if name == "MedR" else 3
            cells.append(with_interval(metrics.get(name), ends.get(name), digits))
        rows.append([direction, *cells])
    return rows


def _band_order(name: str) -> tuple[bool, int, str]:
    """Age bands by age, other groups by name, the unknown last."""
    digits = "".join(c if c.isdigit() else " " for c in name).split()
    first = int(digits[0]) if digits else 0
    return name == UNKNOWN, first - (1 if name.startswith("under ") else 0), name


def slice_rows(result: Evaluation, column: str) -> Rows:
    """Header, and one row a finding, with a column a group and the gap."""
    reports = result.slices[column]
    names = {name for report in reports.values() for name in report["slices"]}
    groups = sorted(names, key=_band_order)
    rows = [["finding", *groups, "gap"]]
    for finding, report in reports.items():
        cells = []
        for name in groups:
            group = report["slices"].get(name)
            if group is None or group["auc"] is None:
                few = 0 if group is None else group["positives"]
                cells.append(f"too few ({few} with)")
            else:
                cells.append(_sliced(group["auc"], group["low"], group["high"]))
        gap = report["gap"]
        cells.append(EMPTY if gap is None else _sliced(gap, report["gap_low"], report["gap_high"]))
        rows.append([finding, *cells])
    return rows


def _sliced(value: float, low: float | None, high: float | None) -> str:
    ends = None if low is None or high is None else (low, high)
    return with_interval(value, ends, 2)


def probe_rows(result: Evaluation) -> Rows:
    """Header and one row a finding: all labels, and few."""
    shots = list(dict.fromkeys(k for one in result.probe.values() for k in one["few_labels"]))
    rows = [["finding", "zero-shot AUC", *(f"{k} + {k} labels" for k in shots), "all", "train"]]
    for finding, one in result.probe.items():
        few = []
        for k in shots:
            areas = one["few_labels"].get(k)
            some = None if areas is None else (min(areas), max(areas))
            few.append(with_interval(sum(areas) / len(areas) if areas else None, some, 2))
        zero = result.classification[finding].auc
        every = with_interval(one["auc"], one["interval"])
        rows.append([finding, number(zero), *few, every, str(one["train"])])
    return rows


def _rows(paper: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    return [[f"{name} (paper)", *cells] for name, cells in paper.items()]


def headline(result: Evaluation) -> dict[str, str]:
    """Our six figures of table 1, each with its interval."""
    ends = result.classification_intervals
    mean, boxes = result.grounding.get("mean", {}), result.box_retrieval
    some, others = mean.get("intervals", {}), boxes.get("intervals", {})
    return {
        "AUC": with_interval(result.mean_auc, ends.get("mean_auc"), 2),
        "ACC": with_interval(result.mean_accuracy, ends.get("mean_accuracy"), 2),
        "CNR": with_interval(mean.get(CNR), some.get(CNR), 2),
        "mIoU": with_interval(mean.get(MIOU), some.get(MIOU), 2),
        "Recall": with_interval(boxes.get("Recall"), others.get("Recall"), 2),
        "MedR": with_interval(boxes.get("MedR"), others.get("MedR"), 0),
    }


def table1(result: Evaluation) -> Table:
    """All three tasks."""
    ours = headline(result)
    rows = [["method", *TABLE1_COLUMNS], [OURS, *(ours[name] for name in TABLE1_COLUMNS)]]
    return Table(rows + _rows(TABLE1), "Table 1: all three tasks", STRONG)


def table3(result: Evaluation) -> Table:
    """AUC by finding."""
    found = [result.classification.get(name) for name in TABLE3_COLUMNS]
    cells = [
        EMPTY if one is None else with_interval(one.auc, one.intervals.get("auc")) for one in found
    ]
    same = set(result.classification) == set(TABLE3_COLUMNS)
    mean = with_interval(result.mean_auc, result.classification_intervals.get("mean_auc"))
    rows = [["method", *TABLE3_COLUMNS, "mean"], [OURS, *cells, mean if same else EMPTY]]
    return Table(rows + _rows(TABLE3), "Table 3: AUC of zero-shot classification", STRONG)


def table4(result: Evaluation) -> Table:
    """Grounding."""
    mean = result.grounding["mean"]
    cells = [with_interval(mean[name], mean["intervals"].get(name)) for name in (CNR, MIOU)]
    rows = [["method", CNR, MIOU], [OURS, *cells]]
    return Table(rows + _rows(TABLE4), "Table 4: grounding", STRONG)


def table5(result: Evaluation) -> Table:
    """Retrieval between boxes and sentences."""
    header = ["method"]
    cells = []
    for direction, arrow in zip(reversed(DIRECTIONS), ("box → text", "text → box"), strict=True):
        block = result.box_retrieval[direction]
        header += [f"{arrow} {name}" for name in TABLE5_COLUMNS]
        digits = {"MedR": 0}
        cells += [number(block.get(name), digits.get(name, 2)) for name in TABLE5_COLUMNS]
    return Table(
        [header, [OURS, *cells], *_rows(TABLE5)],
        "Table 5: retrieval between boxes and sentences",
        STRONG,
    )


def measure_rows(comparison: Comparison) -> list[list[str]]:
    """Header and one row a measure, a column a model."""
    names = list(dict.fromkeys(name for one in comparison.measures.values() for name in one))
    rows = [["measure", *comparison.models]]
    for name in names:
        cells = []
        for model in comparison.models:
            one = comparison.measures[model].get(name)
            cells.append(EMPTY if one is None else _cell(name, one))
        rows.append([name, *cells])
    return rows


def _cell(name: str, one: Mapping[str, float | None]) -> str:
    low, high = one["low"], one["high"]
    ends = None if low is None or high is None else (low, high)
    return with_interval(one["value"], ends, 1 if name.endswith(SMALLER_IS_BETTER) else 3)


def difference_rows(comparison: Comparison) -> list[list[str]]:
    """Header and one row a measure and pair of models."""
    rows = [["measure", "difference of", "and", "second less first", "p", "second is"]]
    for one in comparison.differences:
        digits = 1 if one.measure.endswith(SMALLER_IS_BETTER) else 3
        text = with_interval(one.estimate, (one.low, one.high), digits)
        p = f"{one.p_value:.3f}" if one.p_value >= 0.001 else f"{one.p_value:.1e}"
        rows.append([one.measure, one.first, one.second, text, p, one.verdict])
    return rows
