"""Sides, masks and phrases without a box, as blocks of a report."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cxrtext.evaluation.report.operating import estimate
from cxrtext.evaluation.result import Evaluation
from cxrtext.page import COLORS, Block, Figure, Table, Text, draw_svg, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Rows = list[list[str]]


def _with_all(found: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks by finding, and that of all sentences last."""
    return {**found["by finding"], "all sentences": found["all"]}


def side_rows(result: Evaluation) -> Rows:
    """Header, one row a finding, and all."""
    rows = [["finding", "AUC of the side", "above its mirror", "peak on its side", "left", "right"]]
    for name, one in _with_all(result.sides).items():
        cells = [estimate(one[key]) for key in ("auc", "preferred", "peak")]
        rows.append([name, *cells, str(one["left"]), str(one["sentences"] - one["left"])])
    return rows


def side_blocks(result: Evaluation) -> list[Block]:
    """Left against right."""
    note = (
        f"Of {result.sides['source']} that name one side, affirm a finding and are false with left "
        "and right exchanged, as far as the words of the report tell. AUC of the side: of the "
        "score of the form that says left less that of the form that says right, 0.5 where the "
        "model does not know sides. Above its mirror: the share of sentences that score higher "
        "than with the sides exchanged. Peak on its side: the share whose highest region lies on "
        "that side of the picture's middle, the patient's left being at the right; regions in the "
        "middle count half."
    )
    rows = side_rows(result)
    return [Text(note), Table(rows, strong=frozenset({len(rows) - 1}))]


def mask_rows(result: Evaluation) -> Rows:
    """Header, one row a finding, and all."""
    rows = [["finding", "Dice", "pixel AUROC", "best Dice", "at", "mask's share", "sentences"]]
    for name, one in _with_all(result.masks).items():
        cells = [estimate(one[key]) for key in ("dice", "pixel AUROC")]
        cells += [number(one["best dice"]), number(one["best threshold"], 2)]
        rows.append([name, *cells, number(one["mask share"]), str(one["sentences"])])
    return rows


def mask_blocks(result: Evaluation) -> list[Block]:
    """Dice and pixel AUROC."""
    found = result.masks
    chosen = (
        f"The threshold of Dice, {number(found['threshold'], 2)}, was chosen on "
        f"{found['validation sentences']} sentences of validation images."
        if found["threshold"] is not None
        else "There are no masks on validation images, so that no threshold of Dice was chosen."
    )
    note = (
        "For every sentence with masks, of the map of region scores in original pixels; several "
        f"masks of a sentence are one. {chosen} Best Dice is at the threshold that is best for the "
        "row itself: it flatters. A map that says nothing has a pixel AUROC of 0.5."
    )
    rows = mask_rows(result)
    table = Table(rows, strong=frozenset({len(rows) - 1}))
    return [Text(note), table, *([_curve(found)] if found["curve"]["dice"] else [])]


def _curve(found: Mapping[str, Any]) -> Figure:
    curve = found["curve"]

    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot(
            title="Dice by threshold", xlabel="threshold", ylabel="mean Dice"
        )
        axes.plot(curve["thresholds"], curve["dice"], color=COLORS[0])
        if found["threshold"] is not None:
            axes.axvline(found["threshold"], color=COLORS[1], linewidth=1)
        axes.set(xlim=(-1, 1), ylim=(0, None))

    caption = "Mean Dice of all sentences. Line: the threshold chosen on validation images."
    return Figure([(draw_svg(420, 260, draw), "Dice by threshold")], caption)


def absence_rows(result: Evaluation) -> Rows:
    """Header, one row a finding, and all."""
    rows = [["finding", "AUC", "with a box", "without"]]
    for name, one in _with_all(result.absence).items():
        if not (one["with a box"] and one["without"]):
            continue
        rows.append([name, estimate(one["auc"]), str(one["with a box"]), str(one["without"])])
    mean = result.absence["mean of findings"]
    if mean is not None:
        rows.insert(-1, ["mean of findings", number(mean), "", ""])
    return rows


def absence_blocks(result: Evaluation) -> list[Block]:
    """Phrases without a box."""
    note = (
        "Sentences that were looked for in an image: the chance that one with a box there scores "
        "above one without, by the image-sentence score. Of the findings that have sentences of "
        "both kinds. The AUC of all compares sentences of different findings too, whose scores "
        "differ anyway."
    )
    rows = absence_rows(result)
    blocks: list[Block] = [Text(note), Table(rows, strong=frozenset({len(rows) - 1}))]
    shares = [["threshold by", "threshold", "found", "false alarms"]]
    for one in result.absence["thresholds"]:
        cells = [estimate(one[key]) for key in ("sensitivity", "false alarms")]
        shares.append([one["chosen"], number(one["threshold"], 2), *cells])
    if len(shares) > 1:
        caption = "Shares of sentences above thresholds that validation sentences chose"
        blocks.append(Table(shares, caption))
    return blocks
