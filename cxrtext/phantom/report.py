"""Whole reports: which statements stand in which section."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cxrtext.phantom.background import COMPLAINTS, INDICATIONS, NO_PRIOR, PRIOR
from cxrtext.phantom.pairings import clear_and_volume, heart_and_aorta, pairings
from cxrtext.phantom.population import State
from cxrtext.phantom.wording import Statement, Voice, choose, fill

AXES = {
    "Pneumonia": "pneumonia",
    "Edema": "edema",
    "Pleural Effusion": "effusion",
    "Pneumothorax": "pneumothorax",
    "Cardiomegaly": "cardiomegaly",
}
"""The state's axis of each CheX5 finding, in the order of a report."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report in sentences.

    Args:
        indication: Why the examination was made.
        comparison: What it was compared with.
        findings: The sentences of FINDINGS; empty where there is no such section.
        impression: The sentences of IMPRESSION.
    """

    indication: str
    comparison: str
    findings: tuple[Statement, ...]
    impression: tuple[Statement, ...]

    def sections(self) -> Iterator[tuple[str, tuple[Statement, ...]]]:
        """The two sections that speak of the image, with their names."""
        yield "findings", self.findings
        yield "impression", self.impression

    def evidence(self, finding: str, part: str) -> str:
        """The sentence that tells most of a finding at a place.

        Raises:
            LookupError: No sentence speaks of it.
        """
        for _, statements in self.sections():
            for statement in statements:
                if (finding, part) in statement.shows:
                    return statement.text
        raise LookupError(f"no sentence speaks of {finding}, {part}")


def _findings(voice: Voice, state: State) -> list[Statement]:
    """FINDINGS: lungs, pleura, heart, and what else is there; never empty."""
    present = [axis for name, axis in AXES.items() if state.labels()[name]]
    if state.is_normal() and voice.chance(0.12):
        return [voice.absent("pneumonia", "edema"), voice.normal()]
    clear = not {"pneumonia", "edema"} & set(present)
    if clear and voice.chance(0.2):
        said = [clear_and_volume(voice, state)]
    else:
        tell = voice.chance(0.25 if state.volume == "normal" else 0.9)
        said = [voice.incidental("volume", state.volume)] if tell else []
        said += _lungs(voice, state, present)
    said += _pleura(voice, state, present)
    said += _heart(voice, state, present)
    if voice.chance(0.3 if state.spine == "straight" else 0.85):
        said.append(voice.incidental("spine", state.spine))
    return said or [voice.absent("cardiomegaly")]


def _heart(voice: Voice, state: State, present: list[str]) -> list[Statement]:
    said = []
    if "cardiomegaly" in present:
        said += voice.present("cardiomegaly", state, voice.chance(0.85))
    elif voice.chance(0.3):
        return [heart_and_aorta(voice, state)]
    elif voice.chance(0.8):
        said.append(voice.absent("cardiomegaly"))
    if voice.chance(0.4 if state.aorta == "normal" else 0.85):
        said.append(voice.incidental("aorta", state.aorta))
    return said


def _lungs(voice: Voice, state: State, present: list[str]) -> list[Statement]:
    said = []
    for axis in ("pneumonia", "edema"):
        if axis in present:
            said += voice.present(axis, state, voice.chance(0.85))
    if said:
        sides = {"right", "left"} - {
            "right" if lobe.startswith("right") else "left" for lobe in state.pneumonia[1]
        }
        if "edema" not in present and len(sides) == 1 and voice.chance(0.35):
            said.append(voice.absent("lung", side=sides.pop()))
        elif "edema" not in present and voice.chance(0.35):
            said.append(voice.absent("edema"))
        elif "pneumonia" not in present and voice.chance(0.45):
            said.append(voice.absent("pneumonia"))
    elif voice.chance(0.75):
        said.append(voice.absent("pneumonia", "edema"))
    elif voice.chance(0.5):
        said.append(voice.absent("edema"))
    return said


def _pleura(voice: Voice, state: State, present: list[str]) -> list[Statement]:
    absent = [axis for axis in ("pneumonia", "effusion", "pneumothorax") if axis not in present]
    said = []
    for axis in ("effusion", "pneumothorax"):
        if axis in present:
            said += voice.present(axis, state, voice.chance(0.85))
    if absent and " ".join(absent) != "pneumonia pneumothorax" and voice.chance(0.5):
        said.append(voice.absent(*absent))
        return said
    for axis in ("effusion", "pneumothorax"):
        if axis in absent and voice.chance(0.75):
            said.append(voice.absent(axis))
    for axis, clear in _clear_sides(state):
        if axis in present and voice.chance(0.15):
            said.append(voice.absent(axis, side=clear))
    return said


def _clear_sides(state: State) -> Iterator[tuple[str, str]]:
    """The side without an effusion, or a pneumothorax, where the other one has it."""
    right, left = state.effusion
    if bool(right) != bool(left):
        yield "effusion", "left" if right else "right"
    if state.pneumothorax[1] in ("right", "left"):
        yield "pneumothorax", "left" if state.pneumothorax[1] == "right" else "right"


def _impression(voice: Voice, state: State, unchanged: bool, alone: bool) -> list[Statement]:
    """IMPRESSION: what is there in brief, or that nothing is."""
    present = [axis for name, axis in AXES.items() if state.labels()[name]]
    said: list[Statement] = []
    if not present:
        brief = state.is_normal() and voice.chance(0.4)
        said.append(voice.normal() if brief else voice.nothing_acute())
    else:
        options = list(pairings(voice, state))
        if options and voice.chance(0.55):
            pairing = options[int(voice.generator.integers(len(options)))]
            said.append(pairing.statement)
            present = [axis for axis in present if axis not in pairing.axes]
        for axis in present:
            if alone or voice.chance(0.8):
                said += voice.present(axis, state, voice.chance(0.75 if alone else 0.4))
        if sum(state.labels().values()) == state.labels()["Cardiomegaly"] and voice.chance(0.6):
            said.append(voice.nothing_acute())
        for axis in ("pneumonia", "pneumothorax"):
            if not getattr(state, axis)[0] and voice.chance(0.12):
                said.append(voice.absent(axis))
    if unchanged and voice.chance(0.6):
        said.append(voice.unchanged())
    return said


def write_report(
    generator: np.random.Generator,
    state: State,
    *,
    age: int,
    sex: str,
    prior: bool,
    unchanged: bool,
) -> Report:
    """Write the report of a study.

    Args:
        generator: The source of randomness.
        state: What is to be seen.
        age: In years.
        sex: "F" or "M".
        prior: Whether the patient has an earlier study.
        unchanged: Whether that one showed the same findings.

    Returns:
        The report; every finding present is spoken of at least once.
    """
    voice = Voice(generator)
    shape = generator.random()
    findings = _findings(voice, state) if shape > 0.12 else []
    # A report without IMPRESSION says everything under FINDINGS, and the other way round.
    impression = _impression(voice, state, unchanged, not findings) if shape < 0.86 else []
    behind = [name for name, value in state.labels().items() if value and voice.chance(0.7)]
    complaint = choose(generator, COMPLAINTS[behind[0] if behind else ""])
    person = {"F": "woman", "M": "man"}[sex]
    indication = choose(generator, INDICATIONS)
    return Report(
        indication=fill(indication, age=str(age), person=person, complaint=complaint),
        comparison=choose(generator, PRIOR if prior else NO_PRIOR),
        findings=tuple(findings),
        impression=tuple(impression),
    )
