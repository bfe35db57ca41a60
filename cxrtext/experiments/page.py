"""The pages of experiments, from what stands in ``table.json``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cxrtext.evaluation.bootstrap import BETTER, WORSE
from cxrtext.experiments.papers.table1 import BASELINE, MEASURES
from cxrtext.experiments.questions import difference_text, figure
from cxrtext.page import EMPTY, Block, Bullets, Figure, Section, Table, Text


def with_interval(measure: str, cell: Mapping[str, Any] | None) -> str:
    """A figure as "0.812 [0.780, 0.843]", its interval where there is one."""
    if cell is None:
        return EMPTY
    text = figure(measure, cell["value"])
    if cell["low"] is None:
        return text
    return f"{text} [{figure(measure, cell['low'])}, {figure(measure, cell['high'])}]"


def _paper(measure: str, paper: Mapping[str, float], sign: str = "") -> str:
    digits = 0 if measure == "MedR" else 2
    return f"{paper[measure]:{sign}.{digits}f}" if measure in paper else EMPTY


def table1_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Ours beside the paper's, a row a method."""
    lines = [["method", *(title for measure in MEASURES for title in (measure, "paper"))]]
    for row in table["rows"]:
        cells = []
        for measure in MEASURES:
            cells += [
                with_interval(measure, row["measures"].get(measure)),
                _paper(measure, row["paper"]),
            ]
        if row["failed"] and not row["measures"]:
            cells[0] = "failed"
        lines.append([row["title"], *cells])
    return lines


def table1_differences(table: Mapping[str, Any]) -> list[list[str]]:
    """Each row less LSE+NL with a verdict and, where the paper has it, the paper's below."""
    lines = [["method", *MEASURES]]
    for row in table["rows"]:
        if row["name"] == BASELINE:
            continue
        cells = []
        for measure in MEASURES:
            found = row["difference"].get(measure)
            cells.append(
                EMPTY if found is None else f"{difference_text(measure, found)} {found['verdict']}"
            )
        lines.append([row["title"], *cells])
        if row["paper_difference"]:
            paper = [_paper(measure, row["paper_difference"], "+") for measure in MEASURES]
            lines.append([f"{row['title']}, paper", *paper])
    return lines


def finding_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """AUC by finding, ours and, where the paper has it, the paper's below."""
    findings = list(table["sample"]["findings"])
    lines = [["method", *findings]]
    for row in table["rows"]:
        if row["auc_by_finding"]:
            cells = [with_interval("AUC", row["auc_by_finding"].get(f)) for f in findings]
            lines.append([row["title"], *cells])
        if row["paper_auc_by_finding"]:
            areas = row["paper_auc_by_finding"]
            cells = [f"{areas[f]:.3f}" if f in areas else EMPTY for f in findings]
            lines.append([f"{row['title']}, paper", *cells])
    return lines


def table1_runs(table: Mapping[str, Any]) -> list[list[str]]:
    """Every run: what it took, and what it came to."""
    lines = [["method", "seed", "steps", "seconds", "threads", *MEASURES]]
    for row in table["rows"]:
        for run in row["runs"]:
            own = run["measures"]
            cells = [str(run["seed"]), str(run["steps"])]
            cells += [f"{run['seconds']:.0f}", str(run["threads"])]
            cells += [figure(m, own[m]) if m in own else EMPTY for m in MEASURES]
            lines.append([row["title"], *cells])
        for failure in row["failed"]:
            seed = EMPTY if failure["seed"] is None else str(failure["seed"])
            lines.append([row["title"], seed, "failed", *[EMPTY] * (2 + len(MEASURES))])
    return lines


