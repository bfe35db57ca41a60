"""The figure by which a class probability can be checked: η against how often sentences occur."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cxrtext.files import replacing
from cxrtext.language.class_probability import class_probability
from cxrtext.language.eta import check_target
from cxrtext.language.eta.statistics import (
    EtaReport,
    EtaStatistics,
    equal_parts,
    eta_statistics,
    repeat_frequency,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cxrtext.language.eta.fit import Floats

# Okabe and Ito's palette, which color-blind readers can distinguish.
BLUE, VERMILION, GREEN, GRAY, INK = "#0072B2", "#D55E00", "#009E73", "#767676", "#222222"


def _means(report: EtaReport) -> Floats:
    """Mean η and mean share of repeats, [2, ≤ 20], of twenty groups of equal occurrences."""
    values = (report.eta, repeat_frequency(report.count))
    parts = [part for part in equal_parts(report.log_likelihood, report.count, 20) if len(part)]
    return np.array(
        [[np.average(one[part], weights=report.count[part]) for part in parts] for one in values]
    )


def _draw_lines(axes: Axes, report: EtaReport, low: float) -> None:
    a, k, fit = report.a, report.k, report.fit
    label = f"frequency = η = {a:.3g} p$^{{{k:.3g}}}$"
    axes.plot([low, a], [low, a], color=BLUE, linewidth=1.8, label=label)
    if fit is None or k == 0.0 or (math.isclose(fit.a, a) and math.isclose(fit.k, k)):
        return
    ends = [(math.log(eta) - math.log(a)) / k for eta in (low, a)]
    fitted = [class_probability(log_p, fit.a, fit.k) for log_p in ends]
    label = f"fitted: {fit.a:.3g} p$^{{{fit.k:.3g}}}$"
    axes.plot([low, a], fitted, "--", color=GREEN, linewidth=1.8, label=label)


def _draw_frequency(axes: Axes, report: EtaReport) -> None:
    eta, total = report.eta, float(report.count.sum())
    frequency = report.count / total
    # The left end: a hundredth of a repeat in the corpus, or all there is.
    low, high = min(max(float(eta.min()), 0.01 / total), 0.2 * report.a), 1.5 * report.a
    shown = eta >= low
    top = max(float(frequency.max()), 10.0 / total) * 2.0
    bottom = 0.3 / total
    cells = axes.hexbin(
        eta[shown],
        frequency[shown],
        gridsize=(36, 18),
        xscale="log",
        yscale="log",
        bins="log",
        mincnt=1,
        cmap="Greys",
        linewidths=0.2,
        extent=(math.log10(low), math.log10(high), math.log10(bottom), math.log10(top)),
    )
    # From below one sentence, which is seen on white, to at least ten.
    cells.set_clim(0.3, float(np.max(np.asarray(cells.get_array()), initial=10.0)))
    _draw_lines(axes, report, low)
    mean_eta, mean_same = _means(report)
    axes.plot(
        mean_eta,
        np.where(mean_same > 0, mean_same, np.nan),
        "o",
        color=VERMILION,
        markeredgecolor="white",
        markersize=6.5,
        label="mean rate of repeats, by twentieth",
    )
    left_out = float(report.count[~shown].sum()) / total
    share = f"{100 * left_out:.0f}" if left_out > 0.005 else "<1"
    note = f"\n{share} % of sentences lie left of the axis" if left_out else ""
    axes.set(
        xlim=(low, high),
        ylim=(bottom, top),
        title="η against how often sentences occur",
        xlabel=f"class probability η{note}",
        ylabel="frequency in the corpus",
    )
    axes.legend(loc="upper left", fontsize=8.5, frameon=True, edgecolor="none", framealpha=0.85)
    axes.figure.colorbar(cells, ax=axes, label="distinct sentences", pad=0.02)


STYLE: Any = {
    "font.size": 10.5,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GRAY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "svg.hashsalt": "cxrtext",  # else the names inside an SVG differ from run to run
}


def write_figure(path: Path, report: EtaReport) -> EtaStatistics:
    """Draw η against how often sentences occur, and return the statistics of the corpus."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    check_target(path)
    statistics = eta_statistics(report)
    with mpl.rc_context(STYLE), replacing(path) as temporary:
        figure = Figure(figsize=(8.0, 6.0), dpi=160, layout="constrained")
        _draw_frequency(figure.add_subplot(), report)
        # A model's name may hold a dollar sign, which is no mathematics.
        text = (
            f"η = {report.a:.3g} · p^{report.k:.3g} over {statistics.n_sentences:,} sentences "
            f"({statistics.n_distinct:,} distinct, {statistics.repeated:,} of them seen more than "
            f"once),\nscored by {report.model}"
        )
        figure.supxlabel(text, x=0.01, ha="left", fontsize=10.5, parse_math=False)
        # Without the date, so that equal input gives equal files; PNG has none, and no such key.
        kind = path.suffix[1:].lower()
        date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(temporary, format=kind, metadata=date.get(kind))
    return statistics
