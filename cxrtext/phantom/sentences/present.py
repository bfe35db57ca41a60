"""The five findings in words."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from cxrtext.phantom import claims
from cxrtext.phantom.claims import Claim, exactly, lobe_side, where
from cxrtext.phantom.sentences.grammar import PHRASES, choose, expand, fill
from cxrtext.phantom.state import BASES, State


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a report."""

    text: str  # the sentence, with its full stop
    claim: Claim  # what it says
    # The (finding, part) pairs that it speaks of as present.
    shows: tuple[tuple[str, str], ...] = ()
    # The statements that were joined to it; empty for a plain one.
    parts: tuple["Statement", ...] = ()
    # An axis, and what the words say of it beside the study before: "new", "same", "more",
    # "less" or "gone"; empty where they say nothing of it.
    change: tuple[str, str] = ("", "")


def other_side(side: str) -> str:
    """The opposite of "right" or "left"."""
    return {"right": "left", "left": "right"}[side]


class Voice:
    """Puts claims into words, with an own source of randomness."""

    def __init__(self, generator: np.random.Generator) -> None:
        """Speak with the choices of a generator."""
        self.generator = generator

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return float(self.generator.random()) < probability

    def number(self, low: float, high: float, digits: int = 0) -> str:
        """A measurement within bounds."""
        value = low + (high - low) * float(self.generator.random())
        return f"{value:.{digits}f}"

    def say(self, section: str, kind: str, **slots: str) -> str:
        """One of the phrasings of a kind, its slots filled."""
        return fill(self.generator, choose(self.generator, PHRASES[section][kind]), **slots)

    def word(self, kind: str) -> str:
        """A word for a grade, a size or a place."""
        return choose(self.generator, PHRASES["synonyms"][kind])

    def present(self, axis: str, state: State, full: bool) -> list[Statement]:
        """That a finding is there."""
        if axis == "cardiomegaly":
            return [self._cardiomegaly(state.cardiomegaly, full)]
        if axis == "edema":
            return [self._edema(*state.edema, full)]
        if axis == "effusion":
            return self._effusion(*state.effusion, full)
        if axis == "pneumonia":
            return self._pneumonia(*state.pneumonia, full)
        return [self._pneumothorax(*state.pneumothorax, full)]

    def _cardiomegaly(self, grade: int, full: bool) -> Statement:
        shows = (("Cardiomegaly", "heart"),)
        if not full:
            text = self.say("findings", "cardiomegaly any")
            return Statement(text, claims.cardiomegaly(None), shows)
        adj, adv = self.word(f"heart {grade}"), self.word(f"heartly {grade}")
        text = self.say("findings", "cardiomegaly", adj=adj, adv=adv)
        return Statement(text, claims.cardiomegaly(grade), shows)

    def _edema(self, grade: int, lean: str, full: bool) -> Statement:
        shows = (("Edema", "right"), ("Edema", "left"))
        if not full:
            return Statement(self.say("findings", "edema any"), claims.edema(None), shows)
        adj = self.word(f"edema {grade}")
        if lean and self.chance(0.75):
            other = other_side(lean)
            text = self.say("findings", "edema lean", adj=adj, side=lean, other=other)
            return Statement(text, claims.edema(grade, lean), shows)
        return Statement(self.say("findings", "edema", adj=adj), claims.edema(grade), shows)

    def _effusion(self, right: int, left: int, full: bool) -> list[Statement]:
        both = (("Pleural Effusion", "right"), ("Pleural Effusion", "left"))
        if right and left and not full:
            text = self.say("findings", "effusion both any")
            return [Statement(text, claims.effusion("both", None), both)]
        if right and right == left:
            text = self.say("findings", "effusion both", adj=self.word(f"fluid {right}"))
            return [Statement(text, claims.effusion("both", right), both)]
        if right and left and self.chance(0.5):
            side = "right" if right > left else "left"
            text = self.say("findings", "effusion uneven", side=side, other=other_side(side))
            return [Statement(text, claims.uneven_effusion(side), both)]
        sides = (("right", right), ("left", left))
        return [self._one_effusion(side, grade, full) for side, grade in sides if grade]

    def _one_effusion(self, side: str, grade: int, full: bool) -> Statement:
        shows = (("Pleural Effusion", side),)
        if not full:
            text = self.say("findings", "effusion any", side=side)
            return Statement(text, claims.effusion(side, None), shows)
        kind = "effusion blunting" if grade == 1 and self.chance(0.3) else "effusion"
        text = self.say("findings", kind, adj=self.word(f"fluid {grade}"), side=side)
        return Statement(text, claims.effusion(side, grade), shows)

    def _pneumonia(self, grade: int, lobes: tuple[str, ...], full: bool) -> list[Statement]:
        shows = tuple(("Pneumonia", lobe) for lobe in lobes)
        if not full:
            return [self._pneumonia_in_brief(lobes, shows)]
        if len(lobes) == 2 and self.chance(0.6):
            first, second = (self.word(f"base {lobe}") for lobe in lobes)
            adj = self.word(f"dense {grade}")
            text = self.say("findings", "pneumonia pair", adj=adj, lobe=first, second=second)
            return [Statement(text, claims.pneumonia(lobes, grade), shows)]
        return [self._one_pneumonia(grade, lobe) for lobe in lobes]

    def _one_pneumonia(self, grade: int, lobe: str) -> Statement:
        kind, place = "pneumonia", self.word(f"base {lobe}")
        if grade == 3 and self.chance(0.4):
            kind, place = "pneumonia bronchogram", lobe
        elif lobe == "right middle lobe" and self.chance(0.3):
            kind = "pneumonia silhouette"
        text = self.say("findings", kind, adj=self.word(f"dense {grade}"), lobe=place)
        return Statement(text, claims.pneumonia((lobe,), grade), (("Pneumonia", lobe),))

    def _pneumonia_in_brief(
        self, lobes: tuple[str, ...], shows: tuple[tuple[str, str], ...]
    ) -> Statement:
        if len(lobes) == 2:
            text = self.say("findings", "pneumonia multifocal")
            return Statement(text, claims.multifocal(None), shows)
        lobe, side = lobes[0], claims.lobe_side(lobes[0])
        if self.chance(0.6):
            text = self.say("findings", "pneumonia any", lobe=self.word(f"base {lobe}"))
            return Statement(text, claims.pneumonia((lobe,), None), shows)
        if self.chance(0.5):
            text = self.say("findings", "pneumonia side", side=side)
            return Statement(text, claims.pneumonia_on(side), shows)
        text = self.say("findings", "pneumonia nowhere")
        return Statement(text, claims.pneumonia((), None), shows)

    def _pneumothorax(self, grade: int, side: str, place: str, full: bool) -> Statement:
        sides = ("right", "left") if side == "both" else (side,)
        shows = tuple(("Pneumothorax", one) for one in sides)
        if side == "both":
            text = self.say("findings", "pneumothorax both", adj=self.word(f"air {grade}"))
            return Statement(text, claims.pneumothorax("both", grade), shows)
        if grade == 4:
            other = other_side(side)
            text = self.say("findings", "pneumothorax tension", side=side, other=other)
            return Statement(text, claims.pneumothorax(side, 4), shows)
        if not full:
            text = self.say("findings", "pneumothorax any", side=side)
            return Statement(text, claims.pneumothorax(side), shows)
        adj = self.word(f"air {grade}")
        if grade == 3 or self.chance(0.2):
            text = self.say("findings", "pneumothorax sized", adj=adj, side=side)
            return Statement(text, claims.pneumothorax(side, grade), shows)
        width = self.number(*((3, 12), (12, 28))[grade - 1])
        slots = {"adj": adj, "side": side, "place": place, "width": width}
        text = self.say("findings", "pneumothorax", **slots)
        return Statement(text, claims.pneumothorax(side, grade, place), shows)


