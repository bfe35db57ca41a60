"""A comparison of models as ``comparison.html`` and ``comparison.json``."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.evaluation.comparison import (
    BETTER,
    SMALLER_IS_BETTER,
    WORSE,
    Comparison,
    PairedDifference,
)
from cxrtext.evaluation.report.sections import digits_of, told
from cxrtext.files import write_json, write_text
from cxrtext.page import (
    COLORS,
    EMPTY,
    RESEARCH,
    Block,
    Bullets,
    Figure,
    Section,
    Table,
    Text,
    draw_svg,
    html_page,
    with_interval,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

VERDICTS = {BETTER: COLORS[0], WORSE: COLORS[1]}
"""Colors of differences; one that leaves 0 in its interval is gray."""
GRAY = "#8a949e"
MOST_ROWS = 60
"""Differences drawn in one figure."""


PARTS = "checkpoint", "checkpoint-best", "run", "evaluation"
"""Folders of a project or a run, which say nothing of whose they are."""


def model_names(paths: Sequence[Path]) -> list[str]:
    """A short name each: its folder's, or that of its project or run; numbered if alike."""
    names = []
    for path in (one.resolve() for one in paths):
        while path.parent.name and (path.name in PARTS or path.suffix == ".parquet"):
            path = path.parent
        names.append(path.name)
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, 1)]
    return names


def measure_rows(comparison: Comparison) -> list[list[str]]:
    names = list(dict.fromkeys(name for one in comparison.measures.values() for name in one))
    rows = [["measure", *comparison.models]]
    for name in sorted(names, key=lambda one: one != comparison.primary):
        cells = []
        for model in comparison.models:
            cells.append(told(comparison.measures[model].get(name, {}), digits_of(name)))
        rows.append([name, *cells])
    return rows


def difference_rows(comparison: Comparison) -> list[list[str]]:
    margin = comparison.margin
    header = ["measure", "difference of", "and", "second less first", "p", "Holm p", "second is"]
    rows = [[*header, *([f"noninferior by {margin:g}"] if margin else [])]]
    for one in comparison.differences:
        digits = digits_of(one.measure)
        text = with_interval(one.estimate, (one.low, one.high), digits)
        noninferior = {None: EMPTY, True: "yes", False: "no"}[one.noninferior]
        rows.append([
            one.measure, one.first, one.second, text, _p(one.p_value), _p(one.adjusted_p),
            one.verdict, *([noninferior] if margin else []),
        ])  # fmt: skip
    return rows


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def primary_lines(comparison: Comparison) -> list[str]:
    lines = []
    for one in comparison.differences:
        if one.measure != comparison.primary:
            continue
        text = with_interval(one.estimate, (one.low, one.high), digits_of(one.measure))
        line = f"Primary measure {one.measure}: {one.second} less {one.first} {text}, "
        p = f"p {_p(one.p_value)}"
        if one.adjusted_p != one.p_value:
            p += f", with Holm {_p(one.adjusted_p)}"
        line += f"{p}: {one.second} is {one.verdict}"
        if one.noninferior is not None:
            word = "noninferior" if one.noninferior else "not shown to be noninferior"
            line += f", and {word} by a margin of {comparison.margin:g}"
        lines.append(f"{line}.")
    return lines


def _unit(measure: str) -> str:
    if measure.endswith("CNR"):
        return "CNR"
    return "ranks" if measure.endswith(SMALLER_IS_BETTER) else "shares and AUCs"


def difference_figures(comparison: Comparison) -> list[Figure]:
    units: dict[str, list[PairedDifference]] = {}
    for one in comparison.differences:
        units.setdefault(_unit(one.measure), []).append(one)
    pairs = {(one.first, one.second) for one in comparison.differences}
    drawings = [
        (_forest(comparison, some[:MOST_ROWS], unit, len(pairs) > 1), f"Differences of {unit}")
        for unit, some in units.items()
    ]
    caption = (
        "Second model less first, with 95 % intervals: blue where the second is better, orange "
        "where it is worse, gray where neither is shown. Of ranks a smaller one is better."
    )
    if comparison.margin:
        caption += " Dotted: the margin of noninferiority."
    return [Figure(drawings, caption)] if drawings else []


def _forest(
    comparison: Comparison, rows: Sequence[PairedDifference], unit: str, named: bool
) -> bytes:
    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title=f"Differences of {unit}", xlabel="second less first")
        axes.axvline(0, color="0.6", linewidth=0.8)
        if comparison.margin and any(one.noninferior is not None for one in rows):
            sign = 1 if unit == "ranks" else -1
            axes.axvline(sign * comparison.margin, color="0.4", linewidth=0.8, linestyle=":")
        names = []
        for place, one in enumerate(rows):
            color = VERDICTS.get(one.verdict, GRAY)
            axes.plot([one.low, one.high], [place, place], color=color)
            axes.plot(one.estimate, place, "D" if one.measure == comparison.primary else "o",
                      color=color)  # fmt: skip
            names.append(f"{one.measure}: {one.second} − {one.first}" if named else one.measure)
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)

    return draw_svg(640, 80 + 20 * len(rows), draw)


def _sections(comparison: Comparison) -> list[Section]:
    measures = (
        "Brackets: 95 % intervals, by how far each patient moves a figure. CNR, mIoU and the "
        "pointing game are means over sentences; Recall and MedR are those of boxes and sentences."
    )
    others = sum(one.measure != comparison.primary for one in comparison.differences)
    differences = (
        "On the same images of the same patients, so that what both models find hard cancels out. "
        "A difference counts from .005 on (CNR: .02, MedR: 1), if its interval leaves out 0 and "
        "its Holm p is below .05. "
        "MedR is better when smaller. p is two-sided; Holm p is adjusted, so that the chance of "
        f"any false finding among all {others} comparisons beside the primary measure's stays at "
        "the level."
    )
    if comparison.margin:
        differences += (
            f" Noninferior: the whole interval lies above −{comparison.margin:g} "
            "(one-sided, 2.5 %)."
        )
    first: list[Block] = [Text(measures), Table(measure_rows(comparison))]
    second: list[Block] = [Text(differences), Table(difference_rows(comparison))]
    sections = [
        Section("Measures", first),
        Section("Differences", [*second, *difference_figures(comparison)]),
    ]
    if comparison.left_out:
        sections.append(Section("Left out", [Bullets(comparison.left_out)]))
    return sections


def write_comparison(
    folder: Path, comparison: Comparison, evaluated: Mapping[str, str]
) -> list[Path]:
    """Write and return ``comparison.html`` and ``.json``; ``evaluated`` is on what."""
    sections = _sections(comparison)
    head: list[Block] = [Text(line, "lead") for line in primary_lines(comparison)]
    head.append(Bullets([f"{name}: {line}" for name, line in evaluated.items()]))
    files = [folder / "comparison.html", folder / "comparison.json"]
    footer = f"{RESEARCH} cxrtext {version('cxrtext')}."
    write_text(files[0], html_page("Comparison", sections, head=head, footer=footer))
    write_json(files[1], comparison.to_dict())
    return files
