"""What is there, in words."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cxrtext.phantom import claims
from cxrtext.phantom.claims import Claim, lobe_side, where
from cxrtext.phantom.sentences.grammar import choose, expand, fill, phrases_of
from cxrtext.phantom.state import BASES, SIDES, State


@dataclass(frozen=True, slots=True)
class Statement:
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
    return {"right": "left", "left": "right"}[side]


class Voice:
    """Puts claims into words of a language, with an own source of randomness."""

    def __init__(self, generator: np.random.Generator, language: str) -> None:
        self.generator, self.phrases = generator, phrases_of(language)

    def chance(self, probability: float) -> bool:
        return float(self.generator.random()) < probability

    def number(self, low: float, high: float, digits: int = 0) -> str:
        value = low + (high - low) * float(self.generator.random())
        return f"{value:.{digits}f}"

    def say(self, section: str, kind: str, **slots: str) -> str:
        """One of the phrasings of a kind, its slots filled."""
        return self.fill(choose(self.generator, self.phrases[section][kind]), **slots)

    def fill(self, template: str, **slots: str) -> str:
        """A phrasing with its slots filled, by the language's own words where it has them."""
        own = {slot: self.own(word) for slot, word in slots.items()}
        return fill(self.generator, template, self.phrases, **own)

    def expand(self, template: str, **slots: str) -> str:
        return expand(self.generator, template, self.phrases, **slots)

    def word(self, kind: str) -> str:
        """A word for a grade, a size or a place."""
        return choose(self.generator, self.phrases["synonyms"][kind])

    def own(self, word: str) -> str:
        """The language's own word for an English one, which stays where it has none."""
        return self.word(word) if word in self.phrases["synonyms"] else word

    def present(self, axis: str, state: State, full: bool) -> list[Statement]:
        """That a finding is there, with its grade and its place in full, or in brief.

        Of the five findings one sentence, or one a side or a lobe; of the others one.
        """
        return [
            Statement(text, claim, places or state.places(axis))
            for text, claim, places in SAID[axis](self, getattr(state, axis), full)
        ]


Sites = tuple[tuple[str, str], ...]
Sentence = tuple[str, Claim, Sites]
"""A text, what it claims, and the places that it speaks of; () for all of the finding."""
Said = Iterator[Sentence]


def in_brief(
    voice: Voice, section: str, axis: str, sided: float, side: str, claim: Callable[[Any], Claim]
) -> Sentence:
    """That a finding is there, with the probability ``sided`` on its side."""
    if voice.chance(sided):
        return voice.say(section, f"{axis} side", side=side), claim(side), ()
    return voice.say(section, f"{axis} any"), claim(None), ()


def cardiomegaly(voice: Voice, grade: int, full: bool) -> Said:
    if full:
        slots = {"adj": voice.word(f"heart {grade}"), "adv": voice.word(f"heartly {grade}")}
        yield voice.say("findings", "cardiomegaly", **slots), claims.cardiomegaly(grade), ()
    else:
        yield voice.say("findings", "cardiomegaly any"), claims.cardiomegaly(None), ()


def edema(voice: Voice, value: tuple[int, str], full: bool) -> Said:
    grade, lean = value
    if not full:
        yield voice.say("findings", "edema any"), claims.edema(None), ()
        return
    adj = voice.word(f"edema {grade}")
    if lean and voice.chance(0.75):
        slots = {"adj": adj, "side": lean, "other": other_side(lean)}
        yield voice.say("findings", "edema lean", **slots), claims.edema(grade, lean), ()
    else:
        yield voice.say("findings", "edema", adj=adj), claims.edema(grade), ()


def effusion(voice: Voice, value: tuple[int, int], full: bool) -> Said:
    right, left = value
    if right and left and not full:
        yield voice.say("findings", "effusion both any"), claims.effusion("both", None), ()
    elif right and right == left:
        text = voice.say("findings", "effusion both", adj=voice.word(f"fluid {right}"))
        yield text, claims.effusion("both", right), ()
    elif right and left and voice.chance(0.5):
        side = "right" if right > left else "left"
        text = voice.say("findings", "effusion uneven", side=side, other=other_side(side))
        yield text, claims.uneven_effusion(side), ()
    else:
        for side, grade in zip(SIDES, value, strict=True):
            if grade:
                yield _one_effusion(voice, side, grade, full)


