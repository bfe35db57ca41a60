"""The figures of an evaluation."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cxrtext.evaluation.classification.finding import UNSCALED
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import NET_BENEFIT, ON_ALL, OPERATING, YOUDEN, Rows
from cxrtext.metrics.calibration import reliability_bins
from cxrtext.metrics.ranking import Floats
from cxrtext.page import COLORS, Figure, draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PANELS = 12
"""Net benefit is drawn for at most this many findings."""
PANEL = 215
"""Sides in pixels of a drawing of one finding, several of them side by side."""
Scores = Mapping[str, FindingScores]


def _unit(axes: "Axes", x_label: str, y_label: str, ticks: Sequence[float]) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=x_label, ylabel=y_label, xticks=ticks, yticks=ticks)


def classification_figures(result: Evaluation) -> list[Figure]:
    """ROC and reliability of findings with both classes, at most one for each color."""
    both = [name for name, one in result.scores.items() if one.truth.any() and not one.truth.all()]
    scores = {name: result.scores[name] for name in both[: len(COLORS)]}
    if not scores:
        return []
    fitted = any(one.fit for one in scores.values())
    dots = "Dots: the thresholds chosen on validation images." if fitted else ""
    return [
        Figure([(_roc(scores), f"ROC of {', '.join(scores)}")], dots),
        Figure(
            [(_reliability(name, one), f"Reliability of {name}") for name, one in scores.items()],
            "Reliability: share of images with the finding against the probability, in 15 bins: "
            f"{'blue before, orange with T, green Platt' if fitted else 'before calibration'}. A "
            "dot's area is its share of the images; on the diagonal a probability means what it "
            "says.",
        ),
    ]


def _roc(scores: Scores) -> bytes:
    from sklearn.metrics import roc_curve

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title="ROC")
        axes.plot([0, 1], [0, 1], "--", color="0.6", linewidth=0.8)
        for color, (name, one) in zip(COLORS, scores.items(), strict=False):
            wrong, right, _ = roc_curve(one.truth, one.scores, drop_intermediate=False)
            axes.plot(wrong, right, color=color, label=name, clip_on=False)
            if one.fit is not None:
                above = one.scores > one.fit.threshold
                axes.plot(above[~one.truth].mean(), above[one.truth].mean(), "o", color=color)
        axes.legend(loc="lower right")
        _unit(axes, "1 − specificity", "sensitivity", (0, 0.25, 0.5, 0.75, 1))

    return draw_svg(430, 360, draw)


def _reliability(name: str, one: FindingScores) -> bytes:
    """Share of positives against mean probability.

    Each finding is drawn separately, so that drawings stack up on a narrow screen.
    """
    kinds = [UNSCALED, *((one.fit.calibration, one.fit.platt) if one.fit is not None else ())]

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title=name)
        axes.plot([0, 1], [0, 1], "--", color="0.6", linewidth=0.8)
        for color, calibration in zip(COLORS, kinds, strict=False):
            bins = reliability_bins(calibration.probabilities(one.scores), one.truth)
            sizes = 6 + 60 * bins.counts / bins.counts.sum()
            axes.scatter(
                bins.probability, bins.observed, sizes, color=color, linewidth=0, clip_on=False
            )
        _unit(axes, "probability", "share with", (0, 0.5, 1))

    return draw_svg(PANEL, PANEL, draw)


def benefit_figures(rows: Rows) -> list[Figure]:
    names = rows.groups(NET_BENEFIT)[:PANELS]
    if not names:
        return []
    caption = (
        "Net benefit in true positives an image, against the lowest probability at which one would "
        "act; false positives are weighed by the odds of that probability. Blue: acting by the "
        "model, which is useful where it is above both lines, acting on all (orange) and on none "
        "(gray). Band: 95 %."
    )
    return [Figure([(_benefit(rows, name), f"Net benefit of {name}") for name in names], caption)]


def _curve(rows: Rows, part: str, group: str) -> tuple[Floats, Floats]:
    """Thresholds [k], from the measures' names, and value, low and high at them, [3, k]."""
    own = [row for row in rows if (row.part, row.group) == (part, group)]
    cuts = np.array([float(row.measure) for row in own])
    values = np.array([row[3:6] for row in own], dtype=np.float64)  # None becomes NaN
    return cuts, values.reshape(-1, 3).T


def _benefit(rows: Rows, name: str) -> bytes:
    cuts, (model, low, high) = _curve(rows, NET_BENEFIT, name)
    _, (everyone, _, _) = _curve(rows, ON_ALL, name)
    prevalence = rows.value(f"{OPERATING}, {YOUDEN}", name, "prevalence") or 0.0

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot()
        axes.plot(cuts, model, color=COLORS[0])
        axes.fill_between(cuts, low, high, color=COLORS[0], alpha=0.18, linewidth=0)
        axes.plot(cuts, everyone, color=COLORS[1])
        axes.axhline(0, color="0.45", linewidth=1)
        top = np.nanmax([prevalence, *high[: len(cuts) // 2]])
        axes.set(
            xlim=(0, 1), ylim=(-0.25 * top, 1.1 * top), xticks=(0, 0.5, 1), title=name,
            xlabel="probability", ylabel="net benefit",
        )  # fmt: skip

    return draw_svg(PANEL, 190, draw)
