"""A comparison of models as ``comparison.html`` and ``comparison.json``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext.evaluation.grounding.phrases import CNR, SIGNED
from cxrtext.evaluation.intervals.bootstrap import BETTER, SMALLER_IS_BETTER, WORSE
from cxrtext.evaluation.intervals.comparison import OF_FINDING, Comparison, PairedDifference
from cxrtext.evaluation.intervals.methods import AREA, RESAMPLED, SHARE
from cxrtext.evaluation.report.export import TABLES, export_tables
from cxrtext.evaluation.report.tables import digits_of, told
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
    number,
    with_interval,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

VERDICTS = {BETTER: COLORS[0], WORSE: COLORS[1]}
"""Colors of differences; one that leaves 0 in its interval is gray."""
GRAY = "#8a949e"
MOST_ROWS = 60
"""Differences drawn in one figure."""


def model_names(paths: Sequence[Path]) -> list[str]:
    """A short name each: its folder's, that above "checkpoint" or a file; numbered if alike."""
    names = []
    for path in (one.resolve() for one in paths):
        inside = path.name == "checkpoint" or path.suffix == ".parquet"
        names.append(path.parent.name if inside and path.parent.name else path.name)
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
    rows = [[*header, *([f"noninferior by {margin:g}"] if margin else []), "detectable"]]
    for one in comparison.differences:
        digits = digits_of(one.measure)
        text = with_interval(one.estimate, (one.low, one.high), digits)
        noninferior = {None: EMPTY, True: "yes", False: "no"}[one.noninferior]
        rows.append([
            one.measure, one.first, one.second, text, _p(one.p_value), _p(one.adjusted_p),
            one.verdict, *([noninferior] if margin else []), number(one.detectable, digits),
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
    if measure in (CNR, SIGNED):
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
        "where it is worse, gray where 0 lies in the interval. Of ranks a smaller one is better."
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


def finding_figures(comparison: Comparison) -> list[Figure]:
    models = comparison.models[: len(COLORS)]
    found = Counter(name for model in models for name in comparison.measures[model])
    names = [name for name in found if name.startswith(OF_FINDING)]
    if not names:
        return []

    def points(axes: "Axes", model: str, color: str, shift: float) -> None:
        for place, name in enumerate(names):
            one = comparison.measures[model].get(name)
            if one is not None:
                low, high = one["low"], one["high"]
                if low is not None and high is not None:
                    axes.plot([low, high], [place + shift] * 2, color=color)
                label = model if place == 0 else None
                axes.plot(one["value"] or 0.0, place + shift, "o", color=color, label=label)

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title="AUC by finding", xlabel="AUC")
        for number_, (color, model) in enumerate(zip(COLORS, models, strict=False)):
            points(axes, model, color, 0.6 * ((number_ + 0.5) / len(models) - 0.5))
        axes.set_yticks(range(len(names)), [name.removeprefix(OF_FINDING) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlim(right=1.0)
        drawing.legend(loc="outside lower center", ncols=min(len(models), 4))

    height = 110 + len(names) * max(22, 13 * len(models))
    return [Figure([(draw_svg(640, height, draw), "AUC by finding")], "With 95 % intervals.")]


def _sections(comparison: Comparison) -> list[Section]:
    measures = (
        f"Brackets: 95 % intervals; of AUCs {AREA}, of shares {SHARE}, of others {RESAMPLED}. CNR, "
        "mIoU and the pointing game are means over sentences; Recall and MedR are those of boxes "
        "and sentences."
    )
    others = sum(one.measure != comparison.primary for one in comparison.differences)
    differences = (
        "On the same images of the same patients, so that what both models find hard cancels out. "
        "AUCs: paired DeLong, clustered by patient; others: the same resamples of the patients. "
        "MedR is better when smaller. p is two-sided; Holm p is adjusted, so that the chance of "
        f"any false finding among all {others} comparisons beside the primary measure's stays at "
        "the level. Detectable: the difference that 80 % of such comparisons would have found."
    )
    if comparison.margin:
        differences += (
            f" Noninferior: the whole interval lies above −{comparison.margin:g} "
            "(one-sided, 2.5 %)."
        )
    first: list[Block] = [Text(measures), Table(measure_rows(comparison))]
    second: list[Block] = [Text(differences), Table(difference_rows(comparison))]
    sections = [
        Section("Measures", [*first, *finding_figures(comparison)]),
        Section("Differences", [*second, *difference_figures(comparison)]),
    ]
    if comparison.left_out:
        sections.append(Section("Left out", [Bullets(comparison.left_out)]))
    return sections


def write_comparison(
    folder: Path, comparison: Comparison, evaluated: Mapping[str, str]
) -> list[Path]:
    """Write and return ``comparison.html``, ``.json`` and ``tables/``; ``evaluated`` is on what."""
    sections = _sections(comparison)
    head: list[Block] = [Text(line, "lead") for line in primary_lines(comparison)]
    head.append(Bullets([f"{name}: {line}" for name, line in evaluated.items()]))
    files = [folder / "comparison.html", folder / "comparison.json"]
    footer = f"{RESEARCH} cxrtext {version('cxrtext')}."
    write_text(files[0], html_page("Comparison", sections, head=head, footer=footer))
    write_json(files[1], comparison.to_dict())
    export_tables(folder / TABLES, sections)
    return [*files, folder / TABLES]
