"""What can be seen in a study: the axes of its state, with all that is a fact of one.

A new finding has its entry in ``AXES`` and its field in ``State``, a function that draws it in
``findings``, one that says it in ``sentences.present``, and its phrasings in ``phrases``.
Right and left are the patient's.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cxrtext.records import CHEX5

SIDES = ("right", "left")

LOBES = (
    *("right lower lobe", "left lower lobe", "right upper lobe"),
    *("right middle lobe", "left upper lobe", "lingula"),
)
"""Places of a pneumonia, the commonest first."""

LOBE_PAIRS = (
    ("right lower lobe", "left lower lobe"),
    ("right middle lobe", "right lower lobe"),
    ("right upper lobe", "right lower lobe"),
    ("lingula", "left lower lobe"),
    ("left upper lobe", "left lower lobe"),
    ("right upper lobe", "right middle lobe"),
    ("right upper lobe", "left upper lobe"),
    ("right upper lobe", "left lower lobe"),
    ("left upper lobe", "lingula"),
)
"""Places of a pneumonia in two lobes, the commonest first."""

BASES = ("left base", "right base", "both bases")  # places of an atelectasis, the commonest first
RIBS = (6, 7, 5, 8, 4)  # ribs that break, the commonest first


def _pneumothoraces() -> list[tuple[int, str, str]]:
    values = []
    for side in ("right", "left"):
        values += [(1, side, "apical"), (2, side, "apical"), (1, side, "lateral")]
        values += [(2, side, "lateral"), (1, side, "basilar"), (2, side, "basilar")]
        values += [(3, side, "apicolateral"), (4, side, "tension")]
    return [*values, (1, "both", "apical"), (2, "both", "apical")]


GRADE_SHARE = (0.46, 0.34, 0.20)  # how often a finding that is there is mild, moderate and severe


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that a study may show."""

    values: Sequence[Any]  # every one that it can take; the first is the normal one
    finding: str = ""  # as in the boxes and labels; "" where it has no box
    parts: Callable[[Any], Iterable[str]] = lambda _: ()  # where a value is seen, as in the boxes
    labels: tuple[str, ...] = ()  # CheXpert's, beside its own name
    # Probability of another value than the normal one by age group, and the others' weights;
    # without it a function of ``population`` says.
    prevalence: tuple[float, float, float] | None = None
    weights: Sequence[float] = ()
    stays: bool = False  # whether it is that of the patient, not of the study
    # How much more or less than others it is made fainter; None for what is as dense as ever.
    faintness: float | None = None
    omitted: float = 0.0  # probability that a report does not speak of it
    urgent: bool = False  # whether an impression likes to repeat it
    examples: tuple[Any, ...] = ()  # values to look at


