"""The figures of an evaluation."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from cxrtext.evaluation.classification.calibration import reliability_bins
from cxrtext.evaluation.classification.finding import UNSCALED
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.classification.zero_shot import FindingScores
from cxrtext.evaluation.grounding.phrases import CNR, MEASURES, SIGNED, PhraseValues
from cxrtext.evaluation.metrics import Floats
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import (
    ALL,
    DICE_CURVE,
    GROUNDING,
    MASKS,
    MEAN_OF_FINDINGS,
    MEAN_OF_SENTENCES,
    NET_BENEFIT,
    ON_ALL,
    OPERATING,
    YOUDEN,
    Rows,
)
from cxrtext.models import ImageTextModel
from cxrtext.page import COLORS, Figure, draw_svg, number, without_zero

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

BARS = 24
MOST_PROMPTS = 40
PANELS = 12
"""Most findings whose net benefit is drawn."""
PANEL = 215
"""Sides of a drawing of one finding, of several beside each other, in pixels."""
Line = tuple[str, float, Sequence[float] | None]
Scores = Mapping[str, FindingScores]


def _unit(axes: "Axes", x_label: str, y_label: str, ticks: Sequence[float]) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=x_label, ylabel=y_label, xticks=ticks, yticks=ticks)


def classification_figures(result: Evaluation) -> list[Figure]:
    """ROC, precision and reliability of findings with both classes, as many as there are colors."""
    found = result.scores
    both = [name for name, one in found.items() if one.truth.any() and not one.truth.all()]
    scores = {name: found[name] for name in both[: len(COLORS)]}
    if not scores:
        return []
    fitted = any(one.fit for one in scores.values())
    names = ", ".join(scores)
    return [
        Figure(
            [(_roc(scores), f"ROC of {names}"), (_precision(scores), "Precision and recall")],
            "Dots: the thresholds chosen on validation images." if fitted else "",
        ),
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


def _precision(scores: Scores) -> bytes:
    from sklearn.metrics import precision_recall_curve

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title="Precision and recall")
        for color, one in zip(COLORS, scores.values(), strict=False):
            precision, recall, _ = precision_recall_curve(one.truth, one.scores)
            precision[-1] = precision[-2]  # at recall 0 scikit-learn has 1
            axes.plot(recall[::-1], precision[::-1], color=color, clip_on=False)
        _unit(axes, "recall (sensitivity)", "precision", (0, 0.25, 0.5, 0.75, 1))

    return draw_svg(430, 360, draw)


def _reliability(name: str, one: FindingScores) -> bytes:
    """Share of positives against mean probability.

    A drawing a finding, so that several stand below each other where the screen is narrow.
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


def grounding_figures(result: Evaluation) -> list[Figure]:
    """The distribution of CNR, and its means by finding."""
    drawings = []
    grounded = result.predictions and result.predictions.parts.get("grounding")
    if isinstance(grounded, PhraseValues):
        signed = grounded.values[:, MEASURES.index(SIGNED)]
        known = signed[~np.isnan(signed)]
        if len(known):
            title = "CNR of all sentences"
            drawings.append((histogram(known, title, "signed CNR"), title))
    findings = (row for row in result.rows if row.part == GROUNDING and row.measure == CNR)
    rows = [
        (row.group, row.value, row.ends)
        for row in findings
        if row.value is not None and row.group not in (MEAN_OF_FINDINGS, MEAN_OF_SENTENCES)
    ]
    if rows:
        drawings.append((forest(rows, "CNR by finding", "CNR"), "CNR by finding"))
    caption = (
        "Signed CNR of every sentence: the orange ones have a map that avoids the boxes, which "
        "the paper's CNR does not tell apart. CNR by finding: means with 95 % intervals."
    )
    return [Figure(drawings, caption)] if drawings else []


def benefit_figures(rows: Rows) -> list[Figure]:
    found = rows.groups(NET_BENEFIT)[:PANELS]
    if not found:
        return []
    caption = (
        "Net benefit in true positives an image, against the probability from which on one would "
        "act; false positives are weighed by the odds of that probability. Blue: acting by the "
        "model, which is of use where it is above both lines, acting on all (orange) and on none "
        "(gray). Band: 95 %."
    )
    return [Figure([(_benefit(rows, name), f"Net benefit of {name}") for name in found], caption)]


