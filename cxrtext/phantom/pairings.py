"""Sentences that speak of two findings at once, as impressions like to do."""

from collections.abc import Iterator
from dataclasses import dataclass

from cxrtext.phantom import claims
from cxrtext.phantom.chest_claims import LUNGS_CLEAR
from cxrtext.phantom.population import State
from cxrtext.phantom.wording import Statement, Voice

PHRASES: dict[str, tuple[str, ...]] = {
    "heart failure": (
        "{adj} [pulmonary |]edema with cardiomegaly[, {mean} [congestive |]heart failure|].",
        "[Cardiomegaly|Enlarged heart|Cardiac enlargement] [with|and] {adj} [pulmonary"
        " |interstitial |]edema.",
        "Findings of congestive heart failure with {adj} edema.",
    ),
    "heart failure graded": (
        "{first} [cardiomegaly|cardiac enlargement] [with|and] {adj} [pulmonary"
        " |interstitial |]edema.",
        "{first} cardiomegaly and {adj} pulmonary edema, consistent with heart failure.",
    ),
    "heart effusion": (
        "{first} [cardiomegaly|cardiac enlargement] [with|and] a {adj} {side} [pleural |]effusion.",
        "{first} enlargement of the heart and a {adj} {side} pleural effusion.",
    ),
    "heart effusions": (
        "{first} cardiomegaly [with|and] {adj} bilateral [pleural |]effusions.",
        "{first} cardiac enlargement and {adj} effusions on both sides.",
    ),
    "edema effusions": (
        "{first} [pulmonary |interstitial |]edema [with|and] {adj} bilateral [pleural |]effusions.",
        "{first} edema and {adj} pleural effusions on both sides.",
    ),
    "edema alone": (
        "{first} pulmonary edema without pleural effusion.",
        "{first} edema, no pleural effusion.",
    ),
    "effusion pneumonia": (
        "{adj} {side} pleural effusion [with adjacent|and associated|with]"
        " [consolidation|airspace disease|infiltrate] in the {lobe}.",
        "Consolidation in the {lobe} with a {adj} {side} parapneumonic effusion.",
    ),
    "effusions graded": (
        "{right} right and {left} left pleural effusions.",
        "There is a {right} right and a {left} left pleural effusion.",
    ),
    "hydropneumothorax": (
        "{side} hydropneumothorax.",
        "{side} pneumothorax with pleural effusion on the same side.",
    ),
    "pneumonia bilateral": (
        "Bilateral pneumonia.",
        "Consolidation in both lungs, compatible with pneumonia.",
    ),
    "pneumonia side": (
        "{adj} {side} lung consolidation.",
        "{adj} consolidation in the {side} lung, suggestive of pneumonia.",
    ),
    "heart tortuous": (
        "The heart is [normal in size|not enlarged] with a [mildly |]tortuous [thoracic |]aorta.",
        "Normal heart size, tortuous aorta.",
    ),
    "heart calcified": (
        "The heart is [normal in size|not enlarged] with [a calcified aortic"
        " arch|atherosclerotic calcification of the aorta].",
        "Normal heart size, calcified aorta.",
    ),
    "volume clear low": (
        "Low lung volumes without [focal consolidation or edema|focal airspace"
        " disease|acute infiltrate].",
        "Lung volumes are low, but the lungs are clear.",
    ),
    "volume clear high": (
        "[Hyperinflated|Hyperexpanded] but clear lungs.",
        "The lungs are hyperinflated and clear.",
    ),
    "volume clear normal": (
        "[The l|L]ungs are [well expanded|well inflated|normally aerated|well-aerated]"
        " and clear[ bilaterally|].",
        "Well inflated, clear lungs.",
    ),
}


NAMES = {
    "cardiomegaly": "Cardiomegaly",
    "edema": "Edema",
    "effusion": "Pleural Effusion",
    "pneumonia": "Pneumonia",
    "pneumothorax": "Pneumothorax",
}
"""CheX5 names by axis."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A sentence and the axes that it settles."""

    axes: frozenset[str]
    statement: Statement


def _pairing(
    voice: Voice, kind: str, claim: claims.Claim, axes: set[str], state: State, **slots: str
) -> Pairing:
    shows = tuple(place for place in state.places() if place[0] in {NAMES[axis] for axis in axes})
    return Pairing(frozenset(axes), Statement(voice.say(PHRASES, kind, **slots), claim, shows))


