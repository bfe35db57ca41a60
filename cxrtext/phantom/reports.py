"""Whole reports: what is present and what is not, in words, each sentence with its claim."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cxrtext.phantom import claims
from cxrtext.phantom.claims import UNCHANGED, Claim, none
from cxrtext.phantom.state import AXES, DEVICES, FIVE, SIDES, State
from cxrtext.phantom.wording import Voice, polish

EFFUSIONS = ("effusion_right", "effusion_left")
ACUTE = ("pneumonia", "edema", *EFFUSIONS, "pneumothorax")
DENIED: dict[str, tuple[str, ...]] = {
    **{axis: (axis,) for axis in ("pneumonia", "edema", "pneumothorax", "cardiomegaly")},
    "effusion": EFFUSIONS,
    "clear": ("pneumonia", "edema"),
    "acute": ACUTE,
    "normal": tuple(AXES),
}
"""The axes that each kind of denial calls normal."""


@dataclass(frozen=True, slots=True)
class Statement:
    text: str  # the sentence, with its full stop
    claim: Claim  # what it says
    shows: tuple[tuple[str, str], ...] = ()  # the (finding, part) pairs that it calls present


@dataclass(frozen=True, slots=True)
class Report:
    indication: str  # why the examination was made
    comparison: str  # what it was compared with
    findings: tuple[Statement, ...]  # empty without this section
    impression: tuple[Statement, ...]  # the same

    def sections(self) -> Iterator[tuple[str, tuple[Statement, ...]]]:
        yield "findings", self.findings
        yield "impression", self.impression

    def evidence(self, finding: str, part: str) -> str | None:
        """The first sentence on a finding at a place; None if the report leaves it out."""
        statements = (*self.findings, *self.impression)
        return next((each.text for each in statements if (finding, part) in each.shows), None)


def change(axis: str, state: State, before: State | None) -> str:
    """How a finding compares with the previous study: "new", "same", "more", "less" or ""."""
    if before is None or not state.present(axis):
        return ""
    now, then = getattr(state, axis), getattr(before, axis)
    if not before.present(axis):
        return "new"
    if axis in DEVICES or state.places(axis) != before.places(axis) or now == then:
        return "same" if now == then else ""
    return "more" if now > then else "less"


@dataclass(frozen=True, slots=True)
class _Writer:
    voice: Voice
    state: State
    before: State | None  # the state of the patient's previous study

    def present(self, axis: str, full: float) -> list[Statement]:
        """A sentence for a finding that is present, with its grade with probability ``full``."""
        if not self.state.present(axis):
            return []
        graded = self.voice.chance(full)
        kind, claim, slots = self._said(axis, graded)
        if not graded:
            kind += " any"
        text = self._compared(self.voice.say("present", kind, **slots), axis)
        return [Statement(text, claim, self.state.places(axis))]

    def _said(self, axis: str, graded: bool) -> tuple[str, Claim, dict[str, str]]:
        """The kind of sentence for a finding, what it claims, and its slots."""
        voice, value = self.voice, getattr(self.state, axis)
        grade, place = value if isinstance(value, tuple) else (value, value)
        claim = claims.exactly(axis, value) if graded else claims.some(axis)
        if axis == "line":
            return axis, claim, {"line": voice.word(value)}
        if axis == "tube":
            return f"tube {value}" if graded else axis, claim, {"cm": voice.number(3, 6, 1)}
        kind = axis.removesuffix("_right").removesuffix("_left")
        slots = {"adj": voice.word(f"{kind} {grade}")}
        if kind == "cardiomegaly":
            slots["adv"] = voice.word(f"cardiomegaly adverb {grade}")
        elif kind == "effusion":
            slots["side"] = axis.removeprefix("effusion_")
            if grade == 1 and graded and voice.chance(0.3):
                kind = "effusion blunting"
        elif kind == "pneumothorax":
            slots |= {"side": place, "width": voice.number(4 * grade, 12 * grade)}
            if grade < 3 and graded and voice.chance(0.8):
                kind = "pneumothorax apical"
        elif kind == "pneumonia":
            slots["lobe"] = voice.word(place)
            if grade == 3 and graded and voice.chance(0.4):
                kind = "pneumonia bronchogram"
            if not graded and voice.chance(0.25):
                return "pneumonia nowhere", claim, slots
        if not graded and isinstance(value, tuple):
            claim = claims.placed(axis, place)
        return kind, claim, slots

    def _compared(self, text: str, axis: str) -> str:
        kind = change(axis, self.state, self.before)
        brief = len(text.split()) < 13 and not {*";,"} & {*text} and "recommend" not in text
        if not kind or not brief or not self.voice.chance(0.5):
            return text
        return polish(f"{text[:-1]}{self.voice.pick('compared', kind)}.")

    def effusions(self, full: float) -> list[Statement]:
        """Effusions; one sentence if they are on both sides."""
        right, left = self.state.effusion_right, self.state.effusion_left
        if not right or not left:
            return [*self.present("effusion_right", full), *self.present("effusion_left", full)]
        places = self.state.places("effusion_right") + self.state.places("effusion_left")
        if not self.voice.chance(full):
            claim = claims.some(EFFUSIONS[0]) & claims.some(EFFUSIONS[1])
            return [Statement(self.voice.say("present", "effusions any"), claim, places)]
        words = [self.voice.word(f"effusion {grade}") for grade in (right, left)]
        slots = {"adj": words[0], "right": words[0], "left": words[1]}
        text = self.voice.say(
            "present", "effusions" if right == left else "effusions graded", **slots
        )
        exact = claims.exactly(EFFUSIONS[0], right) & claims.exactly(EFFUSIONS[1], left)
        return [Statement(text, exact, places)]

    def deny(self, kind: str) -> Statement:
        return Statement(self.voice.say("negations", kind), none(*DENIED[kind]))

    def deny_all(self, kinds: Sequence[str]) -> Statement:
        """One sentence that denies several findings, in the order given."""
        items = [self.voice.pick("items", kind) for kind in kinds]
        comma = "," if len(items) > 2 and self.voice.chance(0.55) else ""
        text = self.voice.say("lists", "", list=f"{', '.join(items[:-1])}{comma} or {items[-1]}")
        return Statement(text, none(*(axis for kind in kinds for axis in DENIED[kind])))

    def absent(self, *kinds: str) -> list[str]:
        return [kind for kind in kinds if not any(map(self.state.present, DENIED[kind]))]

    def findings(self) -> list[Statement]:
        """FINDINGS: it names every one of the five findings that is present."""
        heart = self.present("cardiomegaly", 0.85)
        heart += [self.deny("cardiomegaly")] if not heart and self.voice.chance(0.85) else []
        parts = [self.lungs(), self.pleura(), heart]
        said = [each for part in self.voice.generator.permutation(3) for each in parts[part]]
        devices = [each for axis in DEVICES for each in self.present(axis, 0.88)]
        said = [*devices, *said] if self.voice.chance(0.6) else [*said, *devices]
        return said or [self.deny("cardiomegaly")]

    def lungs(self) -> list[Statement]:
        """Opacities, or clear lungs."""
        said = [*self.present("pneumonia", 0.85), *self.present("edema", 0.85)]
        if not said and self.voice.chance(0.62):
            said.append(self.deny("clear"))
        if self.absent("edema") and self.voice.chance(0.2):
            said.append(self.deny("edema"))
        return said

    def pleura(self) -> list[Statement]:
        """Effusions, air, and a list of what is absent."""
        voice = self.voice
        said = [*self.effusions(0.85), *self.present("pneumothorax", 0.85)]
        absent = self.absent("pneumonia", "effusion", "pneumothorax")
        absent += self.absent("edema") if voice.chance(0.12) else []
        if len(absent) > 1 and voice.chance(0.62):
            if voice.chance(0.45):
                voice.generator.shuffle(absent)
            count = len(absent) if voice.chance(0.5) else 2
            said.append(self.deny_all(absent[:count]))
            absent = absent[count:]
        said += [self.deny(kind) for kind in absent if voice.chance(0.45)]
        for axis, other in zip(EFFUSIONS, SIDES[::-1], strict=True):
            if self.state.present(axis) and not self.state.present(f"effusion_{other}"):
                text = voice.say("negations", "effusion side", side=other)
                said += [Statement(text, none(f"effusion_{other}"))] if voice.chance(0.15) else []
        return said

    def impression(self, *, alone: bool) -> list[Statement]:
        """IMPRESSION; if ``alone``, there is no other section, and it names everything."""
        voice, state, full = self.voice, self.state, 0.75 if alone else 0.4
        said: list[Statement] = self.effusions(full) if alone or voice.chance(0.8) else []
        for axis in AXES:
            if axis not in EFFUSIONS and (alone or voice.chance(0.8 if axis in FIVE else 0.12)):
                said += self.present(axis, full)
        if state == State() and voice.chance(0.35):
            said.append(self.deny("normal"))
        elif self.absent("acute") and voice.chance(0.75 if said else 1.0):
            said.insert(0 if voice.chance(0.4) else len(said), self.deny("acute"))
        if state == self.before and voice.chance(0.35):
            said.append(Statement(voice.say("unchanged", ""), UNCHANGED))
        # Absent findings that the reader may have feared.
        feared = self.absent("pneumonia", "pneumothorax", "edema")
        return said + [self.deny(kind) for kind in feared if voice.chance(0.1)]


def write_report(
    generator: np.random.Generator, state: State, *, person: str, before: State | None
) -> Report:
    """Write the report of a study; ``before`` is the state of the patient's previous study.

    It mentions each of the five findings that is present at least once.
    """
    voice = Voice(generator)
    writer, shape = _Writer(voice, state, before), generator.random()
    findings = writer.findings() if shape > 0.12 else []
    # A report without IMPRESSION says everything under FINDINGS, and vice versa.
    brief = writer.impression(alone=not findings) if shape < 0.86 else []
    behind = [AXES[axis].finding for axis in FIVE if state.present(axis)]
    complaint = voice.pick("complaints", behind[0] if behind else "")
    return Report(
        indication=voice.say("indications", "", person=person, complaint=complaint),
        comparison=voice.pick("comparisons", "prior" if before else "no prior"),
        findings=tuple({statement.text: statement for statement in findings}.values()),
        impression=tuple({statement.text: statement for statement in brief}.values()),
    )
