"""The drawings of a report, by section."""

from cxrtext.evaluation.blocks import Block, Figure
from cxrtext.evaluation.report.charts import (
    forest,
    histogram,
    legend_names,
    precision_chart,
    reliability_charts,
    roc_chart,
)
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.tasks.grounding import CNR, SIGNED


def classification_figures(result: Evaluation) -> list[Block]:
    """ROC, precision and reliability; none where no finding has both classes."""
    found = result.details.zero_shot if result.details else None
    if found is None or not (names := legend_names(found.scores)):
        return []
    dots = (
        "Dots: the thresholds chosen on validation images."
        if any(one.fit for one in found.scores.values())
        else ""
    )
    kinds = ["before", "with T", "Platt"] if dots else ["before"]
    return [
        Figure([roc_chart(found.scores), precision_chart(found.scores)], dots, names),
        Figure(
            reliability_charts(found.scores),
            "Reliability: share of images with the finding against the probability, in 15 bins. "
            "A dot's area is its share of the images; on the diagonal a probability means what it "
            "says.",
            tuple(kinds),
        ),
    ]


def grounding_figures(result: Evaluation) -> list[Block]:
    """The distribution of CNR, and its means by finding."""
    findings = result.grounding["by finding"]
    rows = [
        (name, one[CNR], one["intervals"].get(CNR))
        for name, one in findings.items()
        if one[CNR] is not None
    ]
    drawn = [forest(rows, "CNR by finding", "CNR")] if rows else []
    grounded = result.details.grounded if result.details else None
    if grounded is not None:
        signed = grounded.values[SIGNED]
        known = signed[signed == signed]
        if len(known):
            drawn.insert(0, histogram(known, "CNR of all sentences", "signed CNR"))
    if drawn:
        caption = (
            "Signed CNR of every sentence: the orange ones have a map that avoids the boxes, which "
            "the paper's CNR does not tell apart. CNR by finding: means with 95 % intervals."
        )
        return [Figure(drawn, caption)]
    return []
