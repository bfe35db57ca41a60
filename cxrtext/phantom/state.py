"""What a study may show: the axes of its state.  Right and left are the patient's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cxrtext.records import CHEX5
from cxrtext.records.labels import CHEXPERT

SIDES = ("right", "left")
GRADES = (1, 2, 3)  # mild, moderate and severe; or small, moderate and large
LOBES = (
    *("right lower lobe", "left lower lobe", "right upper lobe"),
    *("right middle lobe", "left upper lobe", "lingula"),
)
"""Places of a pneumonia, the most common first."""


def side_of(place: str) -> str:
    """The side of a lobe or of a device."""
    return "right" if place.startswith("right") else "left"


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that a study may show."""

    values: Sequence[Any]  # all possible values; the first is the normal one
    finding: str  # as in the boxes
    parts: Callable[[Any], Sequence[str]]  # where a value shows, as in the boxes
    labels: tuple[str, ...] = ("Support Devices",)  # CheXpert's


_HEART = ("Cardiomegaly", "Enlarged Cardiomediastinum")
_LOBE = ("Pneumonia", "Consolidation", "Lung Opacity")
_LOBES = (0, ""), *((grade, lobe) for lobe in LOBES for grade in GRADES)
_SIDES = (0, ""), *((grade, side) for side in SIDES for grade in GRADES)
_LINES = "", "right ij", "left ij", "right picc", "left picc"
_FLUID = "Pleural Effusion"
AXES = {
    "cardiomegaly": Axis((0, *GRADES), "Cardiomegaly", lambda _: ["heart"], _HEART),
    "edema": Axis((0, *GRADES), "Edema", lambda _: SIDES, ("Edema", "Lung Opacity")),
    "effusion_right": Axis((0, *GRADES), _FLUID, lambda _: ["right"], (_FLUID,)),
    "effusion_left": Axis((0, *GRADES), _FLUID, lambda _: ["left"], (_FLUID,)),
    "pneumonia": Axis(_LOBES, "Pneumonia", lambda value: value[1:], _LOBE),
    "pneumothorax": Axis(_SIDES, "Pneumothorax", lambda value: value[1:], ("Pneumothorax",)),
    "tube": Axis(("", "good", "low"), "Endotracheal Tube", lambda _: ["trachea"]),
    "line": Axis(_LINES, "Central Line", lambda value: [side_of(value)]),
}
"""Everything that a study may show, by the name of its field in `State`."""

FIVE = tuple(name for name, axis in AXES.items() if axis.finding in CHEX5)
"""The axes of the CheX5 findings, which every report mentions."""

DEVICES = tuple(name for name in AXES if name not in FIVE)

LABELS = {
    label: axes
    for label in CHEXPERT
    if (axes := tuple(name for name, axis in AXES.items() if label in axis.labels))
}
"""The axes of each label."""


@dataclass(frozen=True, slots=True)
class State:
    cardiomegaly: int = 0  # grade, 0 (none) to 3 (severe)
    edema: int = 0  # grade
    effusion_right: int = 0  # grade
    effusion_left: int = 0  # grade
    pneumonia: tuple[int, str] = (0, "")  # grade and lobe
    pneumothorax: tuple[int, str] = (0, "")  # grade and side
    tube: str = ""  # endotracheal: tip in a "good" place, or too "low"
    line: str = ""  # central venous: where it enters; its tip is in the superior vena cava

    def present(self, axis: str) -> bool:
        """Whether an axis has another value than its normal one."""
        return bool(getattr(self, axis) != AXES[axis].values[0])

    def places(self, axis: str) -> tuple[tuple[str, str], ...]:
        """The (finding, part) pairs of an axis, as in the boxes; none if it is normal."""
        parts = AXES[axis].parts(getattr(self, axis)) if self.present(axis) else ()
        return tuple((AXES[axis].finding, part) for part in parts)

    def labels(self) -> dict[str, int]:
        """The labels of what is present, 1 or 0; No Finding ignores devices."""
        labels = {label: int(any(map(self.present, axes))) for label, axes in LABELS.items()}
        return {"No Finding": int(not any(map(self.present, FIVE))), **labels}
