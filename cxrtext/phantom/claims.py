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

from cxrtext.phantom.population import probability, unchanged_probability
from cxrtext.phantom.state import BASES, LOBE_PAIRS, SIDES, VALUES, State

GRADES = ("no", "mild", "moderate", "severe")
SIZES = ("no", "small", "moderate", "large", "tension")


@dataclass(frozen=True, slots=True)
class Claim:
    name: str  # its name, such as "effusion: small right"
    # Pairs of an axis and the indices of its allowed values, sorted by axis.
    allowed: tuple[tuple[str, frozenset[int]], ...] = ()
    # Whether the claim is that some axis has another value: "A or B" is "not neither".
    negated: bool = False
    atoms: tuple["Claim", ...] = ()  # the claims that were joined to it; empty for a plain one

    def __and__(self, other: "Claim") -> "Claim":
        """Both claims at once, whatever their order; neither may be negated.

        What one claim says already is not named again, so that a class has one name.
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
    first, *others = claims
    for claim in others:
        first = first & claim
    return first


@cache
def none(axis: str) -> Claim:
    normal = VALUES[axis][0]
    return where(f"{axis}: none", axis, lambda value: value == normal)


@cache
def exactly(axis: str, value: str) -> Claim:
    """The axis (aorta, spine, volume) has one value."""
    return where(f"{axis}: {value}", axis, lambda other: other == value)


def _said(axis: str, words: Iterable[str | None], true: Callable[[Any], bool]) -> Claim:
    """The claim of an axis that is named by the words that there are."""
    said = " ".join(word for word in words if word)
    return where(f"{axis}: {said}" if said else axis, axis, true)


@cache
def cardiomegaly(grade: int | None) -> Claim:
    """An enlarged heart, of one grade or of any (None)."""
    words = [GRADES[grade]] if grade else []
    return _said("cardiomegaly", words, lambda v: v == grade if grade else v > 0)


@cache
def edema(grade: int | None, lean: str | None = None) -> Claim:
    """Edema, of one grade or of any (None), worse on one side or not said (None)."""
    words = [GRADES[grade] if grade else None, f"worse on the {lean}" if lean else None]
    return _said(
        "edema",
        [", ".join(word for word in words if word)],
        lambda v: v[0] > 0 and grade in (None, v[0]) and lean in (None, v[1]),
    )


@cache
def effusion(side: str, grade: int | None) -> Claim:
    """An effusion on a side, whatever the other side holds, or of equal size on both."""
    part = {"right": slice(0, 1), "left": slice(1, 2), "both": slice(0, 2)}[side]
    return _said(
        "effusion",
        [SIZES[grade] if grade else None, side],
        lambda v: all(size > 0 and grade in (None, size) for size in v[part]),
    )


@cache
def uneven_effusion(larger: str) -> Claim:
    sign = 1 if larger == "right" else -1
    return where(
        f"effusion: both, larger {larger}",
        "effusion",
        lambda v: min(v) > 0 and sign * (v[0] - v[1]) > 0,
    )


@cache
def no_effusion(side: str) -> Claim:
    index = SIDES.index(side)
    return where(f"effusion: none {side}", "effusion", lambda v: v[index] == 0)


NO_LARGE_EFFUSION = where("effusion: none large", "effusion", lambda v: max(v) < len(SIZES) - 2)


@cache
def pneumonia(lobes: tuple[str, ...], grade: int | None) -> Claim:
    """A pneumonia in all of these lobes at least, of one grade or of any (None)."""
    return _said(
        "pneumonia",
        [GRADES[grade] if grade and lobes else None, " and ".join(lobes)],
        lambda v: v[0] > 0 and grade in (None, v[0]) and set(lobes).issubset(v[1]),
    )


MULTIFOCAL = where("pneumonia multifocal", "pneumonia", lambda v: v[1] in LOBE_PAIRS)


def lobe_side(lobe: str) -> str:
    return "right" if lobe.startswith("right") else "left"


def _in_lung(side: str, lobes: Iterable[str]) -> bool:
    return any(lobe_side(lobe) == side for lobe in lobes)


@cache
def pneumonia_on(side: str, grade: int | None = None) -> Claim:
    words = [GRADES[grade] if grade else None, side, "lung"]
    return _said("pneumonia", words, lambda v: grade in (None, v[0]) and _in_lung(side, v[1]))


@cache
def no_pneumonia_on(side: str) -> Claim:
    return where(f"pneumonia: none {side}", "pneumonia", lambda v: not _in_lung(side, v[1]))


@cache
def pneumothorax(side: str | None, grade: int | None = None, place: str | None = None) -> Claim:
    """A pneumothorax, its side, size and place said or not (None); "both" is also each side's."""
    return _said(
        "pneumothorax",
        [SIZES[grade] if grade else None, side, place],
        lambda v: (
            v[0] > 0
            and (side in (None, v[1]) or (v[1] == "both" and side in SIDES))
            and grade in (None, v[0])
            and place in (None, v[2])
        ),
    )


@cache
def no_pneumothorax(side: str) -> Claim:
    return where(f"pneumothorax: none {side}", "pneumothorax", lambda v: v[1] not in (side, "both"))


BASES_BOTH = BASES[2]
NODULES = ("no", "nodule", "large nodule", "mass")


