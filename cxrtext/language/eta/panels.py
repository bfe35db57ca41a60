"""The panels of the figure that show distributions and false negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cxrtext.language.eta.report import EtaReport, class_probabilities
from cxrtext.language.eta.statistics import EtaStatistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BLUE, VERMILION, GREEN, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#767676", "#222222"

LEAST_EXPECTED = 1e-3
"""Expected false negatives below which a decile is drawn at the edge of its panel."""


def least_eta(report: EtaReport) -> float:
    """Return the left end of the η axes: a hundredth of a repeat in the corpus, or all there is."""
    eta = class_probabilities(report.log_likelihood, report.a, report.k)
    least = 0.01 / float(report.count.sum())
    return float(min(max(float(eta.min()), least), 0.2 * report.a))


def draw_log_likelihood(axes: Axes, report: EtaReport) -> None:
    """Draw how log p is distributed over sentences and over distinct sentences."""
    log_p, count = report.log_likelihood, report.count
    least = min(float(np.quantile(log_p, 0.01)), float(log_p.max()) - 1.0)
    edges = np.linspace(least, max(float(log_p.max()), least + 1.0), 51).tolist()
    clipped = np.maximum(log_p, least)
    axes.hist(
        clipped,
        edges,
        weights=100.0 * count / count.sum(),
        color=BLUE,
        alpha=0.55,
        label="all sentences",
    )
    axes.hist(
        clipped,
        edges,
        weights=np.full(len(count), 100.0 / len(count)),
        histtype="step",
        color=VERMILION,
        linewidth=1.8,
        label="distinct sentences",
    )
    axes.set(
        title="How likely the sentences are",
        xlabel="log-likelihood log p (nats)",
        ylabel="share of sentences (%)",
    )
    if float(log_p.min()) < least:
        axes.set_xlabel("log-likelihood log p (nats)\nthe first bar holds all that is lower")
    axes.legend(loc="upper left")


def draw_eta(axes: Axes, report: EtaReport, median: float) -> None:
    """Draw the share of sentences whose η is larger than a value."""
    least, most = least_eta(report), 1.5 * report.a
    # On a grid, because a path through millions of sentences makes a huge file.
    grid = np.geomspace(least, most, 500)
    eta = class_probabilities(report.log_likelihood, report.a, report.k)
    order = np.argsort(eta, kind="stable")
    above = len(eta) - np.searchsorted(eta[order], grid, side="right")
    for weight, colour, name in (
        (report.count[order].astype(np.float64), BLUE, "all sentences"),
        (np.ones(len(order)), VERMILION, "distinct sentences"),
    ):
        of_largest = np.r_[0.0, np.cumsum(weight[::-1])]
        share = 100.0 * of_largest[above] / of_largest[-1]
        axes.step(grid, share, where="post", color=colour, linewidth=1.8, label=name)
    if median > least:
        axes.axvline(median, color=GREY, linewidth=1, linestyle=":", label=f"median {median:.2g}")
    axes.set_xscale("log")
    axes.set(
        xlim=(least, most),
        ylim=(0, 103),
        title="How large the class probability is",
        xlabel="class probability η",
        ylabel="share of sentences with a larger η (%)",
    )
    axes.legend(loc="lower left")


def draw_false_negatives(axes: Axes, statistics: EtaStatistics, batch_size: int) -> None:
    """Draw the false negatives that an anchor of each decile has to expect."""
    numbers = np.array([decile.number for decile in statistics.deciles])
    series = (
        ([d.false_negatives.expected for d in statistics.deciles], BLUE, "-", "by η"),
        (
            [d.false_negatives.same_expected for d in statistics.deciles],
            VERMILION,
            "--",
            "the very same sentence (lower bound)",
        ),
    )
    for values, colour, line, name in series:
        expected = np.array(values)
        drawn = np.maximum(expected, LEAST_EXPECTED)
        axes.plot(numbers, drawn, line, color=colour, linewidth=1.4, zorder=2)
        inside = expected >= LEAST_EXPECTED
        if inside.any():
            axes.plot(numbers[inside], drawn[inside], "o", color=colour, markersize=7, label=name)
        if not inside.all():  # an empty line that is not clipped would spoil the layout
            axes.plot(
                numbers[~inside],
                drawn[~inside],
                "v",
                color=colour,
                markerfacecolor="white",
                markersize=8,
                clip_on=False,
                label=None if inside.any() else name,
            )
    axes.axhline(1.0, color=GREY, linewidth=1, linestyle=":")
    axes.annotate("one in every batch", (0.6, 1.08), color=GREY, fontsize=9.5)
    axes.set_yscale("log")
    axes.set(
        xlim=(0.5, 10.5),
        ylim=(LEAST_EXPECTED, max(20.0, batch_size)),
        xticks=range(1, 11),
        title="False negatives an anchor has to expect",
        xlabel="decile of log p (1 least likely, 10 likeliest)\nopen mark: below the axis",
        ylabel=f"expected among {batch_size - 1} negatives",
    )
    axes.legend(loc="upper left")
