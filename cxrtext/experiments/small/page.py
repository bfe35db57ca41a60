"""An experiment on small images as a page a person reads, from what stands in ``table.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

from cxrtext.experiments.comparison import BETTER, WORSE
from cxrtext.experiments.page import markdown_table

EMPTY = "–"


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


def main_rows(group: Mapping[str, Any]) -> list[list[str]]:
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


def difference_rows(group: Mapping[str, Any]) -> list[list[str]]:
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


def run_rows(groups: Sequence[Mapping[str, Any]]) -> list[list[str]]:
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


def order_text(order: Mapping[str, Any] | None) -> str:
    """Whether the paper's order appears, in words."""
    if order is None:
        return "No two rows that the paper tells apart were measured."
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
    return (
        f"**{verdict}** Of {order['pairs']} pairs of rows that the paper tells apart, "
        f"{order['agree']} stand in the same order here ({tau}), {agree} of them with a difference "
        f"whose interval leaves out 0; {order['contrary']} stand the other way round, {contrary} "
        "of them with such a difference."
    )


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


def _group(group: Mapping[str, Any]) -> list[str]:
    parts = [f"## {group['title']}", _budget(group), markdown_table(main_rows(group))]
    differences = difference_rows(group)
    if len(differences) > 1:
        parts += [f"Less '{group['baseline']}':", markdown_table(differences)]
    return parts


def _how(table: Mapping[str, Any]) -> str:
    compared = sum(len(row["difference"]) for group in table["groups"] for row in group["rows"])
    several = "± is the deviation over seeds. " if table["seeds"] > 1 else ""
    return (
        f"{table['source']}. Scale '{table['scale']}', on {table['given']}, {table['seeds']} "
        f"seed(s). {table['machine']}; {table['versions']}.\n\n"
        f"Intervals are 95 %, by bootstrap of the test images (of drawn radiographs: patients), "
        f"the same resamples for all rows. {several}They tell how far figures depend on which "
        "images were measured, not on the randomness of training; take several seeds before "
        "believing a small difference. They are not corrected for the number of comparisons: of "
        f"the {compared} below, about {compared / 20:.1f} would leave out 0 by chance alone."
    )


def markdown_page(table: Mapping[str, Any]) -> str:
    """The whole of ``table.md``.

    Args:
        table: What ``table.json`` holds.
    """
    digits = {m["name"]: m["digits"] for group in table["groups"] for m in group["measures"]}
    parts = [f"# {table['title']}", _how(table), "## Does the paper's order appear?"]
    parts += [f"The question: {table['question']}", order_text(table["order"])]
    if table["order"]:
        parts.append(markdown_table(_claims(table["order"], digits)))
    for group in table["groups"]:
        parts += _group(group)
    if table["figures"]:
        parts += ["## Figures", "\n\n".join(f"![{name}]({name})" for name in table["figures"])]
    if table["left_out"]:
        parts += ["Left out:", "\n".join(f"- {line}" for line in table["left_out"])]
    parts += ["## What is different from the paper"]
    parts.append("\n".join(f"- {line}" for line in table["different"]))
    parts += ["## Runs", markdown_table(run_rows(table["groups"]))]
    failed = [
        f"- {row['name']}, seed {one['seed']}: {one['line']}"
        for group in table["groups"]
        for row in group["rows"]
        for one in row["failed"]
    ]
    if failed:
        parts += ["## Failed", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"
