"""Findings with too few patients for figures that mean much."""

from collections.abc import Mapping

from cxrtext.evaluation.intervals.comparison import OF_FINDING, Compared, Ranked
from cxrtext.evaluation.intervals.multiple import FEW, POWER, detectable_difference


def few_patients(compared: Mapping[str, Compared]) -> list[str]:
    """A line for each finding with fewer than 25 patients with it, or without.

    It says what difference could have been detected.
    """
    lines = []
    for name, one in compared.items():
        if isinstance(one, Ranked) and name.startswith(OF_FINDING):
            lines += _line(name.removeprefix(OF_FINDING), one)
    return lines


def _line(finding: str, one: Ranked) -> list[str]:
    area = one.area
    images, side = (area.positives, area.negatives), ("with", "without")
    rare = 0 if area.patients[0] <= area.patients[1] else 1
    if area.patients[rare] >= FEW:
        return []
    lower = detectable_difference(
        area.value, area.positives, area.negatives, design_effect=max(area.design_effect, 1.0)
    ) if area.value > 0 else None  # fmt: skip
    told = f"values lower by {lower:.2f} or more" if lower is not None else "no lower value"
    return [
        f"{finding}: {images[rare]} images of {area.patients[rare]} patients {side[rare]} it, "
        f"fewer than {FEW} patients: its AUC of {area.value:.2f} can be told from {told} "
        f"(the difference detectable with a power of {POWER:.0%})".replace("%", " %")
    ]
