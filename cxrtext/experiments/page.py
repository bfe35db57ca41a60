"""Table 1 as a page a person reads, from what stands in ``table.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

from cxrtext.evaluation.tables import markdown_table
from cxrtext.experiments.questions import difference_text, verdict
from cxrtext.experiments.rows import BASELINE, MEASURES

EMPTY = "–"


def _figure(measure: str, value: float | None) -> str:
    if value is None:
        return EMPTY
    return f"{value:.1f}" if measure == "MedR" else f"{value:.3f}"


def with_interval(measure: str, cell: Mapping[str, Any] | None) -> str:
    """A figure as "0.812 [0.780, 0.843]", its interval where there is one."""
    if cell is None:
        return EMPTY
    text = _figure(measure, cell["value"])
    if cell.get("low") is None or cell.get("high") is None:
        return text
    return f"{text} [{_figure(measure, cell['low'])}, {_figure(measure, cell['high'])}]"


def _paper(measure: str, paper: Mapping[str, float]) -> str:
    if measure not in paper:
        return EMPTY
    return f"{paper[measure]:.0f}" if measure == "MedR" else f"{paper[measure]:.2f}"


def main_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Ours beside the paper's, a row a method; measures that no row has are left out."""
    rows = table["rows"]
    shown = [m for m in MEASURES if m == "AUC" or any(m in row["measures"] for row in rows)]
    header = ["method"]
    for measure in shown:
        header += [measure, "paper"]
    lines = [header]
    for row in rows:
        if not row["measures"]:
            cells = ["failed" if row["failed"] else EMPTY]
            cells += [_paper(shown[0], row["paper"])]
            for measure in shown[1:]:
                cells += [EMPTY, _paper(measure, row["paper"])]
        else:
            cells = []
            for measure in shown:
                cells.append(with_interval(measure, row["measures"].get(measure)))
                cells.append(_paper(measure, row["paper"]))
        lines.append([row["title"], *cells])
    return lines


def difference_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Each row less LSE+NL, on the same resamples."""
    lines = [["method", "AUC", "p", "", "paper", "ACC", "p", "", "paper"]]
    for row in table["rows"]:
        if row["name"] == BASELINE:
            continue
        cells = [row["title"]]
        for measure in ("AUC", "ACC"):
            found = (row["difference"] or {}).get(measure)
            paper = row["paper_difference"].get(measure)
            cells += [
                EMPTY if found is None else difference_text(found),
                EMPTY if found is None or found["p"] is None else f"{found['p']:.3f}",
                verdict(found),
                EMPTY if paper is None else f"{paper:+.2f}",
            ]
        lines.append(cells)
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
    lines = [["method", "seed", "steps", "seconds", "threads", "AUC", "ACC"]]
    for row in table["rows"]:
        for run in row["runs"]:
            numbers = [str(run[key]) for key in ("seed", "steps")]
            numbers += [f"{run['seconds']:.0f}", str(run["threads"])]
            lines.append(
                [row["title"], *numbers, _figure("AUC", run["AUC"]), _figure("ACC", run["ACC"])]
            )
        for failure in row["failed"]:
            seed = EMPTY if failure["seed"] is None else str(failure["seed"])
            lines.append([row["title"], seed, "failed", EMPTY, EMPTY, EMPTY, EMPTY])
    return lines


def _failures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"- {row['title']}"
        + ("" if f["seed"] is None else f", seed {f['seed']}")
        + f": {f['line']}"
        for row in rows
        for f in row["failed"]
    ]


def _how(table: Mapping[str, Any]) -> str:
    sample, budget = table["sample"], table["budget"]
    parts = [
        f"Scale '{table['scale']}', on {table['source']}. "
        f"Measured on {sample['images']} images of {sample['patients']} patients, split "
        f"'{sample['split']}', with the CheX5 prompts of the paper, one a side.",
    ]
    if budget:
        parts.append(
            f"Every row has the same budget: {budget['steps']} steps of {budget['batch']} images "
            f"and {budget['sentences']} sentences each, learning rate {budget['lr']:g}, "
            f"{table['seeds']} seed(s). {table['machine']}; {table['versions']}."
        )
    if sample["resamples"]:
        parts.append(
            f"Intervals are 95 %, by {sample['resamples']} bootstrap resamples of patients, the "
            f"same for all rows ({sample['redrawn']} that lacked a class were drawn again). They "
            "tell how far the figures depend on which patients were measured, not on the "
            "randomness of training: for that compare the seeds below. p is two-sided and not "
            "corrected for the number of comparisons."
        )
    else:
        parts.append("A class is in too few patients for intervals.")
    if sample["left_out"]:
        parts.append(
            f"Not measured, for want of images with or without: {', '.join(sample['left_out'])}."
        )
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
        "## Difference from LSE+NL",
        markdown_table(difference_rows(table)),
        "## AUC by finding",
        markdown_table(finding_rows(table)),
        "## Runs",
        markdown_table(run_rows(table)),
    ]
    if failures:
        parts += ["## Failed", "\n".join(failures)]
    parts.append("Research use only; not a medical device.")
    return "\n\n".join(parts) + "\n"
