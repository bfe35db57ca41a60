"""The sections of a report: what was measured in each part, and its rows as a table.

A table has a row for each group and a column for each measure; titles, notes and columns are in
``sections.yaml``.  Tables are lists of cells, the first row is the header.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.evaluation.classification.finding import FITTED, MEASURES, SCORED
from cxrtext.evaluation.classification.multiclass import SCORES
from cxrtext.evaluation.classification.subgroups import MINIMUM, UNKNOWN
from cxrtext.evaluation.comparison import SMALLER_IS_BETTER
from cxrtext.evaluation.grounding.phrases import AUC, CNR, MIOU, OTHERS
from cxrtext.evaluation.report.figures import benefit_figures, classification_figures
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import (
    ABSENCE,
    ALL_IMAGES,
    BOTH,
    BOX_RETRIEVAL,
    BY_CHANCE,
    CALIBRATION,
    CLASSES,
    GAP,
    GROUNDING,
    GROUPS,
    HEADS,
    MEAN,
    MEAN_OF_SENTENCES,
    OF_FINDING,
    OPERATING,
    RETRIEVAL,
    ZERO_SHOT,
    Row,
    Rows,
)
from cxrtext.files.yaml_text import read_own
from cxrtext.metrics.intervals import Area, Median, OnLogit, Share
from cxrtext.page import EMPTY, Block, Bullets, Section, Table, Text, with_interval

Cells = list[list[str]]
LIMIT = 99.99
"""A temperature this high means the limit of its fit, 100."""
WRITTEN: dict[str, Any] = read_own(Path(__file__).with_name("sections.yaml"))


def definitions() -> dict[str, str]:
    """What each measure is, by its title."""
    named = {"area": Area.METHOD, "share": Share.METHOD, "logit": OnLogit.METHOD}
    named["median"] = Median.METHOD
    own = {each.title or each.name: each.definition for each in MEASURES if each.definition}
    return own | {name: text.format(**named) for name, text in WRITTEN["definitions"].items()}


def cell(row: Row | None, digits: int = 3) -> str:
    """A figure with its interval: a dash if it could not be measured, nothing without a row."""
    if row is not None and row.measure == "T" and row.value is not None and row.value >= LIMIT:
        return f"≥ {LIMIT:.0f}"  # the fit has no limit: the scores rank, but have no zero
    return "" if row is None else with_interval(row.value, row.ends, digits)


def told(figure: Mapping[str, Any], digits: int) -> str:
    """The ``value`` of a figure, with ``low`` and ``high`` if it has them."""
    low, high = figure.get("low"), figure.get("high")
    ends = None if low is None or high is None else (low, high)
    return with_interval(figure.get("value"), ends, digits)


Columns = Mapping[str, int]
"""Measures as columns, each with its digits after the point."""
COUNTS = dict.fromkeys(("with", "without", "left out"), 0)
SHARES = dict.fromkeys(("sensitivity", "specificity", "PPV", "NPV", "LR+", "LR−", "F1"), 2)


def pivot(
    rows: Rows,
    part: str,
    columns: Columns,
    *,
    first: str = "finding",
    groups: Sequence[str] | None = None,
) -> Cells:
    """A row for each group of a part, a column for each measure; ``first`` heads the groups."""
    cells = [[first, *columns]]
    for group in rows.groups(part) if groups is None else groups:
        cells.append([group, *(cell(rows.find(part, group, m), n) for m, n in columns.items())])
    return cells


def digits_of(name: str) -> int:
    """How many digits of a measure are printed after the point."""
    if name in ("queries", "candidates"):
        return 0
    return 1 if name.removesuffix(BY_CHANCE).endswith(SMALLER_IS_BETTER) else 3


def ranked(rows: Rows, part: str) -> Cells:
    """A row for each direction; for boxes strict and with equal sentences right."""
    directions = [group for group in rows.groups(part) if not group.startswith(BOTH)]
    names = dict.fromkeys(name for group in directions for name in rows.of(part, group))
    shown = {name: digits_of(name) for name in names}
    cells = pivot(rows, part, shown, first="direction", groups=directions)
    return [[text or EMPTY for text in line] for line in cells]


def points(rows: Rows, columns: Columns = SHARES) -> Cells:
    """A row for each finding and way of choosing its threshold."""
    chosen = rows.below(OPERATING)
    tables = [pivot(rows, f"{OPERATING}, {how}", columns)[1:] for how in chosen]
    table = [["finding", "threshold by", *columns]]
    for lines in zip(*tables, strict=True):
        for how, (finding, *cells) in zip(chosen, lines, strict=True):
            table.append([finding, how, *cells])
    return table


def _band_order(name: str) -> tuple[bool, int, str]:
    """Sort age bands by age, other groups by name, unknown last."""
    numbers = "".join(c if c.isdigit() else " " for c in name).split()
    first = int(numbers[0]) if numbers else 0
    return name == UNKNOWN, first - (1 if name.startswith("under ") else 0), name


def slices(rows: Rows, column: str) -> Cells:
    """A row for each finding, a column for each group of the manifest's column and for the gap."""
    part = f"{GROUPS}, {column}"
    groups = sorted((name for name in rows.groups(part) if name != GAP), key=_band_order)
    table = [["finding", *groups, GAP]]
    for measure in rows.of(part, GAP):
        finding = measure.removeprefix(OF_FINDING)
        cells = []
        for name in groups:
            sides = ("with", "without")
            counts = {side: rows.count(part, name, f"{side} {finding}") for side in sides}
            few = [f"{count} {side}" for side, count in counts.items() if count < MINIMUM]
            few_text = f"too few ({', '.join(few)})"
            cells.append(few_text if few else cell(rows.find(part, name, measure), 2))
        table.append([finding, *cells, cell(rows.find(part, GAP, measure), 2)])
    return table


