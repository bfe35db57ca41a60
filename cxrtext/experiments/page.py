"""The page of an experiment, from the content of ``table.json``."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from cxrtext.evaluation.comparison import BETTER, WORSE
from cxrtext.experiments.table import Failures
from cxrtext.metrics.intervals import TRAININGS
from cxrtext.page import EMPTY, Block, Bullets, Section, Table, Text

Measures = Sequence[Mapping[str, Any]]
"""Columns of a table: the fields of :class:`~.definition.Measure`."""


def interval_text(cell: Mapping[str, Any], digits: int, sign: str = "") -> str:
    """A figure with its interval, if any: "0.812 [0.780, 0.843]"; ``sign`` "+" shows a plus."""
    text = f"{cell['value']:{sign}.{digits}f}"
    if cell["low"] is None:
        return text
    return f"{text} [{cell['low']:{sign}.{digits}f}, {cell['high']:{sign}.{digits}f}]"


def _cell(cell: Mapping[str, Any] | None, digits: int) -> str:
    if cell is None:
        return EMPTY
    deviation = "" if cell["deviation"] is None else f" ± {cell['deviation']:.{digits}f}"
    return interval_text(cell, digits) + deviation


def _figures(group: Mapping[str, Any], measures: Measures) -> Table:
    in_paper = {name for row in group["rows"] for name in row["paper"]}
    head = ["row"]
    for measure in measures:
        head.append(measure["name"] + (" (smaller is better)" if measure["smaller"] else ""))
        head += ["paper"] if measure["name"] in in_paper else []
    lines = [head]
    for row in group["rows"]:
        cells = []
        for measure in measures:
            cells.append(_cell(row["measures"].get(measure["name"]), measure["digits"]))
            if measure["name"] in in_paper:
                paper = row["paper"].get(measure["name"])
                cells.append(EMPTY if paper is None else f"{paper:g}")
        if row["failed"] and not row["measures"]:
            cells[0] = "failed"
        if any(cell != EMPTY for cell in cells):
            lines.append([row["title"], *cells])
    return Table(lines)


def _differences(group: Mapping[str, Any], measures: Measures) -> list[Block]:
    """Each row minus the baseline, with a verdict."""
    lines = [["row", *(measure["name"] for measure in measures)]]
    for row in group["rows"]:
        cells = [row["difference"].get(measure["name"]) for measure in measures]
        if any(cells):
            texts = [
                f"{interval_text(cell, measure['digits'], '+')} {cell['verdict']}"
                if cell
                else EMPTY
                for cell, measure in zip(cells, measures, strict=True)
            ]
            lines.append([row["title"], *texts])
    return [Text(f"Less '{group['baseline']}':"), Table(lines)] if len(lines) > 1 else []


def _runs(group: Mapping[str, Any]) -> Table:
    measures = group["measures"]
    lines = [["row", "seed", "steps", "images", "seconds", *(one["name"] for one in measures)]]
    for row in group["rows"]:
        for run in row["runs"]:
            took = [run["seed"], run["steps"], run["images"], round(run["seconds"])]
            values = [(run["measures"].get(one["name"]), one["digits"]) for one in measures]
            texts = [EMPTY if value is None else f"{value:.{digits}f}" for value, digits in values]
            lines.append([row["title"], *map(str, took), *texts])
    return Table(lines)


def _group(group: Mapping[str, Any]) -> Section:
    section = Section(group["title"])
    for title, some in groupby(group["measures"], key=lambda measure: str(measure["table"])):
        measures = list(some)
        section.blocks += [Text(title, "lead")] if title else []
        section.blocks += [_figures(group, measures), *_differences(group, measures)]
    return section


def _order(order: Mapping[str, Any], digits: Mapping[str, int]) -> list[Block]:
    if not order["pairs"]:
        return [Text("No two rows that the paper tells apart were measured.")]
    lines = [["expected better", "than", "by", "difference", "training", "as in the paper"]]
    words = {BETTER: "yes", WORSE: "no, reversed"}
    for one in order["claims"]:
        text = interval_text(one, digits[one["measure"]], "+")
        verdict = words.get(one["verdict"], one["verdict"])
        training = "included" if one["training"] else "not included"
        lines.append([one["better"], one["worse"], one["measure"], text, training, verdict])
    return [
        Text(
            f"Of {order['pairs']} pairs of rows that the paper tells apart, {order['agree']} have "
            f"the same order here, {order['agree_clearly']} of them with a difference whose "
            f"interval leaves out 0; {order['contrary']} have the opposite order, "
            f"{order['contrary_clearly']} of them with such a difference.",
            "lead",
        ),
        Table(lines),
    ]


def failed_lines(failed: Failures) -> list[str]:
    return [
        name + ("" if one["seed"] is None else f", seed {one['seed']}") + f": {one['line']}"
        for name, lines in failed.items()
        for one in lines
    ]


def head_of(table: Mapping[str, Any]) -> list[Block]:
    """What was measured on what, and what intervals do not say."""
    compared = sum(len(row["difference"]) for group in table["groups"] for row in group["rows"])
    training = (
        f"With {TRAININGS} seeds or more they include the randomness of training (Student's t over "
        "seeds), but not that of a start that rows share; with fewer they do not, and a row is "
        "better or worse only if every seed agrees."
    )
    if (starts := table["starts"]) > 1:
        training = (
            f"Seeds continue from {starts} common starts in turn; a start counts as one training, "
            "the mean of its seeds, and intervals include the randomness of all (Student's t over "
            "starts)."
        )
    return [
        Text(
            f"{table['source']}. Scale '{table['scale']}', on {table['given']}, {table['seeds']} "
            f"seed(s). {table['about']} {table['machine']}; {table['versions']}."
        ),
        Text(
            "Intervals are 95 %, from how far each patient or test image moves a figure; ± is the "
            f"deviation over seeds. {training} They are not corrected for the "
            f"number of comparisons: of the {compared} below, about {compared / 20:.1f} would "
            "leave out 0 by chance alone."
        ),
    ]


def sections(table: Mapping[str, Any]) -> list[Section]:
    groups = table["groups"]
    digits = {m["name"]: m["digits"] for group in groups for m in group["measures"]}
    failed = failed_lines({row["name"]: row["failed"] for group in groups for row in group["rows"]})
    question = Text(f"The question: {table['question']}")
    return [
        Section("Does the paper's order appear?", [question, *_order(table["order"], digits)]),
        *map(_group, groups),
        Section("What is different from the paper", [Bullets(table["different"])]),
        Section("Runs", [_runs(group) for group in groups]),
        *([Section("Failed", [Bullets(failed)])] if failed else []),
    ]
