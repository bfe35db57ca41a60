"""Claims on what lies beside the five findings, on devices, and on the chest as a whole."""

from functools import cache

from cxrtext.phantom.claims import SIZES, Claim, all_of, exactly, lobe_side, none, where
from cxrtext.phantom.population import VALUES

BASES_BOTH = "both bases"
NODULES = ("no", "nodule", "large nodule", "mass")


@cache
def some(axis: str) -> Claim:
    """The axis has any value but the normal one."""
    normal = VALUES[axis][0]
    return where(axis, axis, lambda value: value != normal)


@cache
def graded(axis: str, grade: int) -> Claim:
    """Emphysema, fibrosis or a hernia of one grade."""
    return where(f"{axis}: {('none', 'mild', 'severe')[grade]}", axis, lambda v: v == grade)


@cache
def atelectasis(base: str | None, grade: int | None = None) -> Claim:
    """An atelectasis at a base or anywhere (None); at "both bases" is also at each."""
    words = [("", "linear", "opacity")[grade]] if grade else []
    words += [base] if base else []
    return where(
        "atelectasis" + (": " + " ".join(words) if words else ""),
        "atelectasis",
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
    return where(
        "granuloma" + (f": {place}" if place else ""),
        "granuloma",
        lambda v: bool(v) and place in (None, v, lobe_side(v)),
    )


@cache
def fracture(side: str | None, rib: int | None = None) -> Claim:
    """A broken rib, its side and number said or not (None)."""
    words = [word for word in (side, f"rib {rib}" if rib else "") if word]
    return where(
        "fracture" + (": " + " ".join(words) if words else ""),
        "fracture",
        lambda v: v[1] > 0 and side in (None, v[0]) and rib in (None, v[1]),
    )


@cache
def line(kind: str | None) -> Claim:
    """A central line that enters at a place, is a PICC, is of one side, or is any (None)."""
    return where(
        "line" + (f": {kind}" if kind else ""),
        "line",
        lambda v: bool(v) and (kind in (None, v) or kind in v.split()),
    )


@cache
def pacemaker(side: str | None, leads: str | None = None) -> Claim:
    """A pacemaker, its side and leads ("single", "dual") said or not (None)."""
    # All pacemakers of the right side have two leads.
    words = [word for word in (side, None if side == "right" else leads) if word]
    return where(
        "pacemaker" + (": " + " ".join(words) if words else ""),
        "pacemaker",
        lambda v: bool(v) and set(words) <= set(v.split()),
    )


@cache
def scoliosis() -> Claim:
    """A scoliosis to either side."""
    return where("spine: scoliosis", "spine", lambda v: v.startswith("scoliosis"))


@cache
def no_large_effusion() -> Claim:
    """No effusion of the largest grade; smaller ones may be there."""
    return where("effusion: none large", "effusion", lambda v: max(v) < len(SIZES) - 2)


@cache
def basal_opacity(side: str) -> Claim:
    """An opacity at a base, be it a pneumonia or an atelectasis."""
    lobe, base = f"{side} lower lobe", f"{side} base"
    neither = where("pneumonia: some values", "pneumonia", lambda v: lobe not in v[1]) & where(
        "atelectasis: some values",
        "atelectasis",
        lambda v: v[0] < 2 or v[1] not in (base, BASES_BOTH),
    )
    return Claim(f"opacity: {base}", neither.allowed, negated=True)


@cache
def clear_lung(side: str) -> Claim:
    """Nothing within one lung: no pneumonia, edema, atelectasis, nodule, granuloma or fibrosis."""
    base = f"{side} base"
    parts = (
        where(
            "pneumonia: some values",
            "pneumonia",
            lambda v: all(lobe_side(lobe) != side for lobe in v[1]),
        ),
        where("atelectasis: some values", "atelectasis", lambda v: v[1] not in (base, BASES_BOTH)),
        where("nodule: some values", "nodule", lambda v: not v[1] or lobe_side(v[1]) != side),
        where("granuloma: some values", "granuloma", lambda v: not v or lobe_side(v) != side),
        none("edema"),
        none("fibrosis"),
    )
    return Claim(f"lung clear: {side}", all_of(parts).allowed)


@cache
def no_pneumonia_on(side: str) -> Claim:
    """No pneumonia on one side."""
    return where(
        f"pneumonia: none {side}",
        "pneumonia",
        lambda v: all(lobe_side(lobe) != side for lobe in v[1]),
    )


def _named(name: str, *parts: Claim) -> Claim:
    """All of the parts under one name."""
    return Claim(name, all_of(parts).allowed)


LUNGS_CLEAR = _named(
    "lungs clear",
    *map(none, ("edema", "pneumonia", "atelectasis", "nodule", "granuloma", "fibrosis")),
)
OTHERWISE_CLEAR = none("edema") & none("pneumonia") & none("atelectasis")
"""No opacity beside a nodule, granuloma or scars, which another sentence tells of."""

_LITTLE_ATELECTASIS = where("atelectasis: some values", "atelectasis", lambda v: v[0] < 2)
NOTHING_ACUTE = _named(
    "nothing acute",
    *map(none, ("edema", "effusion", "pneumonia", "pneumothorax")),
    _LITTLE_ATELECTASIS,
)
"""None of the acute findings; lines of atelectasis are not counted as one."""

NORMAL = _named("normal study", *map(none, VALUES))
"""Every axis has its normal value."""

MEDIASTINUM = _named(
    "mediastinum: normal",
    exactly("aorta", "normal"),
    none("hernia"),
    where("pneumothorax: some values", "pneumothorax", lambda v: v[0] < 4),
)
"""A normal aorta, no hernia, no shift."""

HEART_AND_MEDIASTINUM = none("cardiomegaly") & MEDIASTINUM
BONES = exactly("spine", "straight") & none("fracture")
DEVICES_GOOD = _named("tube and line: in good position", exactly("tube", "good"), some("line"))
NO_DEVICES = _named("devices: none", *map(none, ("tube", "line", "pacemaker", "drain", "wires")))
CHRONIC_LUNG = Claim(
    "emphysema or fibrosis", (none("emphysema") & none("fibrosis")).allowed, negated=True
)
