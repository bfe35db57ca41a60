"""Whole reports: what is not there, in words, and which statements stand in which section."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxrtext.phantom import claims
from cxrtext.phantom.claims import DEVICES_GOOD, LUNGS_CLEAR, Claim, lobe_side
from cxrtext.phantom.sentences.combined import (
    clear_and_volume,
    compare,
    heart_and_aorta,
    join_some,
    pairings,
    resolved,
)
from cxrtext.phantom.sentences.grammar import choose, listed, misspell
from cxrtext.phantom.sentences.present import Statement, Voice
from cxrtext.phantom.state import AXES, State

WHOLE: dict[str, Claim] = {
    "clear": claims.LUNGS_CLEAR,
    "otherwise clear": claims.OTHERWISE_CLEAR,
    "acute": claims.NOTHING_ACUTE,
    "normal": claims.NORMAL,
    "mediastinum": claims.MEDIASTINUM,
    "heart mediastinum": claims.HEART_AND_MEDIASTINUM,
    "bones": claims.BONES,
    "devices": claims.NO_DEVICES,
    "large effusion": claims.NO_LARGE_EFFUSION,
}
"""Statements on more, or less, than that one axis has its normal value."""


def denial(kind: str) -> Claim:
    """What the statement of a kind, an axis or a key of ``WHOLE``, denies."""
    return WHOLE[kind] if kind in WHOLE else claims.none(kind)


def deny(voice: Voice, kind: str) -> Statement:
    """That something is not there: an axis' finding, or what a key of ``WHOLE`` names."""
    return Statement(voice.say("negations", kind), denial(kind))


def deny_side(voice: Voice, kind: str, side: str) -> Statement:
    """That one side has no effusion, pneumothorax or pneumonia, or that its lung is clear."""
    claim = {
        "effusion": claims.no_effusion,
        "pneumothorax": claims.no_pneumothorax,
        "pneumonia": claims.no_pneumonia_on,
        "lung": claims.clear_lung,
    }[kind](side)
    return Statement(voice.say("negations", f"{kind} side", side=side), claim)


def deny_all(voice: Voice, kinds: Sequence[str]) -> Statement:
    """That none of several things is there, in one sentence, in the order given."""
    if len(kinds) == 1:
        return deny(voice, kinds[0])
    generator = voice.generator
    phrases = voice.phrases
    items = [voice.expand(choose(generator, phrases["items"][kind])) for kind in kinds]
    word = voice.own("or" if voice.chance(0.94) else "and")
    template = choose(generator, phrases["lists"][""])
    text = voice.fill(template, list=listed(generator, items, word))
    return Statement(text, claims.all_of(map(denial, kinds)))


def incidental(voice: Voice, axis: str, value: str) -> Statement:
    """What the aorta, the spine or the lung volume is like."""
    kind = f"{axis} {value}"
    if value.startswith("scoliosis") and voice.chance(0.15):
        return Statement(voice.say("chest", "scoliosis"), claims.SCOLIOSIS)
    if kind == "aorta normal":
        return deny(voice, "mediastinum")
    text = voice.say("incidental", kind, degrees=voice.number(8, 28))
    return Statement(text, claims.exactly(axis, value))


def unchanged(voice: Voice) -> Statement:
    return Statement(voice.say("incidental", "unchanged"), claims.UNCHANGED)


def lungs(voice: Voice, state: State) -> Statement | None:
    """That the lungs are clear, or are otherwise clear; nothing where they are not."""
    for kind in ("clear", "otherwise clear"):
        if denial(kind).holds(state):
            return deny(voice, kind)
    return None


FIVE = ("pneumonia", "edema", "effusion", "pneumothorax", "cardiomegaly")
"""The axes of the CheX5 findings, in the order of a report."""


@dataclass(frozen=True, slots=True)
class Report:
    indication: str  # why the examination was made
    comparison: str  # what it was compared with
    # The sentences of FINDINGS; empty where there is no such section.
    findings: tuple[Statement, ...]
    impression: tuple[Statement, ...]  # the sentences of IMPRESSION
    language: str  # "en", "de" or "es"

    def sections(self) -> Iterator[tuple[str, tuple[Statement, ...]]]:
        yield "findings", self.findings
        yield "impression", self.impression

    def evidence(self, finding: str, part: str) -> str:
        """The sentence that says most of a finding at a place (LookupError where none does)."""
        for _, statements in self.sections():
            for statement in statements:
                if (finding, part) in statement.shows:
                    return statement.text
        raise LookupError(f"no sentence speaks of {finding}, {part}")