def _one_effusion(voice: Voice, side: str, grade: int, full: bool) -> Sentence:
    seen = (("Pleural Effusion", side),)
    if not full:
        text = voice.say("findings", "effusion any", side=side)
        return text, claims.effusion(side, None), seen
    kind = "effusion blunting" if grade == 1 and voice.chance(0.3) else "effusion"
    text = voice.say("findings", kind, adj=voice.word(f"fluid {grade}"), side=side)
    return text, claims.effusion(side, grade), seen


def pneumonia(voice: Voice, value: tuple[int, tuple[str, ...]], full: bool) -> Said:
    grade, lobes = value
    if not full:
        yield _pneumonia_in_brief(voice, lobes)
    elif len(lobes) == 2 and voice.chance(0.6):
        first, second = (voice.word(f"base {lobe}") for lobe in lobes)
        slots = {"adj": voice.word(f"dense {grade}"), "lobe": first, "second": second}
        yield voice.say("findings", "pneumonia pair", **slots), claims.pneumonia(lobes, grade), ()
    else:
        for lobe in lobes:
            kind, place = "pneumonia", voice.word(f"base {lobe}")
            if grade == 3 and voice.chance(0.4):
                kind, place = "pneumonia bronchogram", lobe
            elif lobe == "right middle lobe" and voice.chance(0.3):
                kind = "pneumonia silhouette"
            text = voice.say("findings", kind, adj=voice.word(f"dense {grade}"), lobe=place)
            yield text, claims.pneumonia((lobe,), grade), (("Pneumonia", lobe),)


def _pneumonia_in_brief(voice: Voice, lobes: tuple[str, ...]) -> Sentence:
    if len(lobes) == 2:
        return voice.say("findings", "pneumonia multifocal"), claims.MULTIFOCAL, ()
    if voice.chance(0.6):
        text = voice.say("findings", "pneumonia any", lobe=voice.word(f"base {lobes[0]}"))
        return text, claims.pneumonia(lobes, None), ()
    if voice.chance(0.5):
        side = lobe_side(lobes[0])
        return voice.say("findings", "pneumonia side", side=side), claims.pneumonia_on(side), ()
    return voice.say("findings", "pneumonia nowhere"), claims.pneumonia((), None), ()


def pneumothorax(voice: Voice, value: tuple[int, str, str], full: bool) -> Said:
    grade, side, place = value
    kind, claim, slots = "pneumothorax", claims.pneumothorax(side, grade), {"side": side}
    if side == "both":
        kind, slots = "pneumothorax both", {"adj": voice.word(f"air {grade}")}
    elif grade == 4:
        kind, slots = "pneumothorax tension", {"side": side, "other": other_side(side)}
    elif not full:
        kind, claim = "pneumothorax any", claims.pneumothorax(side)
    else:
        slots["adj"] = voice.word(f"air {grade}")
        if grade == 3 or voice.chance(0.2):
            kind = "pneumothorax sized"
        else:
            claim = claims.pneumothorax(side, grade, place)
            slots |= {"place": place, "width": voice.number(*((3, 12), (12, 28))[grade - 1])}
    yield voice.say("findings", kind, **slots), claim, ()


