"""What is not there, in words: single findings, lists of them, and the chest as a whole."""

from collections.abc import Sequence

from cxrtext.phantom import claims
from cxrtext.phantom.claims import Claim
from cxrtext.phantom.sentences.grammar import PHRASES, choose, expand, fill, listed
from cxrtext.phantom.sentences.present import Statement, Voice
from cxrtext.phantom.state import State

WHOLE: dict[str, Claim] = {
    "clear": claims.LUNGS_CLEAR,
    "otherwise clear": claims.OTHERWISE_CLEAR,
    "acute": claims.NOTHING_ACUTE,
    "normal": claims.NORMAL,
    "mediastinum": claims.MEDIASTINUM,
    "heart mediastinum": claims.HEART_AND_MEDIASTINUM,
    "bones": claims.BONES,
    "devices": claims.NO_DEVICES,
    "large effusion": claims.no_large_effusion(),
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
    items = [expand(generator, choose(generator, PHRASES["items"][kind])) for kind in kinds]
    word = "or" if voice.chance(0.94) else "and"
    template = choose(generator, PHRASES["lists"][""])
    text = fill(generator, template, list=listed(generator, items, word))
    return Statement(text, claims.all_of(map(denial, kinds)))


def incidental(voice: Voice, axis: str, value: str) -> Statement:
    """What the aorta, the spine or the lung volume is like."""
    kind = f"{axis} {value}"
    if value.startswith("scoliosis") and voice.chance(0.15):
        return Statement(voice.say("chest", "scoliosis"), claims.scoliosis())
    if kind == "aorta normal":
        return deny(voice, "mediastinum")
    text = voice.say("incidental", kind, degrees=voice.number(8, 28))
    return Statement(text, claims.exactly(axis, value))


def unchanged(voice: Voice) -> Statement:
    """That the findings are those of the study before."""
    return Statement(voice.say("incidental", "unchanged"), claims.UNCHANGED)


def lungs(voice: Voice, state: State) -> Statement | None:
    """That the lungs are clear, or are otherwise clear; nothing where they are not."""
    for kind in ("clear", "otherwise clear"):
        if denial(kind).holds(state):
            return deny(voice, kind)
    return None
