"""The tables of a report: pivots of the rows of an evaluation.

A pivot has a row a group and a column a measure.  Rows are lists of cells, the first the header.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cxrtext.evaluation.classification.finding import FITTED, SCORED
from cxrtext.evaluation.classification.multiclass import SCORES
from cxrtext.evaluation.classification.subgroups import MINIMUM, UNKNOWN
from cxrtext.evaluation.grounding.phrases import CNR, COMMON, MIOU, POINTING, SIGNED
from cxrtext.evaluation.grounding.sides import ABOVE, AUC, HEAD_AUC, PEAK
from cxrtext.evaluation.intervals.bootstrap import SMALLER_IS_BETTER
from cxrtext.evaluation.intervals.comparison import OF_FINDING
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import (
    ABSENCE,
    BOTH,
    BOX_RETRIEVAL,
    BY_CHANCE,
    CALIBRATION,
    CLASSES,
    CONFUSION,
    ELSEWHERE,
    GAIN,
    GAP,
    GROUNDING,
    GROUPS,
    HEADS,
    MASKS,
    MEAN,
    MEAN_OF_SENTENCES,
    OPERATING,
    PROBES,
    RETRIEVAL,
    SIDES,
    ZERO_SHOT,
    Row,
    Rows,
)
from cxrtext.page import EMPTY, Table, number, with_interval

Cells = list[list[str]]
LIMIT = 99.99
"""Temperature from which on it is taken for the limit of its fit, 100."""


def cell(row: Row | None, digits: int = 3) -> str:
    """A figure with its interval: a dash where it could not be measured, nothing without a row."""
    return "" if row is None else with_interval(row.value, row.ends, digits)


def temperature(row: Row | None, digits: int) -> str:
    """A temperature; at its limit the fit has no end: the scores rank, but have no zero."""
    at_limit = row is not None and row.value is not None and row.value >= LIMIT
    return f"≥ {LIMIT:.0f}" if at_limit else cell(row, digits)


@dataclass(frozen=True, slots=True)
class Column:
    """A measure as a column: how many digits it has after the point, and what it is called."""

    measure: str
    digits: int = 3
    title: str = ""
    show: Callable[[Row | None, int], str] = cell

    @property
    def head(self) -> str:
        return self.title or self.measure


def columns(*names: str, digits: int = 3) -> tuple[Column, ...]:
    return tuple(Column(name, digits) for name in names)


THRESHOLDS = tuple(
    Column(one.name, one.digits, show=temperature if one.name == "T" else cell) for one in FITTED
)
POINTS = (
    *columns("sensitivity", "specificity", "PPV", "NPV", digits=2),
    *columns("LR+", "LR−", digits=2),
)
COUNTS = (
    Column("threshold", 2),
    *columns("TP", "FP", "FN", "TN", digits=0),
    *columns("F1", "MCC", digits=2),
)
PREVALENCES = columns("prevalence", "PPV", "NPV", "other prevalence", "PPV at it", "NPV at it")


def beside(measure: str) -> tuple[str, str, str]:
    """A measure, the same of other patients' images, and what it gains over these."""
    return measure, measure + ELSEWHERE, measure + GAIN


FOUND = (Column("threshold", 2), *columns("found", "false alarms"))
COUNTED = columns("with", "without", "left out", digits=0)
SHOWN_OF: Mapping[str, Sequence[Column]] = {
    ZERO_SHOT: (*(Column(one.name, one.digits) for one in SCORED), *COUNTED),
    HEADS: (*(Column(one.name, one.digits) for one in SCORED if not one.sides), *COUNTED),
    CALIBRATION: columns("slope", "intercept", digits=2),
    GROUNDING: (
        *columns(*beside(SIGNED), *beside(MIOU), *beside(POINTING), CNR, COMMON, digits=2),
        *columns("sentences", "boxes", digits=0),
    ),
    MASKS: (
        *columns("Dice", "pixel AUROC", "best Dice"),
        Column("at", 2),
        Column("mask's share"),
        Column("sentences", 0),
    ),
    ABSENCE: (Column("AUC"), *columns("with a box", "without", digits=0)),
    SIDES: (
        *columns(AUC, AUC + ELSEWHERE, HEAD_AUC, *beside(ABOVE), *beside(PEAK)),
        *columns("left", "right", digits=0),
    ),
}
"""The columns of a part's own table."""


