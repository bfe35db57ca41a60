"""What lies beside the five findings, and devices, in words."""

from cxrtext.phantom import chest_claims as claims
from cxrtext.phantom.chest_phrases import CHEST
from cxrtext.phantom.claims import exactly, lobe_side, where
from cxrtext.phantom.device_phrases import DEVICES, LINES
from cxrtext.phantom.grammar import choose, expand
from cxrtext.phantom.population import BASES, State
from cxrtext.phantom.wording import Statement, Voice

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
            voice.say(CHEST, "atelectasis any"),
            claims.atelectasis(None),
            shows(state, "atelectasis"),
        )
    if grade == 2 and base != BASES[2] and voice.chance(0.25):
        side = base.split()[0]
        return Statement(
            voice.say(CHEST, "opacity either", side=side),
            claims.basal_opacity(side),
            shows(state, "atelectasis"),
        )
    text = voice.say(
        CHEST, ("linear", "basal")[grade - 1], base=choose(voice.generator, BASE_WORDS[base])
    )
    for word in BASE_WORDS[BASES[2]]:
        text = text.replace(f"{word.capitalize()} ", "Bibasilar ").replace(
            f" {word} a", " bibasilar a"
        )
    return Statement(text, claims.atelectasis(base, grade), shows(state, "atelectasis"))