@cache
def some(axis: str) -> Claim:
    """The axis has any value but the normal one."""
    normal = VALUES[axis][0]
    return where(axis, axis, lambda v: v != normal)


@cache
def graded(axis: str, grade: int) -> Claim:
    """Emphysema, fibrosis or a hernia of one grade."""
    return where(f"{axis}: {('none', 'mild', 'severe')[grade]}", axis, lambda v: v == grade)


@cache
def atelectasis(base: str | None, grade: int | None = None) -> Claim:
    """An atelectasis at a base or anywhere (None); at "both bases" is also at each."""
    return _said(
        "atelectasis",
        [("", "linear", "opacity")[grade or 0], base],
        lambda v: (
            v[0] > 0 and grade in (None, v[0]) and (base in (None, v[1]) or v[1] == BASES_BOTH)
        ),
    )


@cache
def nodule(place: str | None, grade: int | None = None) -> Claim:
    """A nodule or mass in a lobe, on a side, or anywhere (None)."""
    size = NODULES[grade] if grade else "any size"
    return where(
        f"nodule: {size}" + (f", {place}" if place else ""),
        "nodule",
        lambda v: v[0] > 0 and grade in (None, v[0]) and place in (None, v[1], lobe_side(v[1])),
    )


@cache
def granuloma(place: str | None) -> Claim:
    """A calcified granuloma in a lobe, on a side, or anywhere (None)."""
    return _said("granuloma", [place], lambda v: bool(v) and place in (None, v, lobe_side(v)))


@cache
def fracture(side: str | None, rib: int | None = None) -> Claim:
    """A broken rib, its side and number said or not (None)."""
    return _said(
        "fracture",
        [side, f"rib {rib}" if rib else None],
        lambda v: v[1] > 0 and side in (None, v[0]) and rib in (None, v[1]),
    )


@cache
def line(kind: str | None) -> Claim:
    """A central line that enters at a place, is a PICC, is of one side, or is any (None)."""
    return _said("line", [kind], lambda v: bool(v) and kind in (None, v, *v.split()))


@cache
def pacemaker(side: str | None, leads: str | None = None) -> Claim:
    """A pacemaker, its side and leads ("single", "dual") said or not (None)."""
    # All pacemakers of the right side have two leads.
    words = [word for word in (side, None if side == "right" else leads) if word]
    return _said("pacemaker", words, lambda v: bool(v) and set(words) <= set(v.split()))


SCOLIOSIS = where("spine: scoliosis", "spine", lambda v: v.startswith("scoliosis"))


def _part(axis: str, true: Callable[[Any], bool]) -> Claim:
    """A claim that is only a part of another one."""
    return where(f"{axis}: some values", axis, true)


@cache
def basal_opacity(side: str) -> Claim:
    """An opacity at a base, be it a pneumonia or an atelectasis."""
    lobe, base = f"{side} lower lobe", f"{side} base"
    neither = _part("pneumonia", lambda v: lobe not in v[1]) & _part(
        "atelectasis", lambda v: v[0] < 2 or v[1] not in (base, BASES_BOTH)
    )
    return Claim(f"opacity: {base}", neither.allowed, negated=True)


@cache
def clear_lung(side: str) -> Claim:
    """Nothing within one lung: no pneumonia, edema, atelectasis, nodule, granuloma or fibrosis."""
    return _named(
        f"lung clear: {side}",
        _part("pneumonia", lambda v: not _in_lung(side, v[1])),
        _part("atelectasis", lambda v: v[1] not in (f"{side} base", BASES_BOTH)),
        _part("nodule", lambda v: not v[1] or lobe_side(v[1]) != side),
        _part("granuloma", lambda v: not v or lobe_side(v) != side),
        none("edema"),
        none("fibrosis"),
    )


def _named(name: str, *parts: Claim) -> Claim:
    return Claim(name, all_of(parts).allowed)


LUNGS_CLEAR = _named(
    "lungs clear",
    *map(none, ("edema", "pneumonia", "atelectasis", "nodule", "granuloma", "fibrosis")),
)
OTHERWISE_CLEAR = none("edema") & none("pneumonia") & none("atelectasis")
"""No opacity beside a nodule, granuloma or scars, which another sentence names."""

NOTHING_ACUTE = _named(
    "nothing acute",
    *map(none, ("edema", "effusion", "pneumonia", "pneumothorax")),
    _part("atelectasis", lambda v: v[0] < 2),
)
"""None of the acute findings; lines of atelectasis are not counted as one."""

NORMAL = _named("normal study", *map(none, VALUES))  # every axis has its normal value

MEDIASTINUM = _named(
    "mediastinum: normal",
    exactly("aorta", "normal"),
    none("hernia"),
    _part("pneumothorax", lambda v: v[0] < 4),
)
"""A normal aorta, no hernia, no shift."""

HEART_AND_MEDIASTINUM = none("cardiomegaly") & MEDIASTINUM
BONES = exactly("spine", "straight") & none("fracture")
DEVICES_GOOD = _named("tube and line: in good position", exactly("tube", "good"), some("line"))
NO_DEVICES = _named("devices: none", *map(none, ("tube", "line", "pacemaker", "drain", "wires")))
CHRONIC_LUNG = Claim(
    "emphysema or fibrosis", (none("emphysema") & none("fibrosis")).allowed, negated=True
)