AXES: dict[str, Axis] = {
    "cardiomegaly": Axis(
        values=(0, 1, 2, 3),
        finding="Cardiomegaly",
        parts=lambda _: ("heart",),
        labels=("Enlarged Cardiomediastinum",),
        prevalence=(0.11, 0.22, 0.31),
        weights=GRADE_SHARE,
        examples=(1, 2, 3),
    ),
    "pneumothorax": Axis(
        values=((0, "", ""), *_pneumothoraces()),
        finding="Pneumothorax",
        parts=lambda value: SIDES if value[1] == "both" else value[1:2],
        faintness=0.7,
        examples=((1, "right", "apical"), (2, "left", "lateral"), (4, "right", "tension")),
    ),
    "edema": Axis(
        values=((0, ""), *((g, lean) for g in (1, 2, 3) for lean in ("", *SIDES))),
        finding="Edema",
        parts=lambda _: SIDES,
        labels=("Lung Opacity",),
        faintness=1.3,
        examples=((1, ""), (2, "right"), (3, "")),
    ),
    "effusion": Axis(
        values=tuple((right, left) for right in range(4) for left in range(4)),
        finding="Pleural Effusion",
        parts=lambda value: (side for side, grade in zip(SIDES, value, strict=True) if grade),
        faintness=1.1,
        examples=((1, 0), (0, 2), (3, 1)),
    ),
    "pneumonia": Axis(
        values=(
            (0, ()),
            *((g, (lobe,)) for lobe in LOBES for g in (1, 2, 3)),
            *((g, pair) for pair in LOBE_PAIRS for g in (1, 2, 3)),
        ),
        finding="Pneumonia",
        parts=lambda value: value[1],
        labels=("Lung Opacity", "Consolidation"),
        faintness=0.8,
        examples=(
            (1, ("right lower lobe",)),
            (2, ("left upper lobe",)),
            (3, ("right middle lobe",)),
        ),
    ),
    "aorta": Axis(
        values=("normal", "tortuous", "calcified"),
        prevalence=(0.02, 0.14, 0.36),
        weights=(0.6, 0.4),
        stays=True,
    ),
    "spine": Axis(
        values=("straight", "degenerative", "scoliosis right", "scoliosis left"),
        prevalence=(0.05, 0.15, 0.34),
        weights=(0.62, 0.25, 0.13),
        stays=True,
    ),
    "volume": Axis(values=("normal", "low", "high")),
    "tube": Axis(
        values=("", "good", "low", "high"),
        finding="Endotracheal Tube",
        parts=lambda _: ("trachea",),
        labels=("Support Devices",),
        omitted=0.04,
        urgent=True,
        examples=("good", "low", "high"),
    ),
    "line": Axis(
        values=("", "right ij", "left ij", "right picc", "left picc", "right subclavian"),
        finding="Central Line",
        parts=lambda value: value.split()[:1],
        labels=("Support Devices",),
        omitted=0.08,
        examples=("right ij", "left picc", "right subclavian"),
    ),
    "drain": Axis(
        values=("", *SIDES),
        finding="Chest Tube",
        parts=lambda value: (value,),
        labels=("Support Devices",),
        omitted=0.04,
        examples=("right", "left", "right"),
    ),
    "atelectasis": Axis(
        values=((0, ""), *((g, base) for base in BASES for g in (1, 2))),
        finding="Atelectasis",
        parts=lambda value: (s for s in SIDES if value[1] in ("both bases", f"{s} base")),
        labels=("Lung Opacity",),
        faintness=1.0,
        omitted=0.10,
        urgent=True,
        examples=((1, "right base"), (1, "both bases"), (2, "left base")),
    ),
    "nodule": Axis(
        values=((0, ""), *((g, lobe) for lobe in LOBES for g in (1, 2, 3))),
        prevalence=(0.018, 0.045, 0.065),
        weights=[
            s * (1.0 / (rank + 1.4)) for rank in range(len(LOBES)) for s in (0.55, 0.31, 0.14)
        ],
        finding="Lung Lesion",
        parts=lambda value: value[1:],
        labels=("Lung Opacity",),
        faintness=1.0,
        omitted=0.06,
        urgent=True,
        examples=((1, "right upper lobe"), (2, "lingula"), (3, "right lower lobe")),
    ),
    "granuloma": Axis(
        values=("", *LOBES),
        finding="Granuloma",
        parts=lambda value: (value,),
        prevalence=(0.025, 0.05, 0.06),
        weights=tuple(1.0 / (rank + 1.6) for rank in range(len(LOBES))),
        stays=True,
        faintness=1.0,
        omitted=0.18,
        examples=("left upper lobe", "right middle lobe", "right upper lobe"),
    ),
    "emphysema": Axis(
        values=(0, 1, 2),
        finding="Emphysema",
        parts=lambda _: SIDES,
        prevalence=(0.004, 0.05, 0.10),
        weights=(0.65, 0.35),
        stays=True,
        faintness=1.0,
        omitted=0.12,
        urgent=True,
        examples=(1, 2, 2),
    ),
    "fibrosis": Axis(
        values=(0, 1, 2),
        finding="Fibrosis",
        parts=lambda _: SIDES,
        prevalence=(0.006, 0.02, 0.05),
        weights=(0.66, 0.34),
        stays=True,
        faintness=1.0,
        omitted=0.10,
        urgent=True,
        examples=(1, 2, 2),
    ),
    "diaphragm": Axis(
        values=("", *SIDES),
        finding="Elevated Hemidiaphragm",
        parts=lambda value: (value,),
        prevalence=(0.015, 0.025, 0.04),
        weights=(0.66, 0.34),
        omitted=0.15,
        examples=("right", "left", "right"),
    ),
    "hernia": Axis(
        values=(0, 1, 2),
        finding="Hiatal Hernia",
        parts=lambda _: ("hiatus",),
        prevalence=(0.004, 0.02, 0.055),
        weights=(0.68, 0.32),
        stays=True,
        faintness=0.45,
        omitted=0.18,
        examples=(1, 2, 2),
    ),
    "fracture": Axis(
        values=(("", 0), *((side, rib) for side in SIDES for rib in RIBS)),
        prevalence=(0.02, 0.035, 0.055),
        weights=[s * (1.0 / (r + 1.5)) for s in (0.48, 0.52) for r in range(len(RIBS))],
        finding="Fracture",
        parts=lambda value: value[:1],
        stays=True,
        faintness=0.45,
        omitted=0.10,
        urgent=True,
        examples=(("right", 6), ("left", 7), ("left", 4)),
    ),
    "pacemaker": Axis(
        values=("", "left single", "left dual", "right dual"),
        finding="Pacemaker",
        parts=lambda value: value.split()[:1],
        labels=("Support Devices",),
        prevalence=(0.002, 0.018, 0.07),
        weights=(0.3, 0.6, 0.1),
        stays=True,
        omitted=0.08,
        examples=("left dual", "left single", "right dual"),
    ),
    "wires": Axis(
        values=(False, True),
        finding="Sternotomy Wires",
        parts=lambda _: ("sternum",),
        labels=("Support Devices",),
        prevalence=(0.006, 0.045, 0.10),
        weights=(1.0,),
        stays=True,
        omitted=0.15,
        examples=(True, True, True),
    ),
}
"""Everything that a study may show.

The order is that of a report on what is beside the five CheX5 findings, of the draws of what stays
with a patient, and of the draws of how faint a finding is: what is new comes last.
"""

