"""The panel of the figure that sets the class probability against frequencies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.language.eta.panels import BLUE, GREEN, GREY, VERMILION, least_eta
from cxrtext.language.eta.report import (
    EtaReport,
    class_probabilities,
    equal_parts,
    repeat_frequency,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from cxrtext.language.eta.solve import Floats


def _number(value: float) -> str:
    return f"{value:.3g}"


def _means(report: EtaReport) -> tuple[Floats, Floats]:
    """Mean η and mean share of repeats of twenty groups of equal occurrences."""
    eta = class_probabilities(report.log_likelihood, report.a, report.k)
    same = repeat_frequency(report.count)
    parts = [part for part in equal_parts(report.log_likelihood, report.count, 20) if len(part)]
    means = [
        [float(np.average(values[part], weights=report.count[part])) for part in parts]
        for values in (eta, same)
    ]
    return np.array(means[0]), np.array(means[1])


def _greys() -> Colormap:
    """Greys from one that is seen on white, and so is a single sentence, to near black."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("greys", ["#E2E2E2", "#7A7A7A", "#161616"])


def _draw_lines(axes: Axes, report: EtaReport, low: float) -> None:
    a, k, fit = report.a, report.k, report.fit
    axes.plot(
        [low, report.a],
        [low, report.a],
        color=BLUE,
        linewidth=1.8,
        label=f"frequency = η = {_number(a)} p$^{{{_number(k)}}}$",
    )
    if fit is None or k == 0.0 or (math.isclose(fit.a, a) and math.isclose(fit.k, k)):
        return
    log_p = (np.log([low, report.a]) - math.log(a)) / k
    axes.plot(
        [low, report.a],
        class_probabilities(log_p, fit.a, fit.k),
        color=GREEN,
        linewidth=1.8,
        linestyle="--",
        label=f"fitted: {_number(fit.a)} p$^{{{_number(fit.k)}}}$",
    )


def _add_log_likelihood_axis(axes: Axes, report: EtaReport, low: float, high: float) -> None:
    """Give log p along the top, which is straight in log η."""
    top = axes.twiny()
    top.set_xlim(*((math.log(end) - math.log(report.a)) / report.k for end in (low, high)))
    # There is no log p above 0, but the axis runs on a little for the marks at a.
    top.set_xticks([tick for tick in top.get_xticks() if tick <= 0.0 and tick >= top.get_xlim()[0]])
    top.set_xlabel("log p (nats)", fontsize=9.5, color=GREY)
    top.tick_params(colors=GREY, labelsize=9)
    top.spines["top"].set_visible(True)


def draw_frequency(axes: Axes, report: EtaReport) -> None:
    """Draw how often sentences really occur against their η."""
    total = float(report.count.sum())
    eta = class_probabilities(report.log_likelihood, report.a, report.k)
    frequency = report.count / total
    low, high = least_eta(report), 1.5 * report.a
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
        cmap=_greys(),
        linewidths=0.2,
        extent=(math.log10(low), math.log10(high), math.log10(bottom), math.log10(top)),
    )
    # From one sentence to at least ten: a scale of a single value has no labels.
    largest = np.max(np.asarray(cells.get_array()), initial=10.0)
    cells.set_clim(1.0, float(largest))
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
    if report.k > 0.0:
        _add_log_likelihood_axis(axes, report, low, high)
    axes.figure.colorbar(cells, ax=axes, label="distinct sentences", pad=0.02)
