"""An evaluation and a comparison as tables, ours above the paper's where it has the like.

Rows are lists of cells, the first the header.
"""

from collections.abc import Mapping
from typing import Any

from cxrtext.evaluation.classification.finding import MEASURES, FindingResult
from cxrtext.evaluation.classification.subgroups import MINIMUM, UNKNOWN
from cxrtext.evaluation.classification.zero_shot import MEANS
from cxrtext.evaluation.grounding.phrases import CNR, COMMON, MIOU, POINTING, SIGNED
from cxrtext.evaluation.intervals.bootstrap import SMALLER_IS_BETTER
from cxrtext.evaluation.paper import (
    TABLE1,
    TABLE1_COLUMNS,
    TABLE3,
    TABLE3_COLUMNS,
    TABLE4,
    TABLE5,
    TABLE5_COLUMNS,
)
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.retrieval.boxes import DIRECTIONS
from cxrtext.evaluation.retrieval.sentences import CUTOFFS
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
    columns = [one for one in MEASURES if one.column]
    rows = [["finding", *(one.column for one in columns), "with", "without", "left out"]]
    for finding, one in result.classification.items():
        cells = [_measured(one, column.field) for column in columns]
        counts = (one.positives, one.negatives, one.left_out)
        rows.append([finding, *cells, *map(str, counts)])
    ends = result.classification_intervals
    means = {name: result.mean_of(name) for name in MEANS.values()}
    cells = [
        with_interval(means[one.field], ends.get(f"mean_{one.field}")) if one.field in means else ""
        for one in columns
    ]
    rows.append(["mean", *cells, "", "", ""])
    return rows


def _measured(one: FindingResult, field: str, digits: int = 3) -> str:
    return with_interval(getattr(one, field), one.intervals.get(field), digits)


def threshold_rows(result: Evaluation) -> Rows:
    """What validation images chose, and how it does; only the header without them."""
    header = ["finding", "threshold", "sensitivity", "specificity", "T"]
    rows = [[*header, "ECE before", "ECE with T", "ECE Platt", "Brier"]]
    for finding, one in result.classification.items():
        if one.threshold is None:
            continue
        errors = (
            one.calibration_error_before,
            one.calibration_error,
            one.calibration_error_platt,
        )
        shares = (_measured(one, name, 2) for name in ("sensitivity", "specificity"))
        chosen = [number(one.threshold, 2), *shares, _temperature(one.temperature)]
        rows.append([finding, *chosen, *map(number, errors), _measured(one, "brier")])
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
    names = [f"R@{k}" for k in CUTOFFS] + ["MedR", "MRR"]
    names = [name for name in names if name in found[DIRECTIONS[0]]]
    rows = [["direction", *names]]
    other = found["equal sentences right"]
    for suffix, part in (("", found), (", equal sentences right", other)):
        for direction in DIRECTIONS:
            block, ends = part[direction], part[direction]["intervals"]
            cells = [with_interval(block[name], ends.get(name), digits_of(name)) for name in names]
            rows.append([direction + suffix, *cells])
    return rows


def digits_of(name: str) -> int:
    """Digits after the point that a measure is printed with."""
    return 1 if name.endswith(SMALLER_IS_BETTER) else 3


def retrieval_rows(result: Evaluation) -> Rows:
    """Header and one row a direction."""
    names = list(dict.fromkeys(name for m in result.retrieval.values() for name in m))
    rows = [["direction", *names]]
    for direction, metrics in result.retrieval.items():
        ends = result.retrieval_intervals.get(direction, {})
        cells = [
            with_interval(
                metrics.get(name),
                ends.get(name),
                0 if name in ("queries", "candidates") else digits_of(name),
            )
            for name in names
        ]
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
                cells.append(_too_few(group))
            else:
                cells.append(with_interval(group["auc"], ends_of(group["low"], group["high"]), 2))
        ends = ends_of(report["gap_low"], report["gap_high"])
        cells.append(with_interval(report["gap"], ends, 2))
        rows.append([finding, *cells])
    return rows


def _too_few(group: Mapping[str, Any] | None) -> str:
    """The numbers of a group that is not measured: of images with the finding, or without it."""
    sides = "with", "without"
    counts = (0, 0) if group is None else (group["positives"], group["negatives"])
    few = [f"{n} {side}" for n, side in zip(counts, sides, strict=True) if n < MINIMUM]
    return f"too few ({', '.join(few)})"


def ends_of(low: float | None, high: float | None) -> tuple[float, float] | None:
    """An interval, where there is one."""
    return None if low is None or high is None else (low, high)


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


def primary_line(result: Evaluation) -> str:
    """The primary measure with its interval."""
    one = result.primary
    text = with_interval(one["value"], ends_of(one["low"], one["high"]), digits_of(one["measure"]))
    return f"Primary measure: {one['measure']} {text}"


def headline(result: Evaluation) -> dict[str, str]:
    """Our six figures of table 1, each with its interval."""
    ends = result.classification_intervals
    mean, boxes = result.grounding.get("mean", {}), result.box_retrieval
    found = {
        "AUC": (result.mean_auc, ends.get("mean_auc")),
        "ACC": (result.mean_accuracy, ends.get("mean_accuracy")),
        **{name: (mean.get(name), mean.get("intervals", {}).get(name)) for name in (CNR, MIOU)},
    }
    for name in ("Recall", "MedR"):
        found[name] = boxes.get(name), boxes.get("intervals", {}).get(name)
    return {name: with_interval(*one, 0 if name == "MedR" else 2) for name, one in found.items()}


def table1(result: Evaluation) -> Table:
    """All three tasks."""
    ours = headline(result)
    rows = [["method", *TABLE1_COLUMNS], [OURS, *(ours[name] for name in TABLE1_COLUMNS)]]
    return Table(rows + _rows(TABLE1), "Table 1: all three tasks", STRONG)


def table3(result: Evaluation) -> Table:
    """AUC by finding."""
    found = [result.classification.get(name) for name in TABLE3_COLUMNS]
    cells = [EMPTY if one is None else _measured(one, "auc") for one in found]
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
        cells += [number(block.get(name), 0 if name == "MedR" else 2) for name in TABLE5_COLUMNS]
    return Table(
        [header, [OURS, *cells], *_rows(TABLE5)],
        "Table 5: retrieval between boxes and sentences",
        STRONG,
    )
