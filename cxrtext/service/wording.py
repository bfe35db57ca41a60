"""How a sentence of a report puts what it says: as there, as not there, or as uncertain.

A short list of rules in the manner of NegEx: a trigger ("no", "is not seen", "cannot be excluded")
governs a part of its clause.  What is left outside the parts that are denied decides.  The rules
look at words alone: "The lungs are clear." is affirmed, for it denies nothing.

Source: Chapman et al. 2001 (NegEx); Peng et al. 2018 (NegBio), for the triggers of uncertainty.
"""

import re
from typing import Literal

from cxrtext.service.wording_triggers import (
    AFTER,
    BEFORE,
    CLAUSE_END,
    EMPTY,
    PSEUDO,
    UNCERTAIN,
)

Wording = Literal["affirmed", "negated", "uncertain"]

_WORD = re.compile(r"[A-Za-z][A-Za-z'/-]*")


def wording(sentence: str) -> Wording:
    """Say how a sentence puts what it says.

    Args:
        sentence: One sentence.

    Returns:
        "uncertain" where any of it is hedged ("possible", "may represent", "cannot be excluded"),
        but for what is hedged inside a denial ("no evidence to suggest"); "negated" where all that
        it names is denied, anatomy and words like "normal" apart; else "affirmed".
    """
    text = PSEUDO.sub(lambda match: "~" * len(match[0]), " ".join(sentence.split()))
    hedges = [match.span() for match in UNCERTAIN.finditer(text)]
    plain = _blanked(text, hedges)
    denied = _denied(plain)
    if any(not any(a <= start < b for a, b in denied) for start, _ in hedges):
        return "uncertain"
    if not denied:
        return "affirmed"
    left = _WORD.findall(_blanked(plain, denied))
    return "affirmed" if "~" in text or any(_asserts(word) for word in left) else "negated"


def _asserts(word: str) -> bool:
    # De-identification leaves XXXX for a word that it took.
    return word.lower() not in EMPTY and word.strip("X") != ""


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    """A text with blanks for some parts of it, as long as before."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _denied(text: str) -> list[tuple[int, int]]:
    """The parts of a text that a trigger denies, triggers included."""
    ends = [match.start() for match in CLAUSE_END.finditer(text)]
    starts = [match.end() for match in CLAUSE_END.finditer(text)]
    spans = []
    after = [match.span() for match in AFTER.finditer(text)]
    for begin, end in after:
        spans.append((max((place for place in starts if place <= begin), default=0), end))
    for match in BEFORE.finditer(text):
        if any(begin <= match.start() < end for begin, end in after):
            continue
        stop = min((place for place in ends if place >= match.end()), default=len(text))
        spans.append((match.start(), stop))
    return spans