TABLES: dict[str, Callable[[Rows], Cells]] = {
    ZERO_SHOT: lambda rows: pivot(
        rows, ZERO_SHOT, {**{one.name: one.digits for one in SCORED}, **COUNTS}
    ),
    HEADS: lambda rows: pivot(
        rows, HEADS, {**{one.name: one.digits for one in SCORED if not one.sides}, **COUNTS}
    ),
    OPERATING: points,
    CLASSES: lambda rows: pivot(
        rows, CLASSES, dict.fromkeys(rows.of(CLASSES, SCORES[0]), 3), first="score", groups=SCORES
    ),
    ABSENCE: lambda rows: pivot(
        rows, ABSENCE, {AUC: 3, "with a box": 0, "without": 0},
        groups=[n for n in rows.groups(ABSENCE) if rows.value(ABSENCE, n, AUC) is not None],
    ),
    BOX_RETRIEVAL: lambda rows: ranked(rows, BOX_RETRIEVAL),
    RETRIEVAL: lambda rows: ranked(rows, RETRIEVAL),
    GROUPS: lambda rows: slices(rows, rows.below(GROUPS)[0]),
}  # fmt: skip
"""Tables by part, if they need more than the columns in ``sections.yaml``."""


def _calibrated(result: Evaluation, note: str) -> list[Block]:
    rows = result.rows
    fitted = [
        name
        for name in rows.groups(ZERO_SHOT)
        if rows.value(ZERO_SHOT, name, "threshold") is not None
    ]
    figures: list[Block] = [*classification_figures(result)]
    if not fitted:
        return figures
    table = pivot(rows, ZERO_SHOT, {one.name: one.digits for one in FITTED}, groups=fitted)
    return [Text(note), Table(table), *figures]


def _counted(result: Evaluation, note: str) -> list[Block]:
    rows = result.rows
    counts = {"threshold": 2, "TP": 0, "FP": 0, "FN": 0, "TN": 0}
    return [
        Table(points(rows, counts), "Counts"),
        Text(note),
        Table(pivot(rows, CALIBRATION, {"slope": 2, "intercept": 2}), "Calibration"),
        *benefit_figures(rows),
    ]


def _other_columns(result: Evaluation, _: str) -> list[Block]:
    columns = result.rows.below(GROUPS)[1:]
    return [Table(slices(result.rows, column), f"By {column}") for column in columns]


MORE: dict[str, Callable[[Evaluation, str], list[Block]]] = {
    ZERO_SHOT: _calibrated, OPERATING: _counted, GROUPS: _other_columns,
}  # fmt: skip
"""What follows the table of a part."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section of ``sections.yaml``, which explains the fields."""

    title: str
    part: str
    note: str
    terminal: str = ""
    strong: bool = False
    columns: Columns = field(default_factory=dict)
    then: str = ""

    def table(self, rows: Rows) -> Cells:
        own = TABLES.get(self.part)
        return own(rows) if own else pivot(rows, self.part, self.columns)


SECTIONS = tuple(Part(**one) for one in WRITTEN["sections"])
"""In the order of the report."""