def _table1_order(order: Mapping[str, Any] | None) -> str:
    """Which of the paper's orderings appear, in words."""
    if order is None:
        return "No two rows that the paper tells apart were measured."
    tau = f"Kendall's tau {order['tau']:.2f}"
    claim = ""
    if order["low"] is not None:
        tau += f" [{order['low']:.2f}, {order['high']:.2f}]"
        claim = " Whether the paper's order as a whole appears is not told: the interval holds 0."
        if order["low"] > 0:
            claim = " More pairs stand in the paper's order than against it."
        elif order["high"] < 0:
            claim = " More pairs stand against the paper's order than in it."
    return (
        f"Of {order['pairs']} pairs of rows that the paper tells apart by {order['measure']}, "
        f"{order['agree']} stand in the same order here ({tau}), {order['agree told apart']} of "
        "them with a difference whose interval leaves out 0; "
        f"{order['contrary']} stand the other way round, {order['contrary told apart']} of them "
        f"with such a difference.{claim}"
    )


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
        f"Every row has the same budget: {budget['steps']} steps of {budget['batch']} images "
        f"and {budget['sentences']} sentences each, learning rate {budget['lr']:g}, "
        f"{table['seeds']} seed(s). {table['machine']}; {table['versions']}.",
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


def _failed(rows: Sequence[Mapping[str, Any]], title: str) -> list[Section]:
    """A section for what failed, if anything did."""
    lines = [
        row[title] + ("" if one["seed"] is None else f", seed {one['seed']}") + f": {one['line']}"
        for row in rows
        for one in row["failed"]
    ]
    return [Section("Failed", [Bullets(lines)])] if lines else []


def table1_sections(table: Mapping[str, Any]) -> list[Section]:
    """The sections of table 1."""
    questions: list[Block] = []
    for number, one in enumerate(table["questions"], 1):
        questions += [Text(f"{number}. {one['question']}"), Text(one["answer"], "lead")]
        questions += [Bullets(one["lines"])] if one["lines"] else []
    note = (
        "The paper's figures are of models trained on MIMIC-CXR: their order is to be compared, "
        "not their height."
    )
    return [
        Section("Ours beside the paper's", [Table(table1_rows(table)), Text(note)]),
        Section("The three questions", questions),
        Section("The paper's order", [Text(_table1_order(table["order"]))]),
        Section("Difference from LSE+NL", [Table(table1_differences(table))]),
        Section("AUC by finding", [Table(finding_rows(table))]),
        Section("Runs", [Table(table1_runs(table))]),
        *_failed(table["rows"], "title"),
    ]


def _figure(cell: Mapping[str, Any] | None, digits: int) -> str:
    if cell is None:
        return EMPTY
    text = f"{cell['value']:.{digits}f}"
    if cell["low"] is not None:
        text += f" [{cell['low']:.{digits}f}, {cell['high']:.{digits}f}]"
    if cell.get("deviation") is not None:
        text += f" ± {cell['deviation']:.{digits}f}"
    return text


def _has_paper(group: Mapping[str, Any], measure: str) -> bool:
    return any(measure in row["paper"] for row in group["rows"])


def views_rows(group: Mapping[str, Any]) -> list[list[str]]:
    """Ours, and where the paper has figures, the paper's and ours less the paper's."""
    head, lines = ["row"], []
    for measure in group["measures"]:
        head.append(f"{measure['name']}{' (smaller is better)' if measure['smaller'] else ''}")
        if _has_paper(group, measure["name"]):
            head += ["paper", "ours − paper"]
    for row in group["rows"]:
        cells = [row["title"]]
        for measure in group["measures"]:
            name, digits = measure["name"], measure["digits"]
            failed = "failed" if row["failed"] and not row["measures"] else None
            cells.append(failed or _figure(row["measures"].get(name), digits))
            if _has_paper(group, name):
                paper, beside = row["paper"].get(name), row["beside_paper"].get(name)
                cells.append(EMPTY if paper is None else f"{paper:.{digits}f}")
                cells.append(EMPTY if beside is None else f"{beside:+.{digits}f}")
        lines.append(cells)
    return [head, *lines]


