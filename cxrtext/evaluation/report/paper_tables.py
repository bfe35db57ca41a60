"""Our figures above the paper's, in the form of its tables."""

from collections.abc import Mapping

from cxrtext.evaluation.blocks import EMPTY, Table, number, with_interval
from cxrtext.evaluation.report.paper import (
    TABLE1,
    TABLE1_COLUMNS,
    TABLE3,
    TABLE3_COLUMNS,
    TABLE4,
    TABLE5,
    TABLE5_COLUMNS,
)
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.tasks.box_retrieval import DIRECTIONS
from cxrtext.evaluation.tasks.grounding import CNR, MIOU

OURS = "this model"
STRONG = frozenset({1})


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