VALUES = {name: axis.values for name, axis in AXES.items()}
FIVE = tuple(name for name, axis in AXES.items() if axis.finding in CHEX5)
"""The axes of the CheX5 findings, of which every report speaks."""


@dataclass(frozen=True, slots=True)
class State:
    cardiomegaly: int = 0  # grade, 0 (none) to 3 (severe)
    edema: tuple[int, str] = (0, "")  # grade 0 to 3, and the side that is worse ("" where neither)
    effusion: tuple[int, int] = (0, 0)  # grades 0 to 3 of the right and of the left side
    pneumonia: tuple[int, tuple[str, ...]] = (0, ())  # grade 0 to 3, and the lobes
    # Grade 0 to 4 (tension), side ("right", "left", "both"), and place.
    pneumothorax: tuple[int, str, str] = (0, "", "")
    aorta: str = "normal"  # "normal", "tortuous" or "calcified"
    spine: str = "straight"  # "straight", "degenerative", "scoliosis right" or "scoliosis left"
    volume: str = "normal"  # "normal", "low" or "high"
    # Grade 0 to 2 (1 linear, 2 a basal opacity), and the base.
    atelectasis: tuple[int, str] = (0, "")
    # Grade 0 to 3 (below 1 cm, 1 to 3 cm, a mass above 3 cm), and the lobe.
    nodule: tuple[int, str] = (0, "")
    granuloma: str = ""  # the lobe of a calcified granuloma, "" without
    emphysema: int = 0  # grade 0 to 2; hyperinflated, flat domes, few vessels above
    fibrosis: int = 0  # grade 0 to 2 of basal reticular lines
    hernia: int = 0  # hiatal: 0, small 1, large 2
    diaphragm: str = ""  # the side of an elevated hemidiaphragm, "" without
    fracture: tuple[str, int] = ("", 0)  # side and number of a broken rib
    tube: str = ""  # endotracheal: "", tip in a good place, too low (right main bronchus), too high
    line: str = ""  # central venous: "" or where it enters; its tip is in the superior vena cava
    pacemaker: str = ""  # "" or the side of its box, and one or two leads
    drain: str = ""  # the side of a chest tube
    wires: bool = False  # sternotomy wires

    def present(self, axis: str) -> bool:
        """Whether an axis has another value than its normal one."""
        return bool(getattr(self, axis) != VALUES[axis][0])

    def places(self, *axes: str) -> tuple[tuple[str, str], ...]:
        """Every (finding, part) that is there, as in the boxes; by default of the five findings."""
        return tuple(
            (AXES[axis].finding, part)
            for axis in axes or FIVE
            if self.present(axis)
            for part in AXES[axis].parts(getattr(self, axis))
        )

    def labels(self) -> dict[str, int]:
        """The CheX5 labels, 1 or 0, by finding."""
        there = {AXES[axis].finding for axis in FIVE if self.present(axis)}
        return {name: int(name in there) for name in CHEX5}
