"""The page of an experiment, from what stands in ``table.json``."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from cxrtext.evaluation.comparison import BETTER, WORSE
from cxrtext.experiments.papers.table1 import LIVE
from cxrtext.experiments.processes import Failures
from cxrtext.experiments.table import interval_text
from cxrtext.metrics.intervals import TRAININGS
from cxrtext.page import EMPTY, Block, Bullets, Section, Table, Text

Measures = Sequence[Mapping[str, Any]]
"""Columns of a table, as :class:`~.experiment.Measure` has them."""


def _cell(cell: Mapping[str, Any] | None, digits: int) -> str:
    if cell is None:
        return EMPTY
    deviation = "" if cell["deviation"] is None else f" ± {cell['deviation']:.{digits}f}"
    return interval_text(cell, digits) + deviation


def _number(value: float | None, digits: int, sign: str = "") -> str:
    return EMPTY if value is None else f"{value:{sign}.{digits}f}"


def _paper_digits(measure: Mapping[str, Any]) -> int:
    digits = measure["paper_digits"]
    return int(measure["digits"] if digits is None else digits)


def figure_rows(group: Mapping[str, Any], measures: Measures) -> list[list[str]]:
    compared = {name for row in group["rows"] for name in row["paper"]}
    head = ["row"]
    for measure in measures:
        head.append(measure["name"] + (" (smaller is better)" if measure["smaller"] else ""))
        if measure["name"] in compared:
            head += ["paper", *(["ours − paper"] if group["beside_paper"] else [])]
    lines = [head]
    for row in group["rows"]:
        cells = []
        for measure in measures:
            name, digits = measure["name"], measure["digits"]
            ours, paper = row["measures"].get(name), row["paper"].get(name)
            cells.append(_cell(ours, digits))
            if name in compared:
                cells.append(_number(paper, _paper_digits(measure)))
                if group["beside_paper"]:
                    both = ours is not None and paper is not None
                    cells.append(_number(ours["value"] - paper if both else None, digits, "+"))
        if row["failed"] and not row["measures"]:
            cells[0] = "failed"
        if any(cell != EMPTY for cell in cells):
            lines.append([row["title"], *cells])
    return lines


def difference_rows(group: Mapping[str, Any], measures: Measures) -> list[list[str]]:
    """Each row less the baseline with a verdict, and the paper's difference where it has one."""
    base = {row["name"]: row["paper"] for row in group["rows"]}.get(group["baseline"], {})
    lines = [["row", *(measure["name"] for measure in measures)]]
    for row in group["rows"]:
        cells = []
        for measure in measures:
            name, found = measure["name"], row["difference"].get(measure["name"])
            cell = EMPTY
            if found is not None:
                cell = f"{interval_text(found, measure['digits'], '+')} {found['verdict']}"
            if name in row["paper"] and name in base:
                cell += f"; paper {row['paper'][name] - base[name]:+.{_paper_digits(measure)}f}"
            cells.append(cell)
        if any(measure["name"] in row["difference"] for measure in measures):
            lines.append([row["title"], *cells])
    return lines


def run_rows(group: Mapping[str, Any]) -> list[list[str]]:
    measures = group["measures"]
    lines = [["row", "seed", "steps", "images", "seconds", "threads"]]
    lines[0] += [measure["name"] for measure in measures]
    for row in group["rows"]:
        for run in row["runs"]:
            took = [run["seed"], run["steps"], run["images_seen"]]
            took += [f"{run['seconds']:.0f}", run["threads"]]
            came = (_number(run["measures"].get(one["name"]), one["digits"]) for one in measures)
            lines.append([row["title"], *map(str, took), *came])
        for failure in row["failed"]:
            seed = EMPTY if failure["seed"] is None else str(failure["seed"])
            lines.append([row["title"], seed, "failed", *[EMPTY] * (3 + len(measures))])
    return lines


def _group(group: Mapping[str, Any]) -> Section:
    section = Section(group["title"], [Text(group["about"])])
    for title, some in groupby(group["measures"], key=lambda measure: str(measure["table"])):
        measures = list(some)
        section.blocks += [Text(title, "lead")] if title else []
        section.blocks.append(Table(figure_rows(group, measures)))
        differences = difference_rows(group, measures)
        if len(differences) > 1:
            section.blocks += [Text(f"Less '{group['baseline']}':"), Table(differences)]
    return section


