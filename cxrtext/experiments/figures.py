"""The figures of an evaluation that table 1 shows, as far as it has them."""

from collections.abc import Mapping
from typing import Any

from cxrtext.evaluation.box_retrieval import mean_median_rank, mean_recall

NAMES = {
    "CNR": ("CNR", "cnr", "contrast_to_noise"),
    "mIoU": ("mIoU", "miou", "mean_iou"),
    "Recall": ("Recall", "recall", "mean_recall"),
    "MedR": ("MedR", "mean_median_rank", "median_rank"),
}
"""What a figure may be called in an evaluation."""

WHOLE = ("all", "mean", "mean of findings")
"""Where a figure that is given by finding has its mean."""

SECTIONS = ("grounding", "box_retrieval", "region_retrieval")
"""Parts of an evaluation that compare boxes with sentences.  Its ``retrieval`` is of whole images,
which the paper's Recall and MedR are not."""


def _number(value: object) -> float | None:
    if isinstance(value, Mapping):
        found = (_number(value.get(name)) for name in WHOLE)
        return next((one for one in found if one is not None), None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def _of_directions(section: Mapping[str, Any]) -> dict[str, float]:
    """Recall and MedR of both directions, where a section is of directions."""
    directions = {
        name: part for name, part in section.items() if isinstance(part, Mapping) and " to " in name
    }
    figures = {}
    for name, mean in (("Recall", mean_recall), ("MedR", mean_median_rank)):
        try:
            figures[name] = mean(directions)
        except ValueError:
            continue  # fewer candidates than a cut-off of the paper's
    return figures


def box_figures(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """CNR, mIoU, Recall and MedR of an evaluation; what it does not have is left out.

    Args:
        evaluation: As ``Evaluation.to_dict`` gives it.
    """
    figures: dict[str, float] = {}
    for key in SECTIONS:
        section = evaluation.get(key)
        if not isinstance(section, Mapping):
            continue
        figures |= _of_directions(section)
        for part in (section, *(p for p in section.values() if isinstance(p, Mapping))):
            for figure, names in NAMES.items():
                # A direction's own median rank is not the mean of both.
                if figure in figures or (figure == "MedR" and part is not section):
                    continue
                found = [n for n in (_number(part.get(name)) for name in names) if n is not None]
                if found:
                    figures[figure] = found[0]
    return figures