def pairings(voice: Voice, state: State) -> Iterator[Pairing]:
    """The sentences on several findings that are true of a state and settle all of each finding."""
    heart, wet = state.cardiomegaly, state.edema[0]
    if heart and wet:
        adj = voice.word(f"edema {wet}")
        axes = {"cardiomegaly", "edema"}
        claim = claims.cardiomegaly(None) & claims.edema(wet)
        yield _pairing(voice, "heart failure", claim, axes, state, adj=adj)
        claim = claims.cardiomegaly(heart) & claims.edema(wet)
        first = voice.word(f"heart {heart}")
        yield _pairing(voice, "heart failure graded", claim, axes, state, first=first, adj=adj)
    if wet and not any(state.effusion):
        claim = claims.edema(wet) & claims.none("effusion")
        first = voice.word(f"edema {wet}")
        yield _pairing(voice, "edema alone", claim, {"edema"}, state, first=first)
    yield from _with_effusion(voice, state)
    yield from _of_pneumonia(voice, state)


def _with_effusion(voice: Voice, state: State) -> Iterator[Pairing]:
    right, left = state.effusion
    heart, wet = state.cardiomegaly, state.edema[0]
    if right and left and right != left:
        sizes = {"right": voice.word(f"fluid {right}"), "left": voice.word(f"fluid {left}")}
        claim = claims.effusion("right", right) & claims.effusion("left", left)
        yield _pairing(voice, "effusions graded", claim, {"effusion"}, state, **sizes)
        return
    grade = max(right, left)
    if not grade:
        return
    adj = voice.word(f"fluid {grade}")
    side = "both" if right == left else "right" if right else "left"
    claim = claims.effusion(side, grade)
    if heart:
        first, kind = voice.word(f"heart {heart}"), "effusions" if side == "both" else "effusion"
        together = claims.cardiomegaly(heart) & claim
        slots = {"first": first, "adj": adj, "side": side}
        yield _pairing(
            voice, f"heart {kind}", together, {"cardiomegaly", "effusion"}, state, **slots
        )
    if wet and side == "both":
        first = voice.word(f"edema {wet}")
        axes = {"edema", "effusion"}
        together = claims.edema(wet) & claim
        yield _pairing(voice, "edema effusions", together, axes, state, first=first, adj=adj)
    if side != "both" and state.pneumothorax[1] == side and state.pneumothorax[0] < 4:
        together = claims.pneumothorax(side) & claims.effusion(side, None)
        axes = {"pneumothorax", "effusion"}
        yield _pairing(voice, "hydropneumothorax", together, axes, state, side=side)
    lobes = state.pneumonia[1]
    if len(lobes) == 1 and claims.lobe_side(lobes[0]) == side:
        together = claim & claims.pneumonia(lobes, None)
        slots = {"adj": adj, "side": side, "lobe": voice.word(f"base {lobes[0]}")}
        axes = {"pneumonia", "effusion"}
        yield _pairing(voice, "effusion pneumonia", together, axes, state, **slots)


def _of_pneumonia(voice: Voice, state: State) -> Iterator[Pairing]:
    grade, lobes = state.pneumonia
    sides = {claims.lobe_side(lobe) for lobe in lobes}
    if len(sides) == 2:
        claim = claims.pneumonia_on("right") & claims.pneumonia_on("left")
        yield _pairing(voice, "pneumonia bilateral", claim, {"pneumonia"}, state)
    elif sides:
        side = sides.pop()
        claim = claims.pneumonia_on(side, grade)
        slots = {"adj": voice.word(f"dense {grade}"), "side": side}
        yield _pairing(voice, "pneumonia side", claim, {"pneumonia"}, state, **slots)


def heart_and_aorta(voice: Voice, state: State) -> Statement:
    """That the heart is not enlarged, and what the aorta, which is not normal, is like."""
    claim = claims.none("cardiomegaly") & claims.exactly("aorta", state.aorta)
    return Statement(voice.say(PHRASES, f"heart {state.aorta}"), claim)


def clear_and_volume(voice: Voice, state: State) -> Statement:
    """That the lungs are clear, and how well expanded they are."""
    claim = LUNGS_CLEAR & claims.exactly("volume", state.volume)
    return Statement(voice.say(PHRASES, f"volume clear {state.volume}"), claim)
