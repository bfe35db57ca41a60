"""Operating points, net benefit and findings as classes, as blocks of a report."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cxrtext.evaluation.classification.points import SCORES
from cxrtext.evaluation.result import Evaluation
from cxrtext.page import COLORS, EMPTY, Block, Figure, Table, Text, draw_svg, number, with_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Rows = list[list[str]]
INFINITE = "∞"
PANELS = 12
"""Most findings whose net benefit is drawn."""


def estimate(one: Mapping[str, Any], digits: int = 3) -> str:
    """A figure with its interval."""
    ends = None if one["low"] is None or one["high"] is None else (one["low"], one["high"])
    return with_interval(one["value"], ends, digits)


def ratio(one: Mapping[str, Any]) -> str:
    """A likelihood ratio, which may be infinite, or undefined where even its low end is."""
    if one["low"] is None:
        return EMPTY
    value, high = (
        INFINITE if end is None else number(end, 2) for end in (one["value"], one["high"])
    )
    return f"{value} [{number(one['low'], 2)}, {high}]"


def share_rows(result: Evaluation) -> Rows:
    """Header, and for each finding and threshold the shares and likelihood ratios."""
    names = "sensitivity", "specificity", "ppv", "npv"
    rows = [["finding", "threshold by", "sensitivity", "specificity", "PPV", "NPV", "LR+", "LR−"]]
    for finding, one in result.operating.items():
        for point in one["points"]:
            ratios = (ratio(point[name]) for name in ("ratio_positive", "ratio_negative"))
            shares = (estimate(point[name], 2) for name in names)
            rows.append([finding, point["chosen"], *shares, *ratios])
    return rows


def count_rows(result: Evaluation) -> Rows:
    """Header, and for each finding and threshold the counts, F1 and MCC."""
    rows = [["finding", "threshold by", "threshold", "TP", "FP", "FN", "TN", "F1", "MCC"]]
    for finding, one in result.operating.items():
        for point in one["points"]:
            cells = [point["chosen"], number(point["threshold"], 2)]
            cells += [str(count) for count in point["counts"].values()]
            cells += [estimate(point[name], 2) for name in ("f1", "mcc")]
            rows.append([finding, *cells])
    return rows


def prevalence_rows(result: Evaluation) -> Rows:
    """Header, and PPV and NPV at the data's prevalence and at the one that was asked for."""
    rows = [
        ["finding", "threshold by", "prevalence", "PPV", "NPV", "other prevalence", "PPV at it",
         "NPV at it"]
    ]  # fmt: skip
    for finding, one in result.operating.items():
        for point in one["points"]:
            other = point["at_prevalence"]
            if not other:
                continue
            cells = [finding, point["chosen"]]
            for part in (point, other):
                shares = (estimate(part[name]) for name in ("ppv", "npv"))
                cells += [number(part["prevalence"], 3), *shares]
            rows.append(cells)
    return rows


def calibration_rows(result: Evaluation) -> Rows:
    """Header, and slope and intercept by finding."""
    rows = [["finding", "slope", "intercept"]]
    for finding, one in result.operating.items():
        rows.append([finding, *(estimate(one["calibration"][n], 2) for n in rows[0][1:])])
    return rows


def operating_blocks(result: Evaluation) -> list[Block]:
    """What thresholds do, and what acting by the probability is worth."""
    blocks: list[Block] = [
        Text(
            "Both thresholds were chosen on validation images and are measured here on others. "
            "PPV and NPV are those of these data, whose prevalence may be that of no hospital; "
            "likelihood ratios do not depend on it. Brackets: Wilson's 95 % intervals, clustered "
            "by patient, of shares; of likelihood ratios what follows from them; of F1 and MCC "
            "percentiles."
        ),
        Table(share_rows(result), "Shares and likelihood ratios"),
        Table(count_rows(result), "Counts"),
    ]
    rows = prevalence_rows(result)
    if len(rows) > 1:
        blocks.append(Table(rows, "Predictive values of these data and of another prevalence"))
    blocks += [
        Text(
            "Calibration slope and intercept of the probability with Platt's scale and shift. "
            "A slope below 1: probabilities are too extreme. An intercept above 0: the finding is "
            "more frequent here than the validation images suggest."
        ),
        Table(calibration_rows(result), "Calibration"),
    ]
    return [*blocks, *_benefit(result)]


def _benefit(result: Evaluation) -> list[Figure]:
    found = dict(list(result.operating.items())[:PANELS])
    if not found:
        return []

    def drawn(name: str, one: Mapping[str, Any]) -> bytes:
        prevalence = one["points"][0]["prevalence"]
        return draw_svg(
            215, 190, lambda drawing: _panel(drawing, name, one["net_benefit"], prevalence)
        )

    caption = (
        "Net benefit in true positives an image, against the probability from which on one would "
        "act; false positives are weighed by the odds of that probability. Blue: acting by the "
        "model, which is of use where it is above both lines, acting on all (orange) and on none "
        "(gray). Band: 95 %."
    )
    drawings = [(drawn(name, one), f"Net benefit of {name}") for name, one in found.items()]
    return [Figure(drawings, caption)]


def _panel(drawing: "Drawing", name: str, curve: Mapping[str, Any], prevalence: float) -> None:
    axes = drawing.add_subplot()
    cuts = np.asarray(curve["thresholds"])
    axes.plot(cuts, curve["model"], color=COLORS[0])
    if curve["low"]:
        ends = curve["low"], curve["high"]
        axes.fill_between(cuts, *ends, color=COLORS[0], alpha=0.18, linewidth=0)
    axes.plot(cuts, curve["everyone"], color=COLORS[1])
    axes.axhline(0, color="0.45", linewidth=1)
    top = max([prevalence, *curve["high"][: len(cuts) // 2]])
    axes.set(
        xlim=(0, 1), ylim=(-0.25 * top, 1.1 * top), xticks=(0, 0.5, 1), title=name,
        xlabel="probability", ylabel="net benefit",
    )  # fmt: skip


def class_blocks(result: Evaluation) -> list[Block]:
    """Findings as classes: accuracy, precision of the first images, and what is taken for what."""
    found = result.multiclass
    names = list(found["by finding"])
    cuts = list(found[SCORES[0]]["precision"])
    rows = [["score", "accuracy", "mean recall", *cuts]]
    for score in SCORES:
        one = found[score]
        cells = [estimate(one["accuracy"]), number(one["balanced_accuracy"])]
        rows.append([score, *cells, *(number(one["precision"][cut]["mean"]) for cut in cuts)])
    precision = [["finding", "images", *cuts]]
    own = found[SCORES[0]]
    for name in names:
        values = (own["precision"][cut]["by finding"][name] for cut in cuts)
        precision.append([name, str(found["by finding"][name]), *map(number, values)])
    matrix = [["image has", *names]]
    matrix += [
        [name, *map(str, counts)] for name, counts in zip(names, own["confusion"], strict=True)
    ]
    note = (
        f"Of the {found['images']} images that have exactly one of the findings, in the manner of "
        "CheXpert 5x200: a finding that is unknown counts as absent; images with none, with "
        f"several or with an uncertain one are left out ({found['left out']}). Accuracy: the "
        f"finding whose score is highest, of {len(names)}. P@K: the share of the first K images "
        "for a finding's sentence that have it, which a finding in fewer images cannot bring to "
        "1; a mean over findings, without an interval. Compare data sets only where findings are "
        "equally frequent."
    )
    return [
        Text(note),
        Table(rows),
        Table(precision, "Precision of the first images, by the positive prompt"),
        Table(matrix, "Images by their finding, and the one that scores highest"),
    ]