def views_differences(group: Mapping[str, Any]) -> list[list[str]]:
    """Each row less the baseline with a verdict, and the paper's difference where it has one."""
    base = next((row for row in group["rows"] if row["name"] == group["baseline"]), None)
    lines = [["row", *(measure["name"] for measure in group["measures"])]]
    for row in group["rows"]:
        if not row["difference"]:
            continue
        cells = [row["title"]]
        for measure in group["measures"]:
            name, digits = measure["name"], measure["digits"]
            cells.append(_difference(row["difference"].get(name), digits))
            if base and name in row["paper"] and name in base["paper"]:
                cells[-1] += f"; paper {row['paper'][name] - base['paper'][name]:+.{digits}f}"
        lines.append(cells)
    return lines


def _difference(found: Mapping[str, Any] | None, digits: int) -> str:
    if found is None:
        return EMPTY
    text = f"{found['value']:+.{digits}f}"
    if found["low"] is not None:
        text += f" [{found['low']:+.{digits}f}, {found['high']:+.{digits}f}]"
    return f"{text} {found['verdict']}"


def views_runs(groups: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Every run: what it took, and what it came to by the main measure."""
    lines = [["row", "seed", "steps", "batch", "seconds", "threads", "main measure"]]
    for group in groups:
        main = group["measures"][0]
        for row in group["rows"]:
            for run in row["runs"]:
                value = run["measures"].get(main["name"])
                told = EMPTY if value is None else f"{main['name']} {value:.{main['digits']}f}"
                cells = [run["seed"], run["steps"], run["settings"]["batch"]]
                cells += [f"{run['seconds']:.0f}", run["threads"], told]
                lines.append([row["name"], *map(str, cells)])
            for failure in row["failed"]:
                lines.append([row["name"], str(failure["seed"]), "failed", *[EMPTY] * 4])
    return lines


def order_text(order: Mapping[str, Any] | None) -> list[Text]:
    """Whether the paper's order appears, in words."""
    if order is None:
        return [Text("No two rows that the paper tells apart were measured.")]
    tau = f"Kendall's tau {order['tau']:.2f}"
    if order["low"] is not None:
        tau += f" [{order['low']:.2f}, {order['high']:.2f}]"
    agree, contrary = order["agree told apart"], order["contrary told apart"]
    verdict = "At this scale it cannot be told whether the paper's order appears."
    if agree and not contrary:
        verdict = (
            "The paper's order appears in all pairs that can be told apart here."
            if agree == order["pairs"] or agree > order["pairs"] / 2
            else "The paper's order appears in part: where rows can be told apart, it is as the "
            "paper has it, but most pairs cannot."
        )
    elif contrary and not agree:
        verdict = "The paper's order does not appear: where rows can be told apart, it is reversed."
    elif agree and contrary:
        verdict = (
            f"The paper's order appears in {agree} of the {agree + contrary} pairs that can be "
            "told apart, and is reversed in the others."
        )
    found = (
        f"Of {order['pairs']} pairs of rows that the paper tells apart, "
        f"{order['agree']} stand in the same order here ({tau}), {agree} of them with a difference "
        f"whose interval leaves out 0; {order['contrary']} stand the other way round, {contrary} "
        "of them with such a difference."
    )
    return [Text(verdict, "lead"), Text(found)]


def _claims(order: Mapping[str, Any], digits: Mapping[str, int]) -> list[list[str]]:
    lines = [["expected better", "than", "by", "difference", "as in the paper"]]
    words = {BETTER: "yes", WORSE: "no, reversed"}
    for one in order["claims"]:
        found = {key: one[key] for key in ("value", "low", "high", "verdict")}
        text = _difference(found, digits[one["measure"]]).removesuffix(f" {one['verdict']}")
        lines.append(
            [
                one["better"],
                one["worse"],
                one["measure"],
                text,
                words.get(one["verdict"], one["verdict"]),
            ]
        )
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
