"""IMPRESSION: what is there in brief, or that nothing is."""

from cxrtext.phantom.chest_wording import further, positions
from cxrtext.phantom.comparing import compare
from cxrtext.phantom.negation import denial, deny, deny_all
from cxrtext.phantom.pairings import pairings
from cxrtext.phantom.population import State
from cxrtext.phantom.wording import Statement, Voice

URGENT = ("nodule", "atelectasis", "fracture", "tube", "fibrosis", "emphysema")
"""Further findings that an impression likes to repeat."""


def further_axes(voice: Voice, state: State, omitted: dict[str, float]) -> list[str]:
    """The axes beside the five findings that a report speaks of, in the order of a report."""
    return [
        axis
        for axis, share in omitted.items()
        if any(axis == of for of, _, _ in state.further_places()) and not voice.chance(share)
    ]


def _five(
    voice: Voice, state: State, before: State | None, present: list[str], alone: bool
) -> list[Statement]:
    """The five findings, two at once where it suits."""
    said: list[Statement] = []
    options = list(pairings(voice, state))
    left = present
    if options and voice.chance(0.5):
        pairing = options[int(voice.generator.integers(len(options)))]
        said.append(pairing.statement)
        left = [axis for axis in present if axis not in pairing.axes]
    for axis in left:
        if alone or voice.chance(0.8):
            told = voice.present(axis, state, voice.chance(0.75 if alone else 0.4))
            said += compare(voice, told, axis, state, before)
    return said


def _denials(voice: Voice, present: list[str]) -> list[Statement]:
    """What the reader may have feared and is not there."""
    absent = [a for a in ("pneumonia", "effusion", "pneumothorax", "edema") if a not in present]
    if len(absent) > 1 and voice.chance(0.1):
        voice.generator.shuffle(absent)
        return [deny_all(voice, absent[: 2 + int(voice.chance(0.3))])]
    return [deny(voice, axis) for axis in absent if axis != "effusion" and voice.chance(0.09)]


def impression(
    voice: Voice,
    state: State,
    before: State | None,
    present: list[str],
    others: list[str],
    alone: bool,
) -> list[Statement]:
    """The section's sentences.

    Args:
        voice: Who speaks.
        state: The study's state.
        before: The state of the patient's study before.
        present: Axes of the five findings that are there.
        others: Further axes that the report speaks of.
        alone: Whether there is no other section.

    Returns:
        One sentence at least, unless ``present`` and ``others`` stand under FINDINGS.
    """
    said = _five(voice, state, before, present, alone) if present else []
    repeated = [axis for axis in others if alone or voice.chance(0.6 if axis in URGENT else 0.12)]
    if {"tube", "line"} <= set(repeated) and state.tube == "good" and voice.chance(0.4):
        said.append(positions(voice, state))
        repeated = [axis for axis in repeated if axis not in ("tube", "line")]
    for axis in repeated:
        told = further(voice, axis, state, voice.chance(0.75 if alone else 0.35))
        said += compare(voice, [told], axis, state, before)
    if state.is_normal() and voice.chance(0.35):
        said.append(deny(voice, "normal"))
    elif denial("acute").holds(state) and voice.chance(0.75 if said else 1.0):
        said.insert(0 if voice.chance(0.4) else len(said), deny(voice, "acute"))
    said += _denials(voice, present)
    return said
