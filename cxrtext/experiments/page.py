"""The pages of experiments, from what stands in ``table.json``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cxrtext.evaluation.intervals.bootstrap import BETTER, WORSE
from cxrtext.experiments.comparison import interval_text
from cxrtext.experiments.experiment import Measure
from cxrtext.experiments.papers.table1 import (
    ALL_MEASURES,
    BASELINE,
    BEYOND,
    LIVE,
    LOCKED,
    MEASURES,
)
from cxrtext.page import EMPTY, Block, Bullets, Figure, Section, Table, Text


def _cell(cell: Mapping[str, Any] | None, digits: int) -> str:
    if cell is None:
        return EMPTY
    text = interval_text(cell, digits)
    deviation = cell.get("deviation")
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def _number(value: float | None, digits: int, sign: str = "") -> str:
    return EMPTY if value is None else f"{value:{sign}.{digits}f}"


def _difference(found: Mapping[str, Any] | None, digits: int) -> str:
    return EMPTY if found is None else f"{interval_text(found, digits, '+')} {found['verdict']}"


def _paper(measure: str, paper: Mapping[str, float], sign: str = "") -> str:
    """A figure of table 1 as the paper prints it."""
    return _number(paper.get(measure), 0 if measure == "MedR" else 2, sign)


def _figures(row: Mapping[str, Any], cells: list[str]) -> list[str]:
    """A row of the main table: "failed" stands in place of its first figure."""
    return [
        row["title"],
        "failed" if row["failed"] and not row["measures"] else cells[0],
        *cells[1:],
    ]


def table1_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Ours beside the paper's, a row a method."""
    lines = [["method", *(title for measure in MEASURES for title in (measure, "paper"))]]
    for row in table["rows"]:
        cells = []
        for name, measure in MEASURES.items():
            cells += [_cell(row["measures"].get(name), measure.digits), _paper(name, row["paper"])]
        lines.append(_figures(row, cells))
    return lines


def beyond_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """What the paper does not measure, a row a method."""
    lines = [["method", *BEYOND]]
    for row in table["rows"]:
        cells = [_cell(row["measures"].get(name), one.digits) for name, one in BEYOND.items()]
        if any(cell != EMPTY for cell in cells):
            lines.append([row["title"], *cells])
    return lines


def table1_differences(
    table: Mapping[str, Any], measures: Mapping[str, Measure] = MEASURES
) -> list[list[str]]:
    """Each row less LSE+NL with a verdict and, where the paper has it, the paper's below.

    A row that is trained live is compared with LSE+NL trained live.
    """
    lines = [["method", *measures]]
    for row in table["rows"]:
        if row["name"] in (BASELINE, f"{LIVE}-{BASELINE}"):
            continue
        found = row["difference"]
        cells = [_difference(found.get(name), one.digits) for name, one in measures.items()]
        if measures is not MEASURES and not any(name in found for name in measures):
            continue
        lines.append([row["title"], *cells])
        if row["paper_difference"] and measures is MEASURES:
            paper = [_paper(measure, row["paper_difference"], "+") for measure in MEASURES]
            lines.append([f"{row['title']}, paper", *paper])
    return lines


def finding_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """AUC by finding, ours and, where the paper has it, the paper's below."""
    findings = list(table["sample"]["findings"])
    lines = [["method", *findings]]
    for row in table["rows"]:
        ours, paper = row["auc_by_finding"], row["paper_auc_by_finding"]
        if ours:
            lines.append([row["title"], *(_cell(ours.get(one), 3) for one in findings)])
        if paper:
            cells = (_number(paper.get(one), 3) for one in findings)
            lines.append([f"{row['title']}, paper", *cells])
    return lines


