"""The five findings in words."""

from dataclasses import dataclass

import numpy as np

from cxrtext.phantom import claims
from cxrtext.phantom.claims import Claim
from cxrtext.phantom.grammar import choose, fill
from cxrtext.phantom.phrases import FINDINGS, SYNONYMS
from cxrtext.phantom.population import State


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a report.

    Args:
        text: The sentence, with its full stop.
        claim: What it says.
        shows: The (finding, part) pairs that it speaks of as present.
        parts: The statements that were joined to it; empty for a plain one.
        change: An axis, and what the words say of it beside the study before: "new", "same",
            "more", "less" or "gone"; empty where they say nothing of it.
    """

    text: str
    claim: Claim
    shows: tuple[tuple[str, str], ...] = ()
    parts: tuple["Statement", ...] = ()
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

    def say(self, phrases: dict[str, tuple[str, ...]], kind: str, **slots: str) -> str:
        """One of the phrasings of a kind, its slots filled."""
        return fill(self.generator, choose(self.generator, phrases[kind]), **slots)

    def word(self, kind: str) -> str:
        """A word for a grade, a size or a place."""
        return choose(self.generator, SYNONYMS[kind])

    def present(self, axis: str, state: State, full: bool) -> list[Statement]:
        """That a finding is there.

        Args:
            axis: One of the five findings' axes.
            state: The study's state, in which the finding is present.
            full: Whether to name the grade, and the place in full.

        Returns:
            One sentence, or one a side or a lobe.
        """
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
            text = self.say(FINDINGS, "cardiomegaly any")
            return Statement(text, claims.cardiomegaly(None), shows)
        adj, adv = self.word(f"heart {grade}"), self.word(f"heartly {grade}")
        text = self.say(FINDINGS, "cardiomegaly", adj=adj, adv=adv)
        return Statement(text, claims.cardiomegaly(grade), shows)

    def _edema(self, grade: int, lean: str, full: bool) -> Statement:
        shows = (("Edema", "right"), ("Edema", "left"))
        if not full:
            return Statement(self.say(FINDINGS, "edema any"), claims.edema(None), shows)
        adj = self.word(f"edema {grade}")
        if lean and self.chance(0.75):
            other = other_side(lean)
            text = self.say(FINDINGS, "edema lean", adj=adj, side=lean, other=other)
            return Statement(text, claims.edema(grade, lean), shows)
        return Statement(self.say(FINDINGS, "edema", adj=adj), claims.edema(grade), shows)

    def _effusion(self, right: int, left: int, full: bool) -> list[Statement]:
        both = (("Pleural Effusion", "right"), ("Pleural Effusion", "left"))
        if right and left and not full:
            text = self.say(FINDINGS, "effusion both any")
            return [Statement(text, claims.effusion("both", None), both)]
        if right and right == left:
            text = self.say(FINDINGS, "effusion both", adj=self.word(f"fluid {right}"))
            return [Statement(text, claims.effusion("both", right), both)]
        if right and left and self.chance(0.5):
            side = "right" if right > left else "left"
            text = self.say(FINDINGS, "effusion uneven", side=side, other=other_side(side))
            return [Statement(text, claims.uneven_effusion(side), both)]
        sides = (("right", right), ("left", left))
        return [self._one_effusion(side, grade, full) for side, grade in sides if grade]

    def _one_effusion(self, side: str, grade: int, full: bool) -> Statement:
        shows = (("Pleural Effusion", side),)
        if not full:
            text = self.say(FINDINGS, "effusion any", side=side)
            return Statement(text, claims.effusion(side, None), shows)
        kind = "effusion blunting" if grade == 1 and self.chance(0.3) else "effusion"
        text = self.say(FINDINGS, kind, adj=self.word(f"fluid {grade}"), side=side)
        return Statement(text, claims.effusion(side, grade), shows)

    def _pneumonia(self, grade: int, lobes: tuple[str, ...], full: bool) -> list[Statement]:
        shows = tuple(("Pneumonia", lobe) for lobe in lobes)
        if not full:
            return [self._pneumonia_in_brief(lobes, shows)]
        if len(lobes) == 2 and self.chance(0.6):
            first, second = (self.word(f"base {lobe}") for lobe in lobes)
            adj = self.word(f"dense {grade}")
            text = self.say(FINDINGS, "pneumonia pair", adj=adj, lobe=first, second=second)
            return [Statement(text, claims.pneumonia(lobes, grade), shows)]
        return [self._one_pneumonia(grade, lobe) for lobe in lobes]

    def _one_pneumonia(self, grade: int, lobe: str) -> Statement:
        kind, place = "pneumonia", self.word(f"base {lobe}")
        if grade == 3 and self.chance(0.4):
            kind, place = "pneumonia bronchogram", lobe
        elif lobe == "right middle lobe" and self.chance(0.3):
            kind = "pneumonia silhouette"
        text = self.say(FINDINGS, kind, adj=self.word(f"dense {grade}"), lobe=place)
        return Statement(text, claims.pneumonia((lobe,), grade), (("Pneumonia", lobe),))

    def _pneumonia_in_brief(
        self, lobes: tuple[str, ...], shows: tuple[tuple[str, str], ...]
    ) -> Statement:
        if len(lobes) == 2:
            text = self.say(FINDINGS, "pneumonia multifocal")
            return Statement(text, claims.multifocal(None), shows)
        lobe, side = lobes[0], claims.lobe_side(lobes[0])
        if self.chance(0.6):
            text = self.say(FINDINGS, "pneumonia any", lobe=self.word(f"base {lobe}"))
            return Statement(text, claims.pneumonia((lobe,), None), shows)
        if self.chance(0.5):
            text = self.say(FINDINGS, "pneumonia side", side=side)
            return Statement(text, claims.pneumonia_on(side), shows)
        text = self.say(FINDINGS, "pneumonia nowhere")
        return Statement(text, claims.pneumonia((), None), shows)

    def _pneumothorax(self, grade: int, side: str, place: str, full: bool) -> Statement:
        sides = ("right", "left") if side == "both" else (side,)
        shows = tuple(("Pneumothorax", one) for one in sides)
        if side == "both":
            text = self.say(FINDINGS, "pneumothorax both", adj=self.word(f"air {grade}"))
            return Statement(text, claims.pneumothorax("both", grade), shows)
        if grade == 4:
            other = other_side(side)
            text = self.say(FINDINGS, "pneumothorax tension", side=side, other=other)
            return Statement(text, claims.pneumothorax(side, 4), shows)
        if not full:
            text = self.say(FINDINGS, "pneumothorax any", side=side)
            return Statement(text, claims.pneumothorax(side), shows)
        adj = self.word(f"air {grade}")
        if grade == 3 or self.chance(0.2):
            text = self.say(FINDINGS, "pneumothorax sized", adj=adj, side=side)
            return Statement(text, claims.pneumothorax(side, grade), shows)
        width = self.number(*((3, 12), (12, 28))[grade - 1])
        slots = {"adj": adj, "side": side, "place": place, "width": width}
        text = self.say(FINDINGS, "pneumothorax", **slots)
        return Statement(text, claims.pneumothorax(side, grade, place), shows)
