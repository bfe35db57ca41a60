"""Figures of the experiments, as PNG files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cxrtext.evaluation.probes.tsne import embed_neighbors
from cxrtext.experiments.data.images import CIFAR10
from cxrtext.experiments.data.sets import THINNED
from cxrtext.experiments.papers.sweep import CONSTANTS, TASKS, constant
from cxrtext.experiments.papers.table1 import BASELINE, PROPOSED
from cxrtext.experiments.stages import MEASURE_AGAIN, opened_arrays
from cxrtext.files import replacing

OURS, PAPER = "#1f5fa8", "#c2571a"
DPI = 130
Table = Mapping[str, Any]


def _save(figure: Figure, path: Path) -> Path:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI)
    return path


def _interval(
    axes: Axes, cell: Mapping[str, Any], at: float, color: str, *, upright: bool, width: float = 1
) -> None:
    if cell["low"] is not None:
        along, across = [cell["low"], cell["high"]], [at, at]
        x, y = (across, along) if upright else (along, across)
        axes.plot(x, y, color=color, linewidth=width)


def _grid(axes: Axes, axis: Literal["both", "x"] = "both") -> None:
    axes.grid(axis=axis, color="#dddddd")
    axes.set_axisbelow(True)


def _dots(axes: Axes, group: Table, measure: Mapping[str, Any], titled: bool) -> None:
    rows = [row for row in group["rows"] if measure["name"] in row["measures"]]
    for place, row in enumerate(rows):
        cell, paper = row["measures"][measure["name"]], row["paper"].get(measure["name"])
        _interval(axes, cell, place, OURS, upright=False, width=2)
        axes.plot(cell["value"], place, "o", color=OURS, label="ours, 95 % interval")
        if paper is not None:
            axes.plot(paper, place, "D", color=PAPER, fillstyle="none", label="paper")
    axes.set_yticks(
        range(len(rows)), [row["title"] for row in rows] if titled else [""] * len(rows)
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(measure["name"] + (" (smaller is better)" if measure["smaller"] else ""))
    _grid(axes, "x")


def _legend(figure: Figure) -> None:
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(
            found.values(),
            found.keys(),
            loc="outside lower center",
            ncols=len(found),
            frameon=False,
        )


def draw_rows(table: Table, path: Path) -> Path:
    groups = [group for group in table["groups"] if any(row["measures"] for row in group["rows"])]
    widest = max(len(group["measures"]) for group in groups)
    heights = [1.3 + 0.32 * len(group["rows"]) for group in groups]
    figure = Figure(figsize=(3.2 + 2.9 * widest, sum(heights) + 0.5), layout="constrained")
    parts = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)
    for part, group in zip(parts[:, 0], groups, strict=True):
        part.suptitle(group["title"], fontsize=10)
        panels = part.subplots(1, len(group["measures"]), squeeze=False)[0]
        for i, (axes, measure) in enumerate(zip(panels, group["measures"], strict=True)):
            _dots(axes, group, measure, titled=i == 0)
    _legend(figure)
    return _save(figure, path)


STYLES = {
    "cl": ("CL", "o", "#555555"),
    "dcl-low": ("DCL-η_Low", "s", "#2a8c4a"),
    "dcl-high": ("DCL-η_High", "^", "#c2571a"),
    "dcl-true": ("DCL-η_True", "D", "#1f5fa8"),
}

Point = tuple[float, Mapping[str, Any]]


def _lines(axes: Axes, series: Mapping[str, Sequence[Point]], *, logarithmic: bool) -> None:
    """Lines of the four objectives; intervals stand a little apart so that all can be seen."""
    for i, (name, points) in enumerate(series.items()):
        title, marker, color = STYLES[name]
        apart = i - (len(series) - 1) / 2
        x = [at * (1 + 0.06 * apart) if logarithmic else at + 0.008 * apart for at, _ in points]
        axes.plot(x, [cell["value"] for _, cell in points], marker=marker, color=color, label=title)
        for at, (_, cell) in zip(x, points, strict=True):
            _interval(axes, cell, at, color, upright=True)
    _grid(axes)


def _by_objective(rows: Sequence[Table], measure: str) -> dict[str, Mapping[str, Any]]:
    return {
        row["name"].rpartition("-")[0]: row["measures"][measure]
        for row in rows
        if measure in row["measures"]
    }


def draw_cifar10_r(table: Table, path: Path) -> Path:
    """Accuracy against r, and against the fraction of labels (SSD figure 2)."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    against_r: dict[str, list[Point]] = {}
    for group in table["groups"]:
        r = float(group["name"].removeprefix("r-"))
        for name, cell in _by_objective(group["rows"], "accuracy").items():
            against_r.setdefault(name, []).append((r, cell))
    _lines(left, against_r, logarithmic=False)
    left.set_xlabel("r, fraction kept of five classes")
    left.set_ylabel("accuracy of the linear probe, %")
    # The paper draws the fractions of labels at r = 0.5.
    group = next((g for g in table["groups"] if g["name"] == "r-0.5"), table["groups"][0])
    against_labels: dict[str, list[Point]] = {}
    for measure in group["measures"]:
        part = measure["name"].removeprefix("accuracy").strip(", ")
        if part and not part.endswith("labels"):
            continue
        share = float(part.split()[0]) / 100 if part else 1.0
        for name, cell in _by_objective(group["rows"], measure["name"]).items():
            against_labels.setdefault(name, []).append((share, cell))
    ordered = {k: sorted(v, key=lambda point: point[0]) for k, v in against_labels.items()}
    _lines(right, ordered, logarithmic=True)
    right.set_xscale("log")
    right.set_xlabel("fraction of labels the probe is trained with")
    right.set_title(group["title"], fontsize=10)
    _legend(figure)
    return _save(figure, path)