def table1_runs(table: Mapping[str, Any]) -> list[list[str]]:
    """Every run: what it took, and what it came to."""
    known = [name for name in ALL_MEASURES if any(name in row["measures"] for row in table["rows"])]
    measures = {name: one for name, one in ALL_MEASURES.items() if name in {*MEASURES, *known}}
    lines = [["method", "seed", "steps", "seconds", "threads", *measures]]
    for row in table["rows"]:
        for run in row["runs"]:
            took = [run["seed"], run["steps"], f"{run['seconds']:.0f}", run["threads"]]
            own = run["measures"]
            cells = (_number(own.get(name), one.digits) for name, one in measures.items())
            lines.append([row["title"], *map(str, took), *cells])
        for failure in row["failed"]:
            seed = EMPTY if failure["seed"] is None else str(failure["seed"])
            lines.append([row["title"], seed, "failed", *[EMPTY] * (2 + len(measures))])
    return lines


TRUTH_NOTE = (
    "AUC with several prompts a side; the share of sentences of reports whose image is among the "
    "first ten; and, known of drawn images alone, truthAUC: for each distinct sentence, AUC of its "
    "scores against the truth of what it says, mean over sentences; ρ is the probability that a "
    "sentence is true of a random study."
)
NO_ORDER = "No two rows that the paper tells apart were measured."


def _order(order: Mapping[str, Any], by: str = "") -> str:
    tau = interval_text({**order, "value": order["tau"]}, 2)
    return (
        f"Of {order['pairs']} pairs of rows that the paper tells apart{by}, {order['agree']} stand "
        f"in the same order here (Kendall's tau {tau}), {order['agree_clearly']} of them with a "
        f"difference whose interval leaves out 0; {order['contrary']} stand the other way round, "
        f"{order['contrary_clearly']} of them with such a difference."
    )


def _table1_order(order: Mapping[str, Any] | None) -> str:
    """Which of the paper's orderings appear, in words."""
    if order is None:
        return NO_ORDER
    claim = ""
    if order["low"] is not None:
        claim = " Whether the paper's order as a whole appears is not clear: the interval holds 0."
        if order["low"] > 0:
            claim = " More pairs stand in the paper's order than against it."
        elif order["high"] < 0:
            claim = " More pairs stand against the paper's order than in it."
    return _order(order, f" by {order['measure']}") + claim


COLUMNS = {
    "": "every row has the same budget",
    LOCKED: "with both encoders locked (heads, query and γ learn)",
    LIVE: "live (everything learns)",
}
START = (
    "Rows go on from one common start, an InfoNCE run on an image encoder of the words of findings"
)


def _budgets(budgets: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        f"{COLUMNS[column]}: {one['steps']} steps of {one['batch']} images and {one['sentences']} "
        f"sentences each, learning rate {one['lr']:g}"
        for column, one in budgets.items()
    ]
    said = "; ".join(lines)
    return f"{START}: {said}" if budgets.keys() & {LOCKED, LIVE} else said[:1].upper() + said[1:]


def table1_head(table: Mapping[str, Any]) -> list[Block]:
    """How the table was made."""
    sample, budget = table["sample"], table["budget"]
    compared = sum(len(row["difference"]) for row in table["rows"])
    parts = [
        f"Scale '{table['scale']}', on {table['source']}. Measured on {sample['images']} images "
        f"of {sample['patients']} patients, split '{sample['split']}'. AUC and ACC: means over the "
        "CheX5 findings, with the prompts of the paper, one a side. CNR and mIoU: means over "
        f"{sample['sentences']} sentences with boxes. Recall (mean of R@10, R@50 and R@100) and "
        f"MedR (better when smaller): {sample['boxes']} boxes and their sentences, means of both "
        "directions.",
        f"{_budgets(budget)}, {table['seeds']} seed(s). {table['machine']}; {table['versions']}.",
        f"Intervals are 95 %, by {sample['resamples']} bootstrap resamples of patients, the same "
        "for all rows. They tell how far the figures depend on which patients were measured, not "
        "on the randomness of training: for that compare the seeds below. They are not corrected "
        f"for the number of comparisons: of the {compared} with LSE+NL, about {compared / 20:.1f} "
        "would leave out 0 by chance alone.",
    ]
    head: list[Block] = [Text(part) for part in parts]
    if sample["left_out"]:
        head += [Text("Left out:"), Bullets(sample["left_out"])]
    return head