ORDINALS = {4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth"}
BASE_WORDS = {
    "right base": ("right base", "right lung base"),
    "left base": ("left base", "left lung base"),
    "both bases": ("lung bases", "bases"),
}
"""Words for the bases after "at the"."""


def atelectasis(voice: Voice, state: State, full: bool) -> Statement:
    """That there is an atelectasis."""
    grade, base = state.atelectasis
    if not full and voice.chance(0.4):
        return Statement(
            voice.say("chest", "atelectasis any"),
            claims.atelectasis(None),
            state.places("atelectasis"),
        )
    if grade == 2 and base != BASES[2] and voice.chance(0.25):
        side = base.split()[0]
        return Statement(
            voice.say("chest", "opacity either", side=side),
            claims.basal_opacity(side),
            state.places("atelectasis"),
        )
    text = voice.say(
        "chest", ("linear", "basal")[grade - 1], base=choose(voice.generator, BASE_WORDS[base])
    )
    for word in BASE_WORDS[BASES[2]]:
        text = text.replace(f"{word.capitalize()} ", "Bibasilar ").replace(
            f" {word} a", " bibasilar a"
        )
    return Statement(text, claims.atelectasis(base, grade), state.places("atelectasis"))


def nodule(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a nodule or a mass."""
    grade, lobe = state.nodule
    seen = state.places("nodule")
    if full:
        cm = voice.number(*((0.4, 0.9), (1.1, 2.9), (3.2, 6.5))[grade - 1], 1)
        slots = {"mm": voice.number(4, 9), "cm": cm, "lobe": voice.word(f"base {lobe}")}
        text = voice.say("chest", f"nodule {grade}", **slots)
        return Statement(text, claims.nodule(lobe, grade), seen)
    if grade == 3:
        return Statement(voice.say("chest", "mass nowhere"), claims.nodule(None, 3), seen)
    small = where("nodule: below mass", "nodule", lambda v: 0 < v[0] < 3)
    if voice.chance(0.4):
        text = voice.say("chest", "nodule any", lobe=voice.word(f"base {lobe}"))
        return Statement(text, claims.nodule(lobe) & small, seen)
    if voice.chance(0.5):
        side = lobe_side(lobe)
        text = voice.say("chest", "nodule side", side=side)
        return Statement(text, claims.nodule(side) & small, seen)
    return Statement(voice.say("chest", "nodule nowhere"), small, seen)


def granuloma(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a calcified granuloma."""
    lobe, seen = state.granuloma, state.places("granuloma")
    if full:
        slots = {"mm": voice.number(3, 9), "lobe": voice.word(f"base {lobe}")}
        return Statement(voice.say("chest", "granuloma", **slots), claims.granuloma(lobe), seen)
    if voice.chance(0.5):
        text = voice.say("chest", "granuloma side", side=lobe_side(lobe))
        return Statement(text, claims.granuloma(lobe_side(lobe)), seen)
    return Statement(voice.say("chest", "granuloma any"), claims.granuloma(None), seen)


def graded(axis: str, voice: Voice, state: State, full: bool) -> Statement:
    """That there is emphysema, fibrosis or a hiatal hernia."""
    seen = state.places(axis)
    if full:
        grade = getattr(state, axis)
        return Statement(voice.say("chest", f"{axis} {grade}"), claims.graded(axis, grade), seen)
    if axis != "hernia" and voice.chance(0.2):
        return Statement(voice.say("chest", "chronic"), claims.CHRONIC_LUNG, seen)
    return Statement(voice.say("chest", f"{axis} any"), claims.some(axis), seen)


def diaphragm(voice: Voice, state: State, _: bool) -> Statement:
    """That a half of the diaphragm is elevated."""
    text = voice.say("chest", "diaphragm", side=state.diaphragm)
    return Statement(text, exactly("diaphragm", state.diaphragm), state.places("diaphragm"))


def fracture(voice: Voice, state: State, full: bool) -> Statement:
    """That a rib is broken."""
    side, rib = state.fracture
    seen = state.places("fracture")
    if full:
        number = ORDINALS[rib] if voice.chance(0.7) else f"{rib}th"
        text = voice.say("chest", "fracture", side=side, rib=number)
        return Statement(text, claims.fracture(side, rib), seen)
    if voice.chance(0.6):
        text = voice.say("chest", "fracture side", side=side)
        return Statement(text, claims.fracture(side), seen)
    return Statement(voice.say("chest", "fracture any"), claims.fracture(None), seen)


def tube(voice: Voice, state: State, full: bool) -> Statement:
    """That there is an endotracheal tube, and where its tip lies."""
    seen = state.places("tube")
    if not full:
        return Statement(voice.say("devices", "tube any"), claims.some("tube"), seen)
    low, high = {"good": (3.0, 6.0), "low": (0.0, 0.0), "high": (7.2, 9.5)}[state.tube]
    text = voice.say("devices", f"tube {state.tube}", cm=voice.number(low, high, 1))
    return Statement(text, exactly("tube", state.tube), seen)


def line(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a central line, and where it enters."""
    seen = state.places("line")
    side, kind = state.line.split()
    if full:
        name = expand(voice.generator, choose(voice.generator, PHRASES["lines"][state.line]))
        return Statement(voice.say("devices", "line", line=name), claims.line(state.line), seen)
    if kind == "picc":
        return Statement(voice.say("devices", "picc"), claims.line("picc"), seen)
    if voice.chance(0.5):
        text = voice.say("devices", "line side", side=side)
        return Statement(text, claims.line(side), seen)
    return Statement(voice.say("devices", "line any"), claims.line(None), seen)


def pacemaker(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a pacemaker."""
    side, leads = state.pacemaker.split()
    seen = state.places("pacemaker")
    if full:
        text = voice.say("devices", "pacemaker", side=side, leads=leads)
        return Statement(text, claims.pacemaker(side, leads), seen)
    if voice.chance(0.4):
        text = voice.say("devices", "pacemaker side", side=side)
        return Statement(text, claims.pacemaker(side), seen)
    return Statement(voice.say("devices", "pacemaker any"), claims.pacemaker(None), seen)


def drain(voice: Voice, state: State, _: bool) -> Statement:
    """That there is a chest tube."""
    text = voice.say("devices", "drain", side=state.drain)
    return Statement(text, exactly("drain", state.drain), state.places("drain"))


def wires(voice: Voice, state: State, _: bool) -> Statement:
    """That there are sternotomy wires."""
    return Statement(voice.say("devices", "wires"), claims.some("wires"), state.places("wires"))


def positions(voice: Voice, state: State) -> Statement:
    """That the tube and the line lie well."""
    seen = state.places("tube") + state.places("line")
    return Statement(voice.say("devices", "positions"), claims.DEVICES_GOOD, seen)


def further(voice: Voice, axis: str, state: State, full: bool) -> Statement:
    """That an axis beside the five findings has another value than the normal one."""
    return FURTHER[axis](voice, state, full)


FURTHER: dict[str, Callable[[Voice, State, bool], Statement]] = {
    "tube": tube,
    "line": line,
    "drain": drain,
    "atelectasis": atelectasis,
    "nodule": nodule,
    "granuloma": granuloma,
    "emphysema": partial(graded, "emphysema"),
    "fibrosis": partial(graded, "fibrosis"),
    "diaphragm": diaphragm,
    "hernia": partial(graded, "hernia"),
    "fracture": fracture,
    "pacemaker": pacemaker,
    "wires": wires,
}
