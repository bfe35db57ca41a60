"""Table 1 as a page a person reads, from what stands in ``table.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

from cxrtext.experiments.questions import difference_text, figure
from cxrtext.experiments.rows import BASELINE, MEASURES

EMPTY = "–"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, the first as its header."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


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


def main_rows(table: Mapping[str, Any]) -> list[list[str]]:
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


def difference_rows(table: Mapping[str, Any]) -> list[list[str]]:
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


def run_rows(table: Mapping[str, Any]) -> list[list[str]]:
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


def _failures(rows: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"- {row['title']}"
        + ("" if f["seed"] is None else f", seed {f['seed']}")
        + f": {f['line']}"
        for row in rows
        for f in row["failed"]
    )


def _order(order: Mapping[str, Any] | None) -> str:
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


def _how(table: Mapping[str, Any]) -> str:
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
    if sample["left_out"]:
        parts.append("Left out:\n\n" + "\n".join(f"- {line}" for line in sample["left_out"]))
    return "\n\n".join(parts)


def markdown_page(table: Mapping[str, Any]) -> str:
    """The whole of ``table.md``.

    Args:
        table: What ``table.json`` holds.
    """
    failures = _failures(table["rows"])
    parts = [
        "# Table 1: correcting for false negatives",
        _how(table),
        markdown_table(main_rows(table)),
        "The paper's figures are of models trained on MIMIC-CXR: their order is to be compared, "
        "not their height.",
        "## The three questions",
        "\n".join(
            f"{number}. {one['question']} **{one['answer']}**\n"
            + "\n".join(f"   - {line}" for line in one["lines"])
            for number, one in enumerate(table["questions"], 1)
        ),
        "## The paper's order",
        _order(table["order"]),
        "## Difference from LSE+NL",
        markdown_table(difference_rows(table)),
        "## AUC by finding",
        markdown_table(finding_rows(table)),
        "## Runs",
        markdown_table(run_rows(table)),
    ]
    if failures:
        parts += ["## Failed", failures]
    parts.append("Research use only; not a medical device.")
    return "\n\n".join(parts) + "\n"