def failed_lines(rows: Sequence[Mapping[str, Any]], title: str) -> list[str]:
    """A line for each row and seed that failed; rows are named by their ``title``."""
    return [
        row[title] + ("" if one["seed"] is None else f", seed {one['seed']}") + f": {one['line']}"
        for row in rows
        for one in row["failed"]
    ]


def _failed(rows: Sequence[Mapping[str, Any]], title: str) -> list[Section]:
    """A section for what failed, if anything did."""
    lines = failed_lines(rows, title)
    return [Section("Failed", [Bullets(lines)])] if lines else []


def table1_sections(table: Mapping[str, Any]) -> list[Section]:
    """The sections of table 1."""
    note = (
        "The paper's figures are of models trained on MIMIC-CXR: their order is to be compared, "
        "not their height."
    )
    beyond = beyond_rows(table)
    more: list[Block] = []
    if len(beyond) > 1:
        differences = table1_differences(table, BEYOND)
        more = [Text(TRUTH_NOTE), Table(beyond), Text("Less LSE+NL:"), Table(differences)]
    return [
        Section("Ours beside the paper's", [Table(table1_rows(table)), Text(note)]),
        *([Section("What the paper does not measure", more)] if more else []),
        Section("The paper's order", [Text(_table1_order(table["order"]))]),
        Section("Difference from LSE+NL", [Table(table1_differences(table))]),
        Section("AUC by finding", [Table(finding_rows(table))]),
        Section("Runs", [Table(table1_runs(table))]),
        *_failed(table["rows"], "title"),
        *([Section("Reading", _reading(table["reading"]))] if table["reading"] else []),
    ]


