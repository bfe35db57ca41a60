"""Whether a report makes a sentence true: read off the words that both affirm and deny.

A report is taken to name whatever is there.  Then a sentence that only denies ("No pneumothorax.")
is true of every study whose report affirms none of the words, whether it says so itself or not; and
a sentence that affirms ("Small left effusion.") is true of those whose report says as much or more
in one sentence ("Small left effusion and atelectasis.").
"""

import re
from dataclasses import dataclass

from cxrtext.text.rules import LETTER, rules_of
from cxrtext.text.wording import mentions

_WORD = re.compile(rf"{LETTER}+")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence asks of a report, and what it offers to others, as marked words."""

    # must stand in one sentence of the report: what is affirmed, and how; of a sentence that
    # affirms and denies nothing ("The lungs are clear."), or hedges, all words.
    asked: frozenset[str]
    denied: frozenset[str]  # must be affirmed nowhere in the report
    offered: frozenset[str]  # what it affirms, how, and all of its words


def statement_of(sentence: str) -> Statement:
    affirmed, denied = mentions(sentence)
    words = set(_WORD.findall(sentence.lower()))
    findings = {f"+{word}" for word in affirmed}
    # where, or how much: an affirmed finding is asked for with them
    qualifiers = {f"@{word}" for word in words & rules_of(sentence).words["qualifiers"]}
    plain = {f"={word}" for word in words}
    asked = findings | qualifiers if affirmed else set() if denied else plain
    return Statement(
        frozenset(asked),
        frozenset(f"+{word}" for word in denied),
        frozenset(findings | qualifiers | plain),
    )