def _curve(rows: Rows, part: str, group: str) -> tuple[Floats, Floats]:
    """Thresholds [k], which are the measures' names, and value, low and high at them, [3, k]."""
    found = [row for row in rows if (row.part, row.group) == (part, group)]
    cuts = np.array([float(row.measure) for row in found])
    values = np.array([row[3:6] for row in found], dtype=np.float64)  # None becomes NaN
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


def mask_figures(rows: Rows) -> list[Figure]:
    cuts, (dice, _, _) = _curve(rows, DICE_CURVE, ALL)
    chosen = rows.value(MASKS, ALL, "threshold")
    if not len(cuts):
        return []

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(
            title="Dice by threshold", xlabel="threshold", ylabel="mean Dice"
        )
        axes.plot(cuts, dice, color=COLORS[0])
        if chosen is not None:
            axes.axvline(chosen, color=COLORS[1], linewidth=1)
        axes.set(xlim=(-1, 1), ylim=(0, None))

    caption = "Mean Dice of all sentences. Line: the threshold chosen on validation images."
    return [Figure([(draw_svg(420, 260, draw), "Dice by threshold")], caption)]


def histogram(values: Floats, title: str, label: str) -> bytes:
    """A histogram; what lies below 0 has another color."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.1)
    width = (high - low) / BARS
    # 0 is an edge, so that no bar is of two colors.
    edges = (np.arange(BARS + 2) - int(np.ceil(-low / width))) * width
    counts, _ = np.histogram(values, edges)

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title=title, xlabel=label, ylabel="sentences")
        colors = [COLORS[1] if edge <= 1e-9 else COLORS[0] for edge in edges[1:]]
        axes.bar(edges[:-1], counts, np.diff(edges) * 0.94, align="edge", color=colors)
        axes.grid(axis="x", visible=False)
        axes.locator_params(axis="y", integer=True)

    return draw_svg(420, 260, draw)


def forest(rows: Sequence[Line], title: str, label: str) -> bytes:
    """Values with their intervals, one a line, from 0 on."""

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(title=title, xlabel=label)
        for place, (_, value, ends) in enumerate(rows):
            if ends is not None:
                axes.plot(ends, [place, place], color=COLORS[0])
            axes.plot(value, place, "o", color=COLORS[0])
        axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))

    return draw_svg(520, 76 + 20 * len(rows), draw)


def prompt_matrix(model: ImageTextModel, prompts: Mapping[str, Prompts]) -> Figure:
    sides = [side for one in prompts.values() for side in (one.positive, one.negative)]
    texts = [phrase for side in sides for phrase in side]
    if len(texts) > MOST_PROMPTS:
        texts = [side[0] for side in sides]
    texts = texts[:MOST_PROMPTS]
    with torch.inference_mode():
        vectors = model.embed_sentences(texts).double()
        cosines = (vectors @ vectors.T).cpu().numpy()
    large = len(texts) <= 12
    side = (34 if large else 17) * len(texts)

    def draw(drawing: "Drawing") -> None:
        from matplotlib.colors import LinearSegmentedColormap

        axes = drawing.add_subplot()
        colors = LinearSegmentedColormap.from_list("signed", (COLORS[1], "#ffffff", COLORS[0]))
        axes.pcolormesh(cosines, cmap=colors, vmin=-1, vmax=1, edgecolors="w", linewidth=1)
        axes.invert_yaxis()
        names = [name if len(name) <= 42 else name[:41] + "…" for name in texts]
        axes.set_yticks(np.arange(len(texts)) + 0.5, names)
        axes.set_xticks([])
        axes.grid(visible=False)
        for (row, column), value in np.ndenumerate(cosines) if large else ():
            text = without_zero(number(value, 2))
            place = column + 0.5, row + 0.5
            axes.text(*place, text, ha="center", va="center", fontsize=7.5)

    return Figure(
        [(draw_svg(250 + side, side + 16, draw), "Cosine of every two prompts")],
        "Cosine of every two prompts: above 0 blue, below 0 orange. A model that tells a finding "
        "from its absence has light or orange cells between a prompt and its denial.",
    )