def order_text(order: Mapping[str, Any] | None) -> list[Text]:
    if order is None:
        return [Text("No two rows that the paper tells apart were measured.")]
    agree, contrary = order["agree_clearly"], order["contrary_clearly"]
    verdict = "At this scale it is not clear whether the paper's order appears."
    if agree and contrary:
        verdict = (
            f"The paper's order appears in {agree} of the {agree + contrary} pairs that can be "
            "distinguished, and is reversed in the others."
        )
    elif contrary:
        verdict = (
            "The paper's order does not appear: it is reversed where rows are distinguishable."
        )
    elif agree > order["pairs"] / 2:
        verdict = "The paper's order appears in all pairs that can be distinguished here."
    elif agree:
        verdict = (
            "The paper's order appears in part: where rows can be distinguished, it is as the "
            "paper has it, but most pairs cannot."
        )
    return [
        Text(verdict, "lead"),
        Text(
            f"Of {order['pairs']} pairs of rows that the paper tells apart, {order['agree']} stand "
            f"in the same order here (Kendall's tau {order['tau']:.2f}), "
            f"{agree} of them with a difference whose interval leaves out 0; "
            f"{order['contrary']} stand the other way round, "
            f"{contrary} of them with such a difference."
        ),
    ]


def _claims(order: Mapping[str, Any], digits: Mapping[str, int]) -> list[list[str]]:
    lines = [["expected better", "than", "by", "difference", "training", "as in the paper"]]
    words = {BETTER: "yes", WORSE: "no, reversed"}
    for one in order["claims"]:
        text = interval_text(one, digits[one["measure"]], "+")
        verdict = words.get(one["verdict"], one["verdict"])
        training = "included" if one["training"] else "not included"
        lines.append([one["better"], one["worse"], one["measure"], text, training, verdict])
    return lines


def failed_lines(failed: Failures) -> list[str]:
    return [
        name + ("" if one["seed"] is None else f", seed {one['seed']}") + f": {one['line']}"
        for name, found in failed.items()
        for one in found
    ]


def _reading(read: Sequence[Mapping[str, Any]]) -> list[Block]:
    blocks: list[Block] = []
    for column, some in groupby(read, key=lambda one: str(one["column"])):
        blocks.append(Text("Live:" if column == LIVE else "Encoders locked:", "lead"))
        lines = [f"{one['claim']}: {one['verdict']}. {one['because']}".rstrip() for one in some]
        blocks.append(Bullets(lines))
    return blocks if len(blocks) > 2 else blocks[1:]


def intervals_text(table: Mapping[str, Any], how: str) -> Text:
    """What intervals are, and what they do not say."""
    compared = sum(len(row["difference"]) for group in table["groups"] for row in group["rows"])
    several = "± is the deviation over seeds. " if table["seeds"] > 1 else ""
    training = (
        f"Of {TRAININGS} seeds or more they include the randomness of training (Student's t over "
        "seeds), though not that of the start where rows share one; of fewer they do not, and a "
        "row is better or worse only where every seed agrees. "
    )
    if (starts := table.get("starts", 1)) > 1:
        training = (
            f"Seeds go on from {starts} common starts in turn; a start counts as one training, the "
            "mean of its seeds, and intervals include the randomness of all (Student's t over "
            "starts). "
        )
    return Text(
        f"Intervals are 95 %, by how far each {how} moves a figure. {several}{training}They are "
        f"not corrected for the number of comparisons: of the {compared} below, about "
        f"{compared / 20:.1f} would leave out 0 by chance alone."
    )


def sections(table: Mapping[str, Any]) -> list[Section]:
    groups = table["groups"]
    digits = {m["name"]: m["digits"] for group in groups for m in group["measures"]}
    order = [Text(f"The question: {table['question']}"), *order_text(table["order"])]
    claims = [Table(_claims(table["order"], digits))] if table["order"] else []
    failed = failed_lines({row["name"]: row["failed"] for group in groups for row in group["rows"]})
    return [
        Section("Does the paper's order appear?", [*order, *claims]),
        *map(_group, groups),
        Section("What is different from the paper", [Bullets(table["different"])]),
        Section("Runs", [Table(run_rows(group)) for group in groups]),
        *([Section("Failed", [Bullets(failed)])] if failed else []),
        *([Section("Reading", _reading(table["reading"]))] if table["reading"] else []),
    ]
