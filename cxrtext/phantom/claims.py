"""Claims: the latent classes of sentences.

A claim is what a sentence says of a study, apart from its words: a set of allowed values on some
axes of the study's state.  Its ``rho`` is the probability that it is true of a random study of the
population, which is the probability that a random study's image is a false negative for the
sentence.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cxrtext.phantom.chances import probability, unchanged_probability
from cxrtext.phantom.population import LOBE_PAIRS, VALUES, State

GRADES = ("no", "mild", "moderate", "severe")
SIZES = ("no", "small", "moderate", "large", "tension")


@dataclass(frozen=True, slots=True)
class Claim:
    """A class of sentences.

    Args:
        name: Its name, such as "effusion: small right".
        allowed: Pairs of an axis and the indices of its allowed values, sorted by axis.
        negated: Whether the claim is that some axis has another value: "A or B" is "not neither".
        atoms: The claims that were joined to it; empty for a plain one.
    """

    name: str
    allowed: tuple[tuple[str, frozenset[int]], ...] = ()
    negated: bool = False
    atoms: tuple["Claim", ...] = ()

    def __and__(self, other: "Claim") -> "Claim":
        """Both claims at once, whatever their order; neither may be negated.

        What one claim says already is not named again, so that a class has one name.

        Raises:
            ValueError: One of them is negated, or two different claims have one name.
        """
        if self.negated or other.negated:
            raise ValueError(f"'{self.name}' and '{other.name}' cannot be joined: one is negated")
        merged = dict(self.allowed)
        for axis, indices in other.allowed:
            merged[axis] = merged.get(axis, indices) & indices
        own, others = self.atoms or (self,), other.atoms or (other,)
        atoms = {atom.name: atom for atom in (*own, *others)}
        if any(atoms[atom.name] != atom for atom in own):
            raise ValueError(f"'{self.name}' and '{other.name}' name two claims alike")
        kept = [
            atom
            for name, atom in sorted(atoms.items())
            if not any(
                more.implies(atom) and (of < name or not atom.implies(more))
                for of, more in atoms.items()
                if of != name
            )
        ]
        if len(kept) == 1:
            return kept[0]
        name = " + ".join(atom.name for atom in kept)
        return Claim(name, tuple(sorted(merged.items())), atoms=tuple(kept))

    def implies(self, other: "Claim") -> bool:
        """Whether, neither being negated, the other claim is true wherever this one is."""
        own = dict(self.allowed)
        return all(axis in own and own[axis] <= indices for axis, indices in other.allowed)

    def holds(self, state: State) -> bool:
        """Whether the claim is true of a state."""
        return self.negated != all(
            VALUES[axis].index(getattr(state, axis)) in indices for axis, indices in self.allowed
        )


UNCHANGED = Claim("unchanged")
"""The study has an earlier one with the same findings (``prevalence.CHANGING``)."""


@cache
def rho(claim: Claim) -> float:
    """Probability that the claim is true of a random study."""
    if claim == UNCHANGED:
        return unchanged_probability()
    masks = {}
    for axis, indices in claim.allowed:
        masks[axis] = np.zeros(len(VALUES[axis]))
        masks[axis][list(indices)] = 1.0
    return 1.0 - probability(masks) if claim.negated else probability(masks)


def where(name: str, axis: str, true: Callable[[Any], bool]) -> Claim:
    """The claim that an axis has one of the values for which ``true`` holds."""
    indices = frozenset(i for i, value in enumerate(VALUES[axis]) if true(value))
    return Claim(name, ((axis, indices),))


def all_of(claims: Iterable[Claim]) -> Claim:
    """Every one of the claims at once; there must be one at least."""
    first, *others = claims
    for claim in others:
        first = first & claim
    return first


@cache
def none(axis: str) -> Claim:
    """The axis has its normal value."""
    normal = VALUES[axis][0]
    return where(f"{axis}: none", axis, lambda value: value == normal)


@cache
def exactly(axis: str, value: str) -> Claim:
    """The axis (aorta, spine, volume) has one value."""
    return where(f"{axis}: {value}", axis, lambda other: other == value)


@cache
def cardiomegaly(grade: int | None) -> Claim:
    """An enlarged heart, of one grade or of any (None)."""
    if grade is None:
        return where("cardiomegaly", "cardiomegaly", lambda value: value > 0)
    return where(f"cardiomegaly: {GRADES[grade]}", "cardiomegaly", lambda value: value == grade)


@cache
def edema(grade: int | None, lean: str | None = None) -> Claim:
    """Edema, of one grade or of any (None), worse on one side or not said (None)."""
    words = [GRADES[grade]] if grade else []
    words += [f"worse on the {lean}"] if lean else []
    name = "edema" + (": " + ", ".join(words) if words else "")
    return where(
        name,
        "edema",
        lambda value: value[0] > 0 and grade in (None, value[0]) and lean in (None, value[1]),
    )


@cache
def effusion(side: str, grade: int | None) -> Claim:
    """An effusion on a side, whatever the other side holds, or of equal size on both."""
    size = f"{SIZES[grade]} " if grade else ""

    def matches(value: tuple[int, int]) -> bool:
        wanted = {"right": value[:1], "left": value[1:], "both": value}[side]
        return all(size > 0 and grade in (None, size) for size in wanted)

    return where(f"effusion: {size}{side}", "effusion", matches)


@cache
def uneven_effusion(larger: str) -> Claim:
    """Effusions on both sides, larger on one."""
    sign = 1 if larger == "right" else -1
    return where(
        f"effusion: both, larger {larger}",
        "effusion",
        lambda value: min(value) > 0 and sign * (value[0] - value[1]) > 0,
    )


@cache
def no_effusion(side: str) -> Claim:
    """No effusion on one side."""
    index = ("right", "left").index(side)
    return where(f"effusion: none {side}", "effusion", lambda value: value[index] == 0)


@cache
def pneumonia(lobes: tuple[str, ...], grade: int | None) -> Claim:
    """A pneumonia in all of these lobes at least, of one grade or of any (None)."""
    size = f"{GRADES[grade]} " if grade else ""
    return where(
        f"pneumonia: {size}{' and '.join(lobes)}" if lobes else "pneumonia",
        "pneumonia",
        lambda value: value[0] > 0 and grade in (None, value[0]) and set(lobes).issubset(value[1]),
    )


@cache
def multifocal(grade: int | None) -> Claim:
    """A pneumonia in two lobes."""
    size = f": {GRADES[grade]}" if grade else ""
    return where(
        f"pneumonia multifocal{size}",
        "pneumonia",
        lambda value: value[1] in LOBE_PAIRS and grade in (None, value[0]),
    )


def lobe_side(lobe: str) -> str:
    """The side of a lobe."""
    return "right" if lobe.startswith("right") else "left"


@cache
def pneumonia_on(side: str, grade: int | None = None) -> Claim:
    """A pneumonia somewhere on one side."""
    size = f"{GRADES[grade]} " if grade else ""
    return where(
        f"pneumonia: {size}{side} lung",
        "pneumonia",
        lambda value: (
            grade in (None, value[0]) and any(lobe_side(lobe) == side for lobe in value[1])
        ),
    )


@cache
def pneumothorax(side: str | None, grade: int | None = None, place: str | None = None) -> Claim:
    """A pneumothorax, its side, size and place said or not (None); "both" is also each side's."""
    words = [SIZES[grade]] if grade else []
    words += [word for word in (side, place) if word and word != "tension"]

    def matches(value: tuple[int, str, str]) -> bool:
        sides = (None, value[1]) if value[1] != "both" else (None, "both", "right", "left")
        return (
            value[0] > 0
            and side in sides
            and grade in (None, value[0])
            and place in (None, value[2])
        )

    return where(
        "pneumothorax" + (": " + " ".join(words) if words else ""), "pneumothorax", matches
    )


@cache
def no_pneumothorax(side: str) -> Claim:
    """No pneumothorax on one side."""
    return where(
        f"pneumothorax: none {side}", "pneumothorax", lambda value: value[1] not in (side, "both")
    )
