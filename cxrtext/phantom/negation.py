"""What is not there, in words: single findings, lists of them, and the chest as a whole."""

from collections.abc import Sequence

from cxrtext.phantom import chest_claims, claims
from cxrtext.phantom.background import INCIDENTAL
from cxrtext.phantom.chest_phrases import CHEST, MORE_INCIDENTAL
from cxrtext.phantom.claims import Claim
from cxrtext.phantom.grammar import choose, expand, fill, listed
from cxrtext.phantom.negation_phrases import ITEMS, LISTS, NEGATIONS
from cxrtext.phantom.population import State
from cxrtext.phantom.wording import Statement, Voice

WHOLE: dict[str, Claim] = {
    "clear": chest_claims.LUNGS_CLEAR,
    "otherwise clear": chest_claims.OTHERWISE_CLEAR,
    "acute": chest_claims.NOTHING_ACUTE,
    "normal": chest_claims.NORMAL,
    "mediastinum": chest_claims.MEDIASTINUM,
    "heart mediastinum": chest_claims.HEART_AND_MEDIASTINUM,
    "bones": chest_claims.BONES,
    "devices": chest_claims.NO_DEVICES,
    "large effusion": chest_claims.no_large_effusion(),
}
"""Statements on more, or less, than that one axis has its normal value."""


def denial(kind: str) -> Claim:
    """What the statement of a kind, an axis or a key of ``WHOLE``, denies."""
    return WHOLE[kind] if kind in WHOLE else claims.none(kind)


def deny(voice: Voice, kind: str) -> Statement:
    """That something is not there: an axis' finding, or what a key of ``WHOLE`` names."""
    return Statement(voice.say(NEGATIONS, kind), denial(kind))


def deny_side(voice: Voice, kind: str, side: str) -> Statement:
    """That one side has no effusion, pneumothorax or pneumonia, or that its lung is clear."""
    claim = {
        "effusion": claims.no_effusion,
        "pneumothorax": claims.no_pneumothorax,
        "pneumonia": chest_claims.no_pneumonia_on,
        "lung": chest_claims.clear_lung,
    }[kind](side)
    return Statement(voice.say(NEGATIONS, f"{kind} side", side=side), claim)


def deny_all(voice: Voice, kinds: Sequence[str]) -> Statement:
    """That none of several things is there, in one sentence, in the order given."""
    if len(kinds) == 1:
        return deny(voice, kinds[0])
    generator = voice.generator
    items = [expand(generator, choose(generator, ITEMS[kind])) for kind in kinds]
    word = "or" if voice.chance(0.94) else "and"
    template = choose(generator, LISTS)
    text = fill(generator, template, list=listed(generator, items, word))
    return Statement(text, claims.all_of(map(denial, kinds)))


def incidental(voice: Voice, axis: str, value: str) -> Statement:
    """What the aorta, the spine or the lung volume is like."""
    kind = f"{axis} {value}"
    if value.startswith("scoliosis") and voice.chance(0.15):
        return Statement(voice.say(CHEST, "scoliosis"), chest_claims.scoliosis())
    if kind == "aorta normal":
        return deny(voice, "mediastinum")
    phrases = INCIDENTAL[kind] + MORE_INCIDENTAL[kind]
    text = voice.say({kind: phrases}, kind, degrees=voice.number(8, 28))
    return Statement(text, claims.exactly(axis, value))


def unchanged(voice: Voice) -> Statement:
    """That the findings are those of the study before."""
    phrases = INCIDENTAL["unchanged"] + MORE_INCIDENTAL["unchanged"]
    return Statement(voice.say({"unchanged": phrases}, "unchanged"), claims.UNCHANGED)


def lungs(voice: Voice, state: State) -> Statement | None:
    """That the lungs are clear, or are otherwise clear; nothing where they are not."""
    for kind in ("clear", "otherwise clear"):
        if denial(kind).holds(state):
            return deny(voice, kind)
    return None