def pivot(
    rows: Rows,
    part: str,
    shown: Sequence[Column] | None = None,
    *,
    first: str = "finding",
    groups: Sequence[str] | None = None,
) -> Cells:
    """A row a group of a part, with a column a measure; ``first`` is the head of the groups.

    By default the columns are those of :data:`SHOWN_OF`, and the groups all.
    """
    shown = SHOWN_OF[part] if shown is None else shown
    found = [[first, *(one.head for one in shown)]]
    for group in rows.groups(part) if groups is None else groups:
        cells = (one.show(rows.find(part, group, one.measure), one.digits) for one in shown)
        found.append([group, *cells])
    return found


def threshold_rows(rows: Rows) -> Cells:
    """What validation images chose, and how it does; only the header without them."""
    fitted = [
        name
        for name in rows.groups(ZERO_SHOT)
        if rows.value(ZERO_SHOT, name, "threshold") is not None
    ]
    return pivot(rows, ZERO_SHOT, THRESHOLDS, groups=fitted)


def point_rows(rows: Rows, shown: Sequence[Column] = POINTS) -> Cells:
    """A row a finding and way in which its threshold was chosen; by default shares and ratios."""
    chosen = rows.below(OPERATING)
    tables = {how: pivot(rows, f"{OPERATING}, {how}", shown) for how in chosen}
    found = [["finding", "threshold by", *(one.head for one in shown)]]
    for lines in zip(*(table[1:] for table in tables.values()), strict=True):
        for how, (finding, *cells) in zip(chosen, lines, strict=True):
            found.append([finding, how, *cells])
    return found


def absence_rows(rows: Rows) -> Cells:
    """A row a finding with sentences of both kinds, their mean, and all."""
    known = [name for name in rows.groups(ABSENCE) if rows.value(ABSENCE, name, "AUC") is not None]
    return pivot(rows, ABSENCE, groups=known)


def digits_of(name: str) -> int:
    """Digits after the point that a measure is printed with."""
    if name in ("queries", "candidates"):
        return 0
    return 1 if name.removesuffix(BY_CHANCE).endswith(SMALLER_IS_BETTER) else 3


def _ranked(rows: Rows, part: str, directions: Sequence[str]) -> Cells:
    names = dict.fromkeys(name for one in directions for name in rows.of(part, one))
    shown = [Column(name, digits_of(name)) for name in names]
    return _dashed(pivot(rows, part, shown, first="direction", groups=directions))


def _dashed(cells: Cells) -> Cells:
    return [[text or EMPTY for text in line] for line in cells]


def box_retrieval_rows(rows: Rows) -> Cells:
    """Both directions, strict and with equal sentences right."""
    directions = [one for one in rows.groups(BOX_RETRIEVAL) if not one.startswith(BOTH)]
    return _ranked(rows, BOX_RETRIEVAL, directions)


def retrieval_rows(rows: Rows) -> Cells:
    return _ranked(rows, RETRIEVAL, rows.groups(RETRIEVAL))


def class_tables(rows: Rows) -> list[Table]:
    """Findings as classes: accuracy, precision of the first images, what is taken for what."""
    own, confusion = (f"{part}, {SCORES[0]}" for part in (CLASSES, CONFUSION))
    shown = columns(*rows.of(CLASSES, SCORES[0]))
    precision = (Column("images", 0), *shown[2:])
    return [
        Table(pivot(rows, CLASSES, shown, first="score", groups=SCORES)),
        Table(pivot(rows, own, precision), "Precision of the first images, by the positive prompt"),
        Table(
            pivot(rows, confusion, columns(*rows.groups(confusion), digits=0), first="image has"),
            "Images by their finding, and the one that scores highest",
        ),
    ]