def facts_of(result: Evaluation) -> dict[str, object]:
    """What the notes of sections say about this evaluation."""
    settings, rows = result.settings, result.rows
    asked = result.predictions.about.get("prompts", True) or any(
        rows.value(ZERO_SHOT, name, "AUC, positive prompt") for name in result.findings
    )
    return {
        "how": "The label is the prompt with the higher image-sentence score; AUC and AP are those "
        "of the score difference. Several prompts of a side are averaged as embeddings."
        if asked
        else "The model has one score of a finding and no prompts; above 0 means present.",
        "uncertain": {"positive": "counted as present", "negative": "counted as absent"}.get(
            str(settings.get("uncertain")), "too"
        ),
        "better": ", ".join(result.by_head) or "none",
        "classes": rows.count(CLASSES, ALL_IMAGES, "images"),
        "apart_classes": rows.count(CLASSES, ALL_IMAGES, "left out"),
        "pairs": rows.count(BOX_RETRIEVAL, BOTH, "pairs"),
        "others": OTHERS,
        "minimum": MINIMUM,
    }


def sections_of(result: Evaluation) -> list[Section]:
    sections = [Section("Benchmark", _benchmark(result))] if result.recipe else []
    measured = {row.part.partition(", ")[0] for row in result.rows}
    facts = facts_of(result)
    for one in SECTIONS:
        if one.part in measured:
            cells = one.table(result.rows)
            strong = frozenset({len(cells) - 1}) if one.strong else frozenset[int]()
            more = MORE[one.part](result, one.then) if one.part in MORE else []
            note = Text(one.note.format(**facts))
            sections.append(Section(one.title, [note, Table(cells, strong=strong), *more]))
    return sections


def shown(rows: Rows) -> dict[str, Cells]:
    """The tables for the terminal by title, if they have a row."""
    tables = {one.terminal: one.table(rows) for one in SECTIONS if one.terminal}
    return {title: cells for title, cells in tables.items() if len(cells) > 1}


def _benchmark(result: Evaluation) -> list[Block]:
    """What was measured with which recipe, and what that rests on."""
    note = result.recipe
    listed, primary = note["list"], note["primary"]
    value = "not measured" if primary["value"] is None else str(told(primary, 3))
    official = listed["official"]
    if official is None:
        compared = "none of the official lists"
    else:
        how = "equal by digest" if official["sha256"] else "by count alone"
        compared = f"{official['title']}, {how} ({official['source']})"
    form = note["preprocessing"] or {}
    prepared = ", ".join(f"{name} {form[name]}" for name in ("fit", "resize", "crop") if form)
    rows = [
        ["", ""],
        ["recipe", f"{note['recipe']}, version {note['version']}: {note['title']}"],
        ["digest of the recipe", note["recipe_sha256"]],
        [f"primary measure: {primary['measure']}", value],
        ["images measured", f"{note['images']:,} of {listed['measured']:,}"],
        [f"list ({listed['file']})", f"{listed['images']:,} images, SHA-256 {listed['sha256']}"],
        ["compared with", compared],
        ["prompts", note["prompts_source"] or "the phrases of the boxes"],
        ["preprocessing", f"the checkpoint's own: {prepared}"],
    ]
    blocks: list[Block] = [Table(rows, words=True)]
    for title, name in (("rests on", "facts"), ("could not verify", "not_had")):
        if note[name]:
            blocks += [Text(f"What the recipe {title}:"), Bullets(note[name])]
    return blocks


def primary_line(result: Evaluation) -> str:
    name = result.primary["measure"]
    return f"Primary measure: {name} {told(result.primary, digits_of(name))}"


HEADLINE = {
    "AUC": ("zero-shot AUC", ZERO_SHOT, MEAN, 2),
    "ACC": ("zero-shot ACC", ZERO_SHOT, MEAN, 2),
    CNR: ("grounding CNR", GROUNDING, MEAN_OF_SENTENCES, 2),
    MIOU: ("grounding mIoU", GROUNDING, MEAN_OF_SENTENCES, 2),
    "Recall": ("box retrieval Recall", BOX_RETRIEVAL, BOTH, 2),
    "MedR": ("box retrieval MedR", BOX_RETRIEVAL, BOTH, 0),
}
"""Six figures from all three tasks: their titles, places in the rows, and digits."""


def headline(rows: Rows) -> dict[str, str]:
    """The six figures by title, a dash for one that was not measured."""
    return {
        title: cell(rows.find(part, group, name), places) or EMPTY
        for name, (title, part, group, places) in HEADLINE.items()
    }
