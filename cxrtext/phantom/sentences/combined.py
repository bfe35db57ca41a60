"""What a report says of the study before, and sentences joined into one.

Words of comparison carry no class: they are true of the patient's history, not of the image.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cxrtext.phantom import claims
from cxrtext.phantom.claims import LUNGS_CLEAR, lobe_side, none
from cxrtext.phantom.population import change_of
from cxrtext.phantom.sentences.grammar import choose, matches, polish, uncapitalized
from cxrtext.phantom.sentences.present import Statement, Voice
from cxrtext.phantom.state import State

COMPARED = 0.5
"""Probability that a sentence on a finding compares it with the study before, where it can."""

MENTIONED = 0.25  # probability that a report names what is no longer there, by axis


def change(axis: str, state: State, before: State | None) -> str:
    """How an axis compares with the study before; "" where it does not, or there is none."""
    if before is None:
        return ""
    return change_of(axis, getattr(state, axis), getattr(before, axis))


def compare(
    voice: Voice, said: list[Statement], axis: str, state: State, before: State | None
) -> list[Statement]:
    """Now and then say how a finding compares with the study before."""
    kind = change(axis, state, before)
    # A sentence on one of several places may not be what has grown.
    if not kind or (kind in ("more", "less") and len(said) > 1):
        return said
    return [_compared(voice, one, axis, kind) if voice.chance(COMPARED) else one for one in said]


def resolved(
    voice: Voice, axes: Iterable[str], state: State, before: State | None
) -> list[Statement]:
    """Now and then name what the study before showed and this one does not."""
    said = []
    for axis in axes:
        if before is not None and change(axis, state, before) == "gone" and voice.chance(MENTIONED):
            value = getattr(before, axis)
            side = value[1] if axis == "pneumothorax" else value
            side = side if side in ("right", "left") else ""
            text = voice.say("resolved", axis, side=side)
            said.append(Statement(text, none(axis), change=(axis, "gone")))
    return said


def _compared(voice: Voice, statement: Statement, axis: str, kind: str) -> Statement:
    text = statement.text[:-1]
    phrases, lower = voice.phrases, text.lower()
    bare = matches(phrases, "noun phrase", lower) and not matches(phrases, "verb", text)
    if matches(phrases, "not compared", lower):
        return statement
    compared = {name: some[0] for name, some in phrases["compared"].items()}
    if bare and voice.chance(0.6):
        text = voice.expand(compared[f"{kind} before"]) + " " + uncapitalized(text, phrases)
    elif len(text.replace(",", " ").split()) < 13:
        text += voice.expand(compared[kind], since=compared["since"])
    else:
        return statement
    return replace(statement, text=polish(text + ".", phrases), change=(axis, kind))


JOINED = 0.2  # probability that two neighboring sentences on what is normal become one


def join_some(voice: Voice, said: list[Statement]) -> list[Statement]:
    """Join some neighbors that name nothing present."""
    kept: list[Statement] = []
    for statement in said:
        last = kept[-1] if kept else None
        if last and _plain(last) and _plain(statement) and voice.chance(JOINED):
            kept[-1] = _join(voice, last, statement)
        else:
            kept.append(statement)
    return kept


def _plain(statement: Statement) -> bool:
    """Whether a sentence may be joined: short, of nothing present, of this study alone."""
    few = len(statement.text) < 70 and bool(statement.claim.allowed) and not statement.change[1]
    return few and not (statement.shows or statement.parts or statement.claim.negated)


def _join(voice: Voice, first: Statement, second: Statement) -> Statement:
    phrases = voice.phrases
    bare = matches(phrases, "denial", second.text) and not matches(phrases, "verb", second.text)
    link = choose(voice.generator, phrases["joined"]["denial" if bare else ""])
    text = first.text[:-1] + link + uncapitalized(second.text, phrases)
    return Statement(text, first.claim & second.claim, parts=(first, second))


Together = tuple[str, claims.Claim, tuple[str, ...], dict[str, str]]
"""A kind of sentence, its claim, the axes that it settles, and its slots."""


def pairings(voice: Voice, state: State) -> Iterator[tuple[tuple[str, ...], Statement]]:
    """The sentences on several findings that are true of a state and settle these axes."""
    for found in (_of_heart, _with_effusion, _of_pneumonia):
        for kind, claim, axes, slots in found(voice, state):
            yield axes, Statement(voice.say("together", kind, **slots), claim, state.places(*axes))


def _of_heart(voice: Voice, state: State) -> Iterator[Together]:
    heart, wet = state.cardiomegaly, state.edema[0]
    if heart and wet:
        slots, axes = {"adj": voice.word(f"edema {wet}")}, ("cardiomegaly", "edema")
        yield "heart failure", claims.cardiomegaly(None) & claims.edema(wet), axes, slots
        slots["first"] = voice.word(f"heart {heart}")
        yield "heart failure graded", claims.cardiomegaly(heart) & claims.edema(wet), axes, slots
    if wet and not any(state.effusion):
        slots = {"first": voice.word(f"edema {wet}")}
        yield "edema alone", claims.edema(wet) & none("effusion"), ("edema",), slots


def _with_effusion(voice: Voice, state: State) -> Iterator[Together]:
    right, left = state.effusion
    heart, wet = state.cardiomegaly, state.edema[0]
    if right and left and right != left:
        sizes = {"right": voice.word(f"fluid {right}"), "left": voice.word(f"fluid {left}")}
        claim = claims.effusion("right", right) & claims.effusion("left", left)
        yield "effusions graded", claim, ("effusion",), sizes
        return
    if not (grade := max(right, left)):
        return
    side = "both" if right == left else "right" if right else "left"
    claim = claims.effusion(side, grade)
    slots = {"adj": voice.word(f"fluid {grade}"), "side": side}
    if heart:
        kind, first = "effusions" if side == "both" else "effusion", voice.word(f"heart {heart}")
        together = claims.cardiomegaly(heart) & claim
        yield f"heart {kind}", together, ("cardiomegaly", "effusion"), {**slots, "first": first}
    if wet and side == "both":
        first = voice.word(f"edema {wet}")
        axes = ("edema", "effusion")
        yield "edema effusions", claims.edema(wet) & claim, axes, {**slots, "first": first}
    if side != "both" and state.pneumothorax[1] == side and state.pneumothorax[0] < 4:
        together = claims.pneumothorax(side) & claims.effusion(side, None)
        yield "hydropneumothorax", together, ("pneumothorax", "effusion"), slots
    lobes = state.pneumonia[1]
    if len(lobes) == 1 and lobe_side(lobes[0]) == side:
        together = claim & claims.pneumonia(lobes, None)
        slots = {**slots, "lobe": voice.word(f"base {lobes[0]}")}
        yield "effusion pneumonia", together, ("pneumonia", "effusion"), slots


def _of_pneumonia(voice: Voice, state: State) -> Iterator[Together]:
    grade, lobes = state.pneumonia
    sides = {lobe_side(lobe) for lobe in lobes}
    if len(sides) == 2:
        claim = claims.pneumonia_on("right") & claims.pneumonia_on("left")
        yield "pneumonia bilateral", claim, ("pneumonia",), {}
    elif sides:
        side = sides.pop()
        slots = {"adj": voice.word(f"dense {grade}"), "side": side}
        yield "pneumonia side", claims.pneumonia_on(side, grade), ("pneumonia",), slots


def heart_and_aorta(voice: Voice, state: State) -> Statement:
    """That the heart is not enlarged, and what the aorta, which is not normal, is like."""
    claim = none("cardiomegaly") & claims.exactly("aorta", state.aorta)
    return Statement(voice.say("together", f"heart {state.aorta}"), claim)


def clear_and_volume(voice: Voice, state: State) -> Statement:
    claim = LUNGS_CLEAR & claims.exactly("volume", state.volume)
    return Statement(voice.say("together", f"volume clear {state.volume}"), claim)