def _band_order(name: str) -> tuple[bool, int, str]:
    """Age bands by age, other groups by name, the unknown last."""
    digits = "".join(c if c.isdigit() else " " for c in name).split()
    first = int(digits[0]) if digits else 0
    return name == UNKNOWN, first - (1 if name.startswith("under ") else 0), name


def slice_rows(rows: Rows, column: str) -> Cells:
    """A row a finding, with a column a group of the manifest's column, and the gap."""
    part = f"{GROUPS}, {column}"
    groups = sorted((name for name in rows.groups(part) if name != GAP), key=_band_order)
    found = [["finding", *groups, GAP]]
    for measure in rows.of(part, GAP):
        finding = measure.removeprefix(OF_FINDING)
        cells = []
        for name in groups:
            row = rows.find(part, name, measure)
            if row is not None and row.value is not None:
                cells.append(cell(row, 2))
            else:
                cells.append(_too_few(rows, part, name, finding))
        found.append([finding, *cells, cell(rows.find(part, GAP, measure), 2)])
    return found


def _too_few(rows: Rows, part: str, group: str, finding: str) -> str:
    """The numbers of a group that is not measured: of images with the finding, or without it."""
    counts = {side: rows.count(part, group, f"{side} {finding}") for side in ("with", "without")}
    few = [f"{count} {side}" for side, count in counts.items() if count < MINIMUM]
    return f"too few ({', '.join(few)})"


def probe_rows(rows: Rows) -> Cells:
    """A row a finding: zero-shot, few labels, and all."""
    every = dict.fromkeys(n for group in rows.groups(PROBES) for n in rows.of(PROBES, group))
    few = columns(*(name for name in every if name.endswith(" labels")), digits=2)
    found = pivot(rows, PROBES, (*few, Column("AUC", title="all"), Column("train", 0)))
    found[0].insert(1, "zero-shot AUC")
    for line in found[1:]:
        line.insert(1, number(rows.value(ZERO_SHOT, line[0], "AUC")))
    return _dashed(found)


SHOWN: Mapping[str, Callable[[Rows], Cells]] = {
    "zero-shot classification": partial(pivot, part=ZERO_SHOT),
    "finding heads": partial(pivot, part=HEADS),
    "operating points": point_rows,
    "grounding": partial(pivot, part=GROUNDING),
    "masks": partial(pivot, part=MASKS),
    "phrases without a box": absence_rows,
    "left and right": partial(pivot, part=SIDES),
    "retrieval of boxes and sentences (ties count against the model)": box_retrieval_rows,
    "retrieval (ties count against the model; equal sentences are right)": retrieval_rows,
}
"""By title the tables that the terminal shows; one with a header alone is not shown."""


def told(one: Mapping[str, Any], digits: int) -> str:
    """``value``, ``low`` and ``high`` of a measure, as far as it has them."""
    low, high = one.get("low"), one.get("high")
    ends = None if low is None or high is None else (low, high)
    return with_interval(one.get("value"), ends, digits)


def primary_line(result: Evaluation) -> str:
    name = result.primary["measure"]
    return f"Primary measure: {name} {told(result.primary, digits_of(name))}"


HEADLINE = {
    "AUC": (ZERO_SHOT, MEAN, 2),
    "ACC": (ZERO_SHOT, MEAN, 2),
    CNR: (GROUNDING, MEAN_OF_SENTENCES, 2),
    MIOU: (GROUNDING, MEAN_OF_SENTENCES, 2),
    "Recall": (BOX_RETRIEVAL, BOTH, 2),
    "MedR": (BOX_RETRIEVAL, BOTH, 0),
}
"""Six figures of all three tasks: where they stand, and their digits."""


def headline(rows: Rows) -> dict[str, str]:
    return {
        name: cell(rows.find(part, group, name), digits) or EMPTY
        for name, (part, group, digits) in HEADLINE.items()
    }