def nodule(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a nodule or a mass."""
    grade, lobe = state.nodule
    seen = shows(state, "nodule")
    if full:
        cm = voice.number(*((0.4, 0.9), (1.1, 2.9), (3.2, 6.5))[grade - 1], 1)
        slots = {"mm": voice.number(4, 9), "cm": cm, "lobe": voice.word(f"base {lobe}")}
        text = voice.say(CHEST, f"nodule {grade}", **slots)
        return Statement(text, claims.nodule(lobe, grade), seen)
    if grade == 3:
        return Statement(voice.say(CHEST, "mass nowhere"), claims.nodule(None, 3), seen)
    small = where("nodule: below mass", "nodule", lambda v: 0 < v[0] < 3)
    if voice.chance(0.4):
        text = voice.say(CHEST, "nodule any", lobe=voice.word(f"base {lobe}"))
        return Statement(text, claims.nodule(lobe) & small, seen)
    if voice.chance(0.5):
        side = lobe_side(lobe)
        text = voice.say(CHEST, "nodule side", side=side)
        return Statement(text, claims.nodule(side) & small, seen)
    return Statement(voice.say(CHEST, "nodule nowhere"), small, seen)


def granuloma(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a calcified granuloma."""
    lobe, seen = state.granuloma, shows(state, "granuloma")
    if full:
        slots = {"mm": voice.number(3, 9), "lobe": voice.word(f"base {lobe}")}
        return Statement(voice.say(CHEST, "granuloma", **slots), claims.granuloma(lobe), seen)
    if voice.chance(0.5):
        text = voice.say(CHEST, "granuloma side", side=lobe_side(lobe))
        return Statement(text, claims.granuloma(lobe_side(lobe)), seen)
    return Statement(voice.say(CHEST, "granuloma any"), claims.granuloma(None), seen)


def graded(voice: Voice, axis: str, state: State, full: bool) -> Statement:
    """That there is emphysema, fibrosis or a hiatal hernia."""
    seen = shows(state, axis)
    if full:
        grade = getattr(state, axis)
        return Statement(voice.say(CHEST, f"{axis} {grade}"), claims.graded(axis, grade), seen)
    if axis != "hernia" and voice.chance(0.2):
        return Statement(voice.say(CHEST, "chronic"), claims.CHRONIC_LUNG, seen)
    return Statement(voice.say(CHEST, f"{axis} any"), claims.some(axis), seen)


def diaphragm(voice: Voice, state: State) -> Statement:
    """That a half of the diaphragm is elevated."""
    text = voice.say(CHEST, "diaphragm", side=state.diaphragm)
    return Statement(text, exactly("diaphragm", state.diaphragm), shows(state, "diaphragm"))


def fracture(voice: Voice, state: State, full: bool) -> Statement:
    """That a rib is broken."""
    side, rib = state.fracture
    seen = shows(state, "fracture")
    if full:
        number = ORDINALS[rib] if voice.chance(0.7) else f"{rib}th"
        text = voice.say(CHEST, "fracture", side=side, rib=number)
        return Statement(text, claims.fracture(side, rib), seen)
    if voice.chance(0.6):
        text = voice.say(CHEST, "fracture side", side=side)
        return Statement(text, claims.fracture(side), seen)
    return Statement(voice.say(CHEST, "fracture any"), claims.fracture(None), seen)


def tube(voice: Voice, state: State, full: bool) -> Statement:
    """That there is an endotracheal tube, and where its tip lies."""
    seen = shows(state, "tube")
    if not full:
        return Statement(voice.say(DEVICES, "tube any"), claims.some("tube"), seen)
    low, high = {"good": (3.0, 6.0), "low": (0.0, 0.0), "high": (7.2, 9.5)}[state.tube]
    text = voice.say(DEVICES, f"tube {state.tube}", cm=voice.number(low, high, 1))
    return Statement(text, exactly("tube", state.tube), seen)


def line(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a central line, and where it enters."""
    seen = shows(state, "line")
    side, kind = state.line.split()
    if full:
        name = expand(voice.generator, choose(voice.generator, LINES[state.line]))
        return Statement(voice.say(DEVICES, "line", line=name), claims.line(state.line), seen)
    if kind == "picc":
        return Statement(voice.say(DEVICES, "picc"), claims.line("picc"), seen)
    if voice.chance(0.5):
        text = voice.say(DEVICES, "line side", side=side)
        return Statement(text, claims.line(side), seen)
    return Statement(voice.say(DEVICES, "line any"), claims.line(None), seen)


def pacemaker(voice: Voice, state: State, full: bool) -> Statement:
    """That there is a pacemaker."""
    side, leads = state.pacemaker.split()
    seen = shows(state, "pacemaker")
    if full:
        text = voice.say(DEVICES, "pacemaker", side=side, leads=leads)
        return Statement(text, claims.pacemaker(side, leads), seen)
    if voice.chance(0.4):
        text = voice.say(DEVICES, "pacemaker side", side=side)
        return Statement(text, claims.pacemaker(side), seen)
    return Statement(voice.say(DEVICES, "pacemaker any"), claims.pacemaker(None), seen)


def drain(voice: Voice, state: State) -> Statement:
    """That there is a chest tube."""
    text = voice.say(DEVICES, "drain", side=state.drain)
    return Statement(text, exactly("drain", state.drain), shows(state, "drain"))


def wires(voice: Voice, state: State) -> Statement:
    """That there are sternotomy wires."""
    return Statement(voice.say(DEVICES, "wires"), claims.some("wires"), shows(state, "wires"))


def positions(voice: Voice, state: State) -> Statement:
    """That the tube and the line lie well."""
    seen = shows(state, "tube") + shows(state, "line")
    return Statement(voice.say(DEVICES, "positions"), claims.DEVICES_GOOD, seen)


def shows(state: State, axis: str) -> tuple[tuple[str, str], ...]:
    """The (finding, part) pairs of an axis beside the five findings."""
    return tuple((finding, part) for of, finding, part in state.further_places() if of == axis)


def further(voice: Voice, axis: str, state: State, full: bool) -> Statement:
    """That an axis beside the five findings has another value than the normal one."""
    if axis in ("emphysema", "fibrosis", "hernia"):
        return graded(voice, axis, state, full)
    if axis in ("diaphragm", "drain", "wires"):
        return {"diaphragm": diaphragm, "drain": drain, "wires": wires}[axis](voice, state)
    return {
        "atelectasis": atelectasis,
        "nodule": nodule,
        "granuloma": granuloma,
        "fracture": fracture,
        "tube": tube,
        "line": line,
        "pacemaker": pacemaker,
    }[axis](voice, state, full)