def draw_trade(table: Table, path: Path) -> Path:
    """The two measures of each group of ``fair-cclk`` against each other."""
    groups = [g for g in table["groups"] if any(len(r["measures"]) == 2 for r in g["rows"])]
    figure = Figure(figsize=(5.2 * max(1, len(groups)), 4.4), layout="constrained")
    panels = figure.subplots(1, max(1, len(groups)), squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=False):
        first, second = group["measures"]
        rows = [row for row in group["rows"] if len(row["measures"]) == 2]
        for color, row in zip((f"C{i}" for i in range(len(rows))), rows, strict=True):
            x, y = row["measures"][second["name"]], row["measures"][first["name"]]
            axes.plot(x["value"], y["value"], "o", color=color, label=row["title"])
            _interval(axes, x, y["value"], color, upright=False)
            _interval(axes, y, x["value"], color, upright=True)
        better = "smaller is better" if second["smaller"] else "larger: less color in the features"
        axes.set_xlabel(f"{second['name']} ({better})")
        axes.set_ylabel(first["name"])
        axes.set_title(group["data"], fontsize=10)
        _grid(axes)
        axes.legend(fontsize=7)
    return _save(figure, path)


EMBEDDED = (("cl-0.1", "CL"), ("dcl-high-0.1", "DCL-η_High"), ("dcl-true-0.1", "DCL-η_True"))
"""The paper's three panels."""


def _colors() -> dict[str, tuple[float, ...]]:
    """Shades of red for the thinned classes, of blue for the others."""
    kept = tuple(name for name in CIFAR10 if name not in THINNED)
    return {
        one: tuple(colormaps[shade](0.4 + 0.6 * i / (len(names) - 1)))
        for names, shade in ((THINNED, "Reds"), (kept, "Blues"))
        for i, one in enumerate(names)
    }


def draw_embeddings(out: Path, path: Path) -> tuple[Path | None, str]:
    """Draw the test images' features of the first seed, unless done; or why it is left out."""
    runs = [(out / "runs" / name / "seed-0" / "features.npz", title) for name, title in EMBEDDED]
    there = [(features, title) for features, title in runs if features.is_file()]
    if not there:
        return None, "the t-SNE figure: no row of CIFAR10-0.1 was measured"
    newest = max(features.stat().st_mtime_ns for features, _ in there)
    if path.is_file() and path.stat().st_mtime_ns > newest:
        return path, ""
    colors = _colors()
    figure = Figure(figsize=(4.2 * len(there), 4.9), layout="constrained")
    panels = figure.subplots(1, len(there), squeeze=False)[0]
    for axes, (features, title) in zip(panels, there, strict=True):
        with opened_arrays(features, MEASURE_AGAIN) as held:
            vectors, classes = held["features"], held["classes"]
        points = embed_neighbors(vectors)
        for code, name in enumerate(CIFAR10):
            own = points[classes == code]
            axes.scatter(own[:, 0], own[:, 1], s=6, color=colors[name], label=name)
        axes.set_title(title, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("t-SNE of the test images' features")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=5, frameon=False, markerscale=3
    )
    return _save(figure, path), ""


def draw_by_eta(table: Table, path: Path) -> Path:
    """A constant η in three tasks, beside no correction and η by sentence (SSD figure 3)."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    cells = {row["name"]: row["measures"] for row in table["groups"][0]["rows"]}
    for axes, name in zip(figure.subplots(1, len(TASKS)), TASKS, strict=True):
        known = [eta for eta in CONSTANTS if name in cells.get(constant(eta), {})]
        each = [cells[constant(eta)][name] for eta in known]
        axes.plot(known, [cell["value"] for cell in each], "o-", color=PAPER, label="DCL-η")
        for eta, cell in zip(known, each, strict=True):
            _interval(axes, cell, eta, PAPER, upright=True)
        for row, title, color in ((BASELINE, "LSE+NL", "#555555"), (PROPOSED, "DCL-η_LM", OURS)):
            if (cell := cells.get(row, {}).get(name)) is not None:
                axes.axhline(cell["value"], color=color, label=title)
                if cell["low"] is not None:
                    axes.axhspan(cell["low"], cell["high"], color=color, alpha=0.12)
        axes.set_xscale("log")
        axes.set_xlim(CONSTANTS[0] / 1.5, CONSTANTS[-1] * 1.5)
        axes.set_xlabel("η")
        axes.set_ylabel(name)
        _grid(axes)
    _legend(figure)
    return _save(figure, path)


FURTHER: Mapping[str, tuple[str, Callable[[Table, Path], Path]]] = {
    "cifar10-r": ("accuracy.png", draw_cifar10_r),
    "fair-cclk": ("trade.png", draw_trade),
    "sweep": ("by-eta.png", draw_by_eta),
}


def draw_further(table: Table, out: Path) -> list[Path]:
    further = FURTHER.get(table["experiment"])
    return [further[1](table, out / further[0])] if further else []


def draw_figures(table: Table, out: Path) -> tuple[list[Path], list[str]]:
    figures = [draw_rows(table, out / "rows.png"), *draw_further(table, out)]
    if table["experiment"] != "cifar10-r":
        return figures, []
    path, left_out = draw_embeddings(out, figures[0].with_name("tsne.png"))
    return ([*figures, path], []) if path else (figures, [left_out])
