"""What can be seen in a study: the axes of its state and their values.

How often each value occurs is in ``prevalence``.  Right and left are the patient's.
"""

from dataclasses import dataclass
from typing import Any

LOBES = (
    "right lower lobe",
    "left lower lobe",
    "right upper lobe",
    "right middle lobe",
    "left upper lobe",
    "lingula",
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

BASES = ("left base", "right base", "both bases")
"""Places of an atelectasis, the commonest first."""

RIBS = (6, 7, 5, 8, 4)
"""Ribs that break, the commonest first."""


def _pneumonias() -> list[tuple[int, tuple[str, ...]]]:
    places: list[tuple[str, ...]] = [(lobe,) for lobe in LOBES]
    places += LOBE_PAIRS
    return [(grade, place) for place in places for grade in (1, 2, 3)]


def _pneumothoraces() -> list[tuple[int, str, str]]:
    values = []
    for side in ("right", "left"):
        values += [(1, side, "apical"), (2, side, "apical"), (1, side, "lateral")]
        values += [(2, side, "lateral"), (1, side, "basilar"), (2, side, "basilar")]
        values += [(3, side, "apicolateral"), (4, side, "tension")]
    return [*values, (1, "both", "apical"), (2, "both", "apical")]


VALUES: dict[str, tuple[Any, ...]] = {
    "cardiomegaly": (0, 1, 2, 3),
    "edema": ((0, ""), *((grade, lean) for grade in (1, 2, 3) for lean in ("", "right", "left"))),
    "effusion": tuple((right, left) for right in range(4) for left in range(4)),
    "pneumonia": ((0, ()), *_pneumonias()),
    "pneumothorax": ((0, "", ""), *_pneumothoraces()),
    "aorta": ("normal", "tortuous", "calcified"),
    "spine": ("straight", "degenerative", "scoliosis right", "scoliosis left"),
    "volume": ("normal", "low", "high"),
    "atelectasis": ((0, ""), *((g, b) for b in BASES for g in (1, 2))),
    "nodule": ((0, ""), *((g, lobe) for lobe in LOBES for g in (1, 2, 3))),
    "granuloma": ("", *LOBES),
    "emphysema": (0, 1, 2),
    "fibrosis": (0, 1, 2),
    "hernia": (0, 1, 2),
    "diaphragm": ("", "right", "left"),
    "fracture": (("", 0), *((side, rib) for side in ("right", "left") for rib in RIBS)),
    "tube": ("", "good", "low", "high"),
    "line": ("", "right ij", "left ij", "right picc", "left picc", "right subclavian"),
    "pacemaker": ("", "left single", "left dual", "right dual"),
    "drain": ("", "right", "left"),
    "wires": (False, True),
}
"""Every value that each axis of a study's state can take; the first is the normal one."""


@dataclass(frozen=True, slots=True)
class State:
    """What is to be seen in one study."""

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

    def places(self) -> tuple[tuple[str, str], ...]:
        """Every (finding, part) that is there; the parts are those of the boxes."""
        places = [("Cardiomegaly", "heart")] if self.cardiomegaly else []
        if self.edema[0]:
            places += [("Edema", side) for side in ("right", "left")]
        for side, grade in zip(("right", "left"), self.effusion, strict=True):
            places += [("Pleural Effusion", side)] if grade else []
        places += [("Pneumonia", lobe) for lobe in self.pneumonia[1]]
        for side in ("right", "left"):
            if self.pneumothorax[1] in (side, "both"):
                places.append(("Pneumothorax", side))
        return tuple(places)

    def further_places(self) -> tuple[tuple[str, str, str], ...]:
        """Every (axis, finding, part) beside the five findings; spine and aorta have no place."""
        base, sides = self.atelectasis[1], ("right", "left")
        places = [
            ("atelectasis", "Atelectasis", side)
            for side in sides
            if base in (BASES[2], f"{side} base")
        ]
        places += [("nodule", "Lung Lesion", self.nodule[1])] if self.nodule[0] else []
        places += [("granuloma", "Granuloma", self.granuloma)] if self.granuloma else []
        places += [("emphysema", "Emphysema", side) for side in sides if self.emphysema]
        places += [("fibrosis", "Fibrosis", side) for side in sides if self.fibrosis]
        places += [("hernia", "Hiatal Hernia", "hiatus")] if self.hernia else []
        places += (
            [("diaphragm", "Elevated Hemidiaphragm", self.diaphragm)] if self.diaphragm else []
        )
        places += [("fracture", "Fracture", self.fracture[0])] if self.fracture[1] else []
        places += [("tube", "Endotracheal Tube", "trachea")] if self.tube else []
        places += [("line", "Central Line", self.line.split()[0])] if self.line else []
        places += [("pacemaker", "Pacemaker", self.pacemaker.split()[0])] if self.pacemaker else []
        places += [("drain", "Chest Tube", self.drain)] if self.drain else []
        places += [("wires", "Sternotomy Wires", "sternum")] if self.wires else []
        return tuple(places)

    def labels(self) -> dict[str, int]:
        """The CheX5 labels, 1 or 0, by finding."""
        return {
            "Cardiomegaly": int(self.cardiomegaly > 0),
            "Edema": int(self.edema[0] > 0),
            "Pleural Effusion": int(any(self.effusion)),
            "Pneumonia": int(self.pneumonia[0] > 0),
            "Pneumothorax": int(self.pneumothorax[0] > 0),
        }

    def is_normal(self) -> bool:
        """Whether every axis has its normal value."""
        return self == State()