ORDINALS = {4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth"}


def atelectasis(voice: Voice, value: tuple[int, str], full: bool) -> Said:
    """An atelectasis, in lines or as a basal opacity."""
    grade, base = value
    if not full and voice.chance(0.4):
        yield voice.say("chest", "atelectasis any"), claims.atelectasis(None), ()
        return
    if grade == 2 and base != BASES[2] and voice.chance(0.25):
        side = base.split()[0]
        yield voice.say("chest", "opacity either", side=side), claims.basal_opacity(side), ()
        return
    text = voice.say("chest", ("linear", "basal")[grade - 1], base=voice.word(f"base {base}"))
    yield text, claims.atelectasis(base, grade), ()


def nodule(voice: Voice, value: tuple[int, str], full: bool) -> Said:
    grade, lobe = value
    small = where("nodule: below mass", "nodule", lambda v: 0 < v[0] < 3)
    if full:
        cm = voice.number(*((0.4, 0.9), (1.1, 2.9), (3.2, 6.5))[grade - 1], 1)
        slots = {"mm": voice.number(4, 9), "cm": cm, "lobe": voice.word(f"base {lobe}")}
        yield voice.say("chest", f"nodule {grade}", **slots), claims.nodule(lobe, grade), ()
    elif grade == 3:
        yield voice.say("chest", "mass nowhere"), claims.nodule(None, 3), ()
    elif voice.chance(0.4):
        text = voice.say("chest", "nodule any", lobe=voice.word(f"base {lobe}"))
        yield text, claims.nodule(lobe) & small, ()
    elif voice.chance(0.5):
        side = lobe_side(lobe)
        yield voice.say("chest", "nodule side", side=side), claims.nodule(side) & small, ()
    else:
        yield voice.say("chest", "nodule nowhere"), small, ()


def granuloma(voice: Voice, lobe: str, full: bool) -> Said:
    if full:
        slots = {"mm": voice.number(3, 9), "lobe": voice.word(f"base {lobe}")}
        yield voice.say("chest", "granuloma", **slots), claims.granuloma(lobe), ()
    else:
        yield in_brief(voice, "chest", "granuloma", 0.5, lobe_side(lobe), claims.granuloma)


def graded(axis: str, voice: Voice, grade: int, full: bool) -> Said:
    """Emphysema, fibrosis or a hiatal hernia."""
    if full:
        yield voice.say("chest", f"{axis} {grade}"), claims.graded(axis, grade), ()
    elif axis != "hernia" and voice.chance(0.2):
        yield voice.say("chest", "chronic"), claims.CHRONIC_LUNG, ()
    else:
        yield voice.say("chest", f"{axis} any"), claims.some(axis), ()


def sided(section: str, axis: str, voice: Voice, side: str, _: bool) -> Said:
    """An elevated hemidiaphragm or a chest tube."""
    yield voice.say(section, axis, side=side), claims.exactly(axis, side), ()


def fracture(voice: Voice, value: tuple[str, int], full: bool) -> Said:
    side, rib = value
    if full:
        number = ORDINALS[rib] if voice.chance(0.7) else f"{rib}th"
        yield voice.say("chest", "fracture", side=side, rib=number), claims.fracture(side, rib), ()
    else:
        yield in_brief(voice, "chest", "fracture", 0.6, side, claims.fracture)


def tube(voice: Voice, place: str, full: bool) -> Said:
    if full:
        low, high = {"good": (3.0, 6.0), "low": (0.0, 0.0), "high": (7.2, 9.5)}[place]
        text = voice.say("devices", f"tube {place}", cm=voice.number(low, high, 1))
        yield text, claims.exactly("tube", place), ()
    else:
        yield voice.say("devices", "tube any"), claims.some("tube"), ()


def line(voice: Voice, value: str, full: bool) -> Said:
    side, kind = value.split()
    if full:
        name = voice.expand(choose(voice.generator, voice.phrases["lines"][value]))
        yield voice.say("devices", "line", line=name), claims.line(value), ()
    elif kind == "picc":
        yield voice.say("devices", "picc"), claims.line("picc"), ()
    else:
        yield in_brief(voice, "devices", "line", 0.5, side, claims.line)


def pacemaker(voice: Voice, value: str, full: bool) -> Said:
    side, leads = value.split()
    if full:
        text = voice.say("devices", "pacemaker", side=side, leads=leads)
        yield text, claims.pacemaker(side, leads), ()
    else:
        yield in_brief(voice, "devices", "pacemaker", 0.4, side, claims.pacemaker)


def wires(voice: Voice, _: bool, __: bool) -> Said:
    yield voice.say("devices", "wires"), claims.some("wires"), ()


SAID: dict[str, Callable[[Voice, Any, bool], Said]] = {
    "cardiomegaly": cardiomegaly,
    "pneumothorax": pneumothorax,
    "edema": edema,
    "effusion": effusion,
    "pneumonia": pneumonia,
    "tube": tube,
    "line": line,
    "drain": partial(sided, "devices", "drain"),
    "atelectasis": atelectasis,
    "nodule": nodule,
    "granuloma": granuloma,
    "emphysema": partial(graded, "emphysema"),
    "fibrosis": partial(graded, "fibrosis"),
    "diaphragm": partial(sided, "chest", "diaphragm"),
    "hernia": partial(graded, "hernia"),
    "fracture": fracture,
    "pacemaker": pacemaker,
    "wires": wires,
}
"""How each axis that has a place is said to have another value than its normal one."""