OMITTED = {name: axis.omitted for name, axis in AXES.items() if axis.omitted}
"""Probability that a report does not speak of a finding that is there, by axis.

The five findings are never left out; a spine or an aorta that is not normal is named with 0.85,
and a lung volume that is not with 0.9, in a report that has FINDINGS.
"""

LUNG = ("atelectasis", "nodule", "granuloma", "emphysema", "fibrosis")
DEVICES = ("tube", "line", "drain", "pacemaker", "wires")

PASSING = (
    *("pneumonia", "edema", "effusion", "pneumothorax", "atelectasis", "tube", "line", "drain"),
)
"""What a report may name when it is no longer there."""

ORDERS = (
    ("lungs", "pleura", "heart", "bones"),
    ("heart", "lungs", "pleura", "bones"),
    ("heart", "pleura", "lungs", "bones"),
    ("lungs", "heart", "pleura", "bones"),
)


@dataclass(frozen=True, slots=True)
class _Writer:
    voice: Voice
    state: State
    before: State | None  # the state of the patient's study before
    present: list[str]  # axes of the five findings that are there
    others: list[str]  # further axes that the report speaks of

    def findings(self) -> list[Statement]:
        """FINDINGS: one sentence at least; all of ``present`` and ``others`` is named."""
        voice, state = self.voice, self.state
        parts = {
            "lungs": self.lungs(),
            "pleura": self.pleura(),
            "heart": self.heart(),
            "bones": self.bones(),
        }
        order = ORDERS[int(voice.generator.choice(len(ORDERS), p=(0.33, 0.36, 0.13, 0.18)))]
        said = [statement for part in order for statement in parts[part]]
        devices = self.named(*DEVICES)
        if not devices and denial("devices").holds(state) and voice.chance(0.02):
            devices = [deny(voice, "devices")]
        said += resolved(voice, PASSING, state, self.before)
        said = [*devices, *said] if voice.chance(0.6) else [*said, *devices]
        return said or [deny(voice, "cardiomegaly")]

    def named(self, *axes: str) -> list[Statement]:
        """Those of some findings that the report speaks of."""
        said = []
        for axis in axes:
            if axis in self.present or axis in self.others:
                # The coarse words for a nodule recommend or recall what only FINDINGS describe.
                full = 0.85 if axis in self.present else 0.88
                said += self._compared(axis, axis == "nodule" or self.voice.chance(full))
        return said

    def _compared(self, axis: str, full: bool) -> list[Statement]:
        said = self.voice.present(axis, self.state, full)
        return compare(self.voice, said, axis, self.state, self.before)

    def lungs(self) -> list[Statement]:
        """Volume, opacities, or that the lungs are clear."""
        voice, state = self.voice, self.state
        if LUNGS_CLEAR.holds(state) and voice.chance(0.16):
            return [clear_and_volume(voice, state), *self.named(*LUNG)]
        named = voice.chance(0.17 if state.volume == "normal" else 0.9)
        said = [incidental(voice, "volume", state.volume)] if named else []
        opacities = self.named("pneumonia", "edema", *LUNG)
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
        said = self.named("effusion", "pneumothorax", "diaphragm")
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
        voice, state = self.voice, self.state
        if denial("heart mediastinum").holds(state) and voice.chance(0.42):
            return [deny(voice, "heart mediastinum")]
        said = self.named("cardiomegaly")
        if not said and state.aorta != "normal" and voice.chance(0.15):
            return [heart_and_aorta(voice, state), *self.named("hernia")]
        if not said and voice.chance(0.8):
            said.append(deny(voice, "cardiomegaly"))
        if state.aorta != "normal":
            said += [incidental(voice, "aorta", state.aorta)] if voice.chance(0.85) else []
        elif denial("mediastinum").holds(state) and voice.chance(0.34):
            said.append(deny(voice, "mediastinum"))
        return said + self.named("hernia")

    def bones(self) -> list[Statement]:
        voice, state = self.voice, self.state
        said = self.named("fracture")
        if state.spine != "straight" and voice.chance(0.85):
            said.append(incidental(voice, "spine", state.spine))
        elif denial("bones").holds(state) and voice.chance(0.2):
            return [deny(voice, "bones")]
        elif state.spine == "straight" and voice.chance(0.06):
            said.append(incidental(voice, "spine", state.spine))
        if denial("fracture").holds(state) and voice.chance(0.2):
            said.append(deny(voice, "fracture"))
        return said

    def impression(self, *, alone: bool) -> list[Statement]:
        """IMPRESSION: one sentence at least, unless all that is there stands under FINDINGS.

        ``alone`` says that there is no other section.
        """
        voice, state = self.voice, self.state
        said: list[Statement] = []
        left = self.present
        options = list(pairings(voice, state)) if left else []
        if options and voice.chance(0.5):
            settled, statement = options[int(voice.generator.integers(len(options)))]
            said.append(statement)
            left = [axis for axis in left if axis not in settled]
        for axis in left:
            if alone or voice.chance(0.8):
                said += self._compared(axis, voice.chance(0.75 if alone else 0.4))
        repeated = [
            a for a in self.others if alone or voice.chance(0.6 if AXES[a].urgent else 0.12)
        ]
        if {"tube", "line"} <= set(repeated) and state.tube == "good" and voice.chance(0.4):
            text = voice.say("devices", "positions")
            said.append(Statement(text, DEVICES_GOOD, state.places("tube", "line")))
            repeated = [axis for axis in repeated if axis not in ("tube", "line")]
        for axis in repeated:
            said += self._compared(axis, voice.chance(0.75 if alone else 0.35))
        if state == State() and voice.chance(0.35):
            said.append(deny(voice, "normal"))
        elif denial("acute").holds(state) and voice.chance(0.75 if said else 1.0):
            said.insert(0 if voice.chance(0.4) else len(said), deny(voice, "acute"))
        return said + self._denials()

    def _denials(self) -> list[Statement]:
        """What the reader may have feared and is not there."""
        voice = self.voice
        feared = ("pneumonia", "effusion", "pneumothorax", "edema")
        absent = [axis for axis in feared if axis not in self.present]
        if len(absent) > 1 and voice.chance(0.1):
            voice.generator.shuffle(absent)
            return [deny_all(voice, absent[: 2 + int(voice.chance(0.3))])]
        return [deny(voice, axis) for axis in absent if axis != "effusion" and voice.chance(0.09)]


