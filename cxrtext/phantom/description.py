"""FINDINGS: lungs, pleura, heart, bones and devices, in one of the usual orders."""

from collections.abc import Iterator, Sequence

from cxrtext.phantom.chest_claims import LUNGS_CLEAR
from cxrtext.phantom.chest_wording import further
from cxrtext.phantom.claims import lobe_side
from cxrtext.phantom.comparing import compare, gone
from cxrtext.phantom.negation import denial, deny, deny_all, deny_side, incidental, lungs
from cxrtext.phantom.pairings import clear_and_volume, heart_and_aorta
from cxrtext.phantom.population import State
from cxrtext.phantom.wording import Statement, Voice

OMITTED: dict[str, float] = {
    "tube": 0.04,
    "line": 0.08,
    "drain": 0.04,
    "atelectasis": 0.10,
    "nodule": 0.06,
    "granuloma": 0.18,
    "emphysema": 0.12,
    "fibrosis": 0.10,
    "diaphragm": 0.15,
    "hernia": 0.18,
    "fracture": 0.10,
    "pacemaker": 0.08,
    "wires": 0.15,
}
"""Probability that a report does not speak of a finding that is there, by axis.

The five findings are never left out; a spine or an aorta that is not normal is told of with 0.85,
and a lung volume that is not with 0.9, in a report that has FINDINGS.
"""

LUNG = ("atelectasis", "nodule", "granuloma", "emphysema", "fibrosis")
DEVICES = ("tube", "line", "drain", "pacemaker", "wires")

GONE_AXES = (
    "pneumonia",
    "edema",
    "effusion",
    "pneumothorax",
    "atelectasis",
    "tube",
    "line",
    "drain",
)
"""What a report may tell of when it is no longer there."""

ORDERS = (
    ("lungs", "pleura", "heart", "bones"),
    ("heart", "lungs", "pleura", "bones"),
    ("heart", "pleura", "lungs", "bones"),
    ("lungs", "heart", "pleura", "bones"),
)


def description(
    voice: Voice,
    state: State,
    before: State | None,
    present: Sequence[str],
    others: Sequence[str],
) -> list[Statement]:
    """The section's sentences.

    Args:
        voice: Who speaks.
        state: The study's state.
        before: The state of the patient's study before.
        present: Axes of the five findings that are there.
        others: Further axes that the report speaks of.

    Returns:
        One sentence at least; all of ``present`` and ``others`` is told of.
    """
    teller = _Teller(voice, state, before, present, others)
    parts = {
        "lungs": teller.lungs(),
        "pleura": teller.pleura(),
        "heart": teller.heart(),
        "bones": teller.bones(),
    }
    weights = (0.33, 0.36, 0.13, 0.18)
    order = ORDERS[int(voice.generator.choice(len(ORDERS), p=weights))]
    said = [statement for part in order for statement in parts[part]]
    devices = teller.further(DEVICES)
    if not devices and denial("devices").holds(state) and voice.chance(0.02):
        devices = [deny(voice, "devices")]
    said += gone(voice, GONE_AXES, state, before)
    said = [*devices, *said] if voice.chance(0.6) else [*said, *devices]
    return said or [deny(voice, "cardiomegaly")]