def _reading(read: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Which of the paper's claims hold on these data."""
    columns = dict.fromkeys(one["column"] for one in read)
    blocks: list[Block] = []
    for column in columns:
        if len(columns) > 1:
            blocks.append(Text("Live:" if column == LIVE else "Encoders locked:", "lead"))
        lines = [
            f"{one['claim']}: {one['verdict']}. {one['because']}".rstrip()
            for one in read
            if one["column"] == column
        ]
        blocks.append(Bullets(lines))
    return blocks


def views_rows(group: Mapping[str, Any]) -> list[list[str]]:
    """Ours, and where the paper has figures, the paper's and ours less the paper's."""
    rows, measures = group["rows"], group["measures"]
    compared = {name for row in rows for name in row["paper"]}
    head = ["row"]
    for measure in measures:
        head.append(measure["name"] + (" (smaller is better)" if measure["smaller"] else ""))
        head += ["paper", "ours − paper"] if measure["name"] in compared else []
    lines = [head]
    for row in rows:
        cells = []
        for measure in measures:
            name, digits = measure["name"], measure["digits"]
            cells.append(_cell(row["measures"].get(name), digits))
            if name in compared:
                cells.append(_number(row["paper"].get(name), digits))
                cells.append(_number(row["beside_paper"].get(name), digits, "+"))
        lines.append(_figures(row, cells))
    return lines


def views_differences(group: Mapping[str, Any]) -> list[list[str]]:
    """Each row less the baseline with a verdict, and the paper's difference where it has one."""
    papers = {row["name"]: row["paper"] for row in group["rows"]}
    base = papers.get(group["baseline"], {})
    lines = [["row", *(measure["name"] for measure in group["measures"])]]
    for row in group["rows"]:
        cells = []
        for measure in group["measures"]:
            name, digits = measure["name"], measure["digits"]
            cells.append(_difference(row["difference"].get(name), digits))
            if name in row["paper"] and name in base:
                cells[-1] += f"; paper {row['paper'][name] - base[name]:+.{digits}f}"
        lines += [[row["title"], *cells]] if row["difference"] else []
    return lines


def views_runs(groups: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Every run: what it took, and what it came to by the main measure."""
    lines = [["row", "seed", "steps", "batch", "seconds", "threads", "main measure"]]
    for group in groups:
        main = group["measures"][0]
        for row in group["rows"]:
            for run in row["runs"]:
                value = run["measures"].get(main["name"])
                came = EMPTY if value is None else f"{main['name']} {value:.{main['digits']}f}"
                took = [run["seed"], run["steps"], run["settings"]["batch"]]
                took += [f"{run['seconds']:.0f}", run["threads"]]
                lines.append([row["name"], *map(str, took), came])
            for failure in row["failed"]:
                lines.append([row["name"], str(failure["seed"]), "failed", *[EMPTY] * 4])
    return lines


def order_text(order: Mapping[str, Any] | None) -> list[Text]:
    """Whether the paper's order appears, in words."""
    if order is None:
        return [Text(NO_ORDER)]
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
    return [Text(verdict, "lead"), Text(_order(order))]


def _claims(order: Mapping[str, Any], digits: Mapping[str, int]) -> list[list[str]]:
    lines = [["expected better", "than", "by", "difference", "as in the paper"]]
    words = {BETTER: "yes", WORSE: "no, reversed"}
    for one in order["claims"]:
        text = interval_text(one, digits[one["measure"]], "+")
        verdict = words.get(one["verdict"], one["verdict"])
        lines.append([one["better"], one["worse"], one["measure"], text, verdict])
    return lines


def _budget(group: Mapping[str, Any]) -> str:
    budget = group["budget"]
    if not budget:
        return "No row of this table was finished."
    return (
        f"{group['images']} training images, measured on {group['measured']}. Every row: "
        f"{budget['steps']} steps of {budget['batch']} images unless its title says otherwise, "
        f"{budget['encoder']} of width {budget['width']}, {budget['optimizer']}, learning rate "
        f"{budget['lr']:g}, γ² = {budget['gamma_sq']:g}, {budget['precision']}."
    )


def views_head(table: Mapping[str, Any]) -> list[Block]:
    """How the tables were made."""
    compared = sum(len(row["difference"]) for group in table["groups"] for row in group["rows"])
    several = "± is the deviation over seeds. " if table["seeds"] > 1 else ""
    parts = (
        f"{table['source']}. Scale '{table['scale']}', on {table['given']}, {table['seeds']} "
        f"seed(s). {table['machine']}; {table['versions']}.",
        f"Intervals are 95 %, by bootstrap of the test images (of drawn radiographs: patients), "
        f"the same resamples for all rows. {several}They tell how far figures depend on which "
        "images were measured, not on the randomness of training; take several seeds before "
        "believing a small difference. They are not corrected for the number of comparisons: of "
        f"the {compared} below, about {compared / 20:.1f} would leave out 0 by chance alone.",
    )
    return [Text(part) for part in parts]


def _group(group: Mapping[str, Any]) -> Section:
    section = Section(group["title"], [Text(_budget(group)), Table(views_rows(group))])
    differences = views_differences(group)
    if len(differences) > 1:
        section.blocks += [Text(f"Less '{group['baseline']}':"), Table(differences)]
    return section


def views_sections(table: Mapping[str, Any], out: Path) -> list[Section]:
    """The sections of an experiment on small images; its figures lie in a folder."""
    digits = {m["name"]: m["digits"] for group in table["groups"] for m in group["measures"]}
    order = [Text(f"The question: {table['question']}"), *order_text(table["order"])]
    claims = [Table(_claims(table["order"], digits))] if table["order"] else []
    figures: list[Block] = [
        Figure([((out / name).read_bytes(), name)]) for name in table["figures"]
    ]
    if table["left_out"]:
        figures += [Text("Left out:"), Bullets(table["left_out"])]
    rows = [row for group in table["groups"] for row in group["rows"]]
    return [
        Section("Does the paper's order appear?", [*order, *claims]),
        *map(_group, table["groups"]),
        *([Section("Figures", figures)] if figures else []),
        Section("What is different from the paper", [Bullets(table["different"])]),
        Section("Runs", [Table(views_runs(table["groups"]))]),
        *_failed(rows, "name"),
    ]
