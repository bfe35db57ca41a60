"""A comparison of models as ``comparison.html`` and ``comparison.json``."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from cxrtext.evaluation.comparison import Comparison
from cxrtext.evaluation.report.sections import digits_of, told
from cxrtext.files import write_json, write_text
from cxrtext.page import RESEARCH, Block, Bullets, Section, Table, Text, html_page, with_interval

PARTS = "checkpoint", "checkpoint-best", "run", "evaluation"
"""Folders inside a project or a run; their names do not say which one."""


def model_names(paths: Sequence[Path]) -> list[str]:
    """A short name each: that of its folder, project or run; numbered if two are alike."""
    names = []
    for path in (path.resolve() for path in paths):
        while path.parent.name and (path.name in PARTS or path.suffix == ".parquet"):
            path = path.parent
        names.append(path.name)
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, 1)]
    return names


def measure_rows(comparison: Comparison) -> list[list[str]]:
    names = dict.fromkeys(name for named in comparison.measures.values() for name in named)
    rows = [["measure", *comparison.models]]
    for name in sorted(names, key=lambda name: name != comparison.primary):
        cells = []
        for model in comparison.models:
            cells.append(told(comparison.measures[model].get(name, {}), digits_of(name)))
        rows.append([name, *cells])
    return rows


def difference_rows(comparison: Comparison) -> list[list[str]]:
    rows = [["measure", "difference of", "and", "second less first", "p", "Holm p", "second is"]]
    for gap in comparison.differences:
        text = with_interval(gap.estimate, (gap.low, gap.high), digits_of(gap.measure))
        cells = [gap.measure, gap.first, gap.second, text, _p(gap.p_value), _p(gap.adjusted_p)]
        rows.append([*cells, gap.verdict])
    return rows


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def primary_lines(comparison: Comparison) -> list[str]:
    lines = []
    for gap in comparison.differences:
        if gap.measure != comparison.primary:
            continue
        text = with_interval(gap.estimate, (gap.low, gap.high), digits_of(gap.measure))
        line = f"Primary measure {gap.measure}: {gap.second} less {gap.first} {text}, "
        p = f"p {_p(gap.p_value)}"
        if gap.adjusted_p != gap.p_value:
            p += f", with Holm {_p(gap.adjusted_p)}"
        lines.append(f"{line}{p}: {gap.second} is {gap.verdict}.")
    return lines


def _sections(comparison: Comparison) -> list[Section]:
    measures = (
        "Brackets: 95 % intervals, from how far each patient moves a figure. CNR, mIoU and the "
        "pointing game are means over sentences; Recall and MedR are for boxes and sentences."
    )
    others = sum(gap.measure != comparison.primary for gap in comparison.differences)
    differences = (
        "On the same images of the same patients, so that what both models find hard cancels out. "
        "A difference counts from .005 on (CNR: .02, MedR: 1), if its interval leaves out 0 and "
        "its Holm p is below .05. "
        "MedR is better when smaller. p is two-sided; Holm p is adjusted, so that the chance of "
        f"any false finding among all {others} comparisons except the primary measure's stays at "
        "the level."
    )
    sections = [
        Section("Measures", [Text(measures), Table(measure_rows(comparison))]),
        Section("Differences", [Text(differences), Table(difference_rows(comparison))]),
    ]
    if comparison.left_out:
        sections.append(Section("Left out", [Bullets(comparison.left_out)]))
    return sections


def write_comparison(
    folder: Path, comparison: Comparison, evaluated: Mapping[str, str]
) -> list[Path]:
    """Write and return ``comparison.html`` and ``.json``; ``evaluated`` says on what, by model."""
    sections = _sections(comparison)
    head: list[Block] = [Text(line, "lead") for line in primary_lines(comparison)]
    head.append(Bullets([f"{name}: {line}" for name, line in evaluated.items()]))
    files = [folder / "comparison.html", folder / "comparison.json"]
    footer = f"{RESEARCH} cxrtext {version('cxrtext')}."
    write_text(files[0], html_page("Comparison", sections, head=head, footer=footer))
    write_json(files[1], comparison.to_dict())
    return files