class _Teller:
    """Tells of one study, part by part."""

    def __init__(
        self,
        voice: Voice,
        state: State,
        before: State | None,
        present: Sequence[str],
        others: Sequence[str],
    ) -> None:
        self.voice, self.state, self.before = voice, state, before
        self.present, self.others = present, others

    def five(self, *axes: str) -> list[Statement]:
        """Those of the five findings that are there."""
        said = []
        for axis in axes:
            if axis in self.present:
                told = self.voice.present(axis, self.state, self.voice.chance(0.85))
                said += compare(self.voice, told, axis, self.state, self.before)
        return said

    def further(self, axes: Sequence[str]) -> list[Statement]:
        """Those further findings that are told of."""
        said = []
        for axis in axes:
            if axis in self.others:
                # The coarse words for a nodule recommend or recall what only FINDINGS describe.
                full = axis == "nodule" or self.voice.chance(0.88)
                told = further(self.voice, axis, self.state, full)
                said += compare(self.voice, [told], axis, self.state, self.before)
        return said

    def lungs(self) -> list[Statement]:
        """Volume, opacities, or that the lungs are clear."""
        voice, state = self.voice, self.state
        if LUNGS_CLEAR.holds(state) and voice.chance(0.16):
            return [clear_and_volume(voice, state), *self.further(LUNG)]
        tell = voice.chance(0.17 if state.volume == "normal" else 0.9)
        said = [incidental(voice, "volume", state.volume)] if tell else []
        opacities = self.five("pneumonia", "edema") + self.further(LUNG)
        said += opacities
        clear = lungs(voice, state)
        # "Otherwise" wants something said before.
        fits = clear and (opacities or clear.claim == LUNGS_CLEAR)
        if clear and fits and voice.chance(0.62 if not opacities else 0.45):
            said.append(clear)
        if "edema" not in self.present and voice.chance(0.2):
            said.append(deny(voice, "edema"))
        said += self._clear_side()
        return said

    def _clear_side(self) -> Iterator[Statement]:
        """The lung on the other side of a pneumonia."""
        sides = {lobe_side(lobe) for lobe in self.state.pneumonia[1]}
        if len(sides) == 1 and self.voice.chance(0.3):
            side = "left" if "right" in sides else "right"
            statement = deny_side(self.voice, "lung", side)
            if not statement.claim.holds(self.state):
                statement = deny_side(self.voice, "pneumonia", side)
            yield statement

    def pleura(self) -> list[Statement]:
        """Effusions, air, and a list of what is not there."""
        voice, state = self.voice, self.state
        said = self.five("effusion", "pneumothorax") + self.further(("diaphragm",))
        absent = [a for a in ("pneumonia", "effusion", "pneumothorax") if a not in self.present]
        if max(state.effusion) < 3 and voice.chance(0.14 if "effusion" in absent else 0.05):
            absent = [a for a in absent if a != "effusion"] + ["large effusion"]
        rest = [a for a in ("edema", "nodule", "atelectasis") if denial(a).holds(state)]
        absent += [a for a in rest if voice.chance({"edema": 0.12, "nodule": 0.09}.get(a, 0.03))]
        if len(absent) > 1 and voice.chance(0.62):
            if voice.chance(0.45):
                voice.generator.shuffle(absent)
            count = len(absent) if voice.chance(0.5) else 2
            said.append(deny_all(voice, absent[:count]))
            absent = absent[count:]
        said += [deny(voice, axis) for axis in absent if voice.chance(0.45)]
        for axis, clear in _clear_sides(state):
            if voice.chance(0.15):
                said.append(deny_side(voice, axis, clear))
        return said

    def heart(self) -> list[Statement]:
        """Heart, aorta and mediastinum."""
        voice, state = self.voice, self.state
        if denial("heart mediastinum").holds(state) and voice.chance(0.42):
            return [deny(voice, "heart mediastinum")]
        said = self.five("cardiomegaly")
        if not said and state.aorta != "normal" and voice.chance(0.15):
            return [heart_and_aorta(voice, state), *self.further(("hernia",))]
        if not said and voice.chance(0.8):
            said.append(deny(voice, "cardiomegaly"))
        if state.aorta != "normal":
            said += [incidental(voice, "aorta", state.aorta)] if voice.chance(0.85) else []
        elif denial("mediastinum").holds(state) and voice.chance(0.34):
            said.append(deny(voice, "mediastinum"))
        return said + self.further(("hernia",))

    def bones(self) -> list[Statement]:
        """Spine and ribs."""
        voice, state = self.voice, self.state
        said = self.further(("fracture",))
        if state.spine != "straight" and voice.chance(0.85):
            said.append(incidental(voice, "spine", state.spine))
        elif denial("bones").holds(state) and voice.chance(0.2):
            return [deny(voice, "bones")]
        elif state.spine == "straight" and voice.chance(0.06):
            said.append(incidental(voice, "spine", state.spine))
        if denial("fracture").holds(state) and voice.chance(0.2):
            said.append(deny(voice, "fracture"))
        return said


def _clear_sides(state: State) -> Iterator[tuple[str, str]]:
    """The side without an effusion, or a pneumothorax, where the other one has it."""
    right, left = state.effusion
    if bool(right) != bool(left):
        yield "effusion", "left" if right else "right"
    if state.pneumothorax[1] in ("right", "left"):
        yield "pneumothorax", "left" if state.pneumothorax[1] == "right" else "right"