def _clear_sides(state: State) -> Iterator[tuple[str, str]]:
    """The side without an effusion, or a pneumothorax, where the other one has it."""
    right, left = state.effusion
    if bool(right) != bool(left):
        yield "effusion", "left" if right else "right"
    if state.pneumothorax[1] in ("right", "left"):
        yield "pneumothorax", "left" if state.pneumothorax[1] == "right" else "right"


def _finish(voice: Voice, said: list[Statement]) -> tuple[Statement, ...]:
    """Join some sentences, drop repetitions, and let the pen slip."""
    texts: set[str] = set()
    kept = []
    for statement in join_some(voice, said):
        if statement.text not in texts:
            texts.add(statement.text)
            slipped = misspell(voice.generator, statement.text, voice.phrases)
            kept.append(replace(statement, text=slipped))
    return tuple(kept)


def write_report(
    generator: np.random.Generator,
    state: State,
    *,
    age: int,
    sex: str,
    before: State | None,
    same: bool,
    language: str,
) -> Report:
    """Write the report of a study.

    Args:
        before: The state of the patient's study before, if there is one.
        same: Whether that one showed the same findings, the lung volume apart.

    Returns:
        The report; each of the five findings that is present is spoken of at least once, every
        other finding unless it is left out, with the probabilities of ``OMITTED``.
    """
    voice = Voice(generator, language)
    shape = generator.random()
    others = [a for a, share in OMITTED.items() if state.present(a) and not voice.chance(share)]
    writer = _Writer(voice, state, before, [axis for axis in FIVE if state.present(axis)], others)
    findings = writer.findings() if shape > 0.12 else []
    # A report without IMPRESSION says everything under FINDINGS, and the other way round.
    brief: list[Statement] = []
    if shape < 0.86:
        brief = writer.impression(alone=not findings)
        if same and voice.chance(0.35):
            brief.append(unchanged(voice))
    if not findings and not brief:
        brief = [deny(voice, "pneumothorax")]
    behind = [name for name, value in state.labels().items() if value and voice.chance(0.7)]
    phrases = voice.phrases
    complaint = choose(generator, phrases["complaints"][behind[0] if behind else ""])
    slots = {"age": str(age), "person": {"F": "woman", "M": "man"}[sex], "complaint": complaint}
    return Report(
        indication=voice.say("indications", "", **slots),
        comparison=choose(generator, phrases["comparisons"]["prior" if before else "no prior"]),
        findings=_finish(voice, findings),
        impression=_finish(voice, brief),
        language=language,
    )
