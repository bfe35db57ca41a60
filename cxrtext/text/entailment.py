"""Whether a report makes a sentence true: read off the words that both affirm and deny.

A report is taken to name whatever is there.  Then a sentence that only denies ("No pneumothorax.")
is true of every study whose report affirms none of the words, whether it says so itself or not; and
a sentence that affirms ("Small left effusion.") is true of those whose report says as much or more
in one sentence ("Small left effusion and atelectasis.").
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cxrtext.text.wording import mentions

QUALIFIERS = frozenset(
    {"left", "right", "bilateral", "bilaterally", "upper", "lower", "middle"}
) | {*("apical", "basal", "basilar", "lateral", "large")}
"""Words that say where, or how much: an affirmed finding is asked for with them."""
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence asks of a report, and what it offers to others, as marked words.

    Args:
        asked: Must stand in one sentence of the report: what is affirmed, and how.  Of a
            sentence that affirms and denies nothing ("The lungs are clear."), or hedges, all words.
        denied: Must be affirmed nowhere in the report.
        offered: What it affirms, how, and all of its words.
    """

    asked: frozenset[str]
    denied: frozenset[str]
    offered: frozenset[str]


def statement_of(sentence: str) -> Statement:
    """Take a sentence apart."""
    affirmed, denied = mentions(sentence)
    words = set(_WORD.findall(sentence.lower()))
    findings = {f"+{word}" for word in affirmed}
    qualifiers = {f"@{word}" for word in words & QUALIFIERS}
    plain = {f"={word}" for word in words}
    asked = findings | qualifiers if affirmed else set() if denied else plain
    return Statement(
        frozenset(asked),
        frozenset(f"+{word}" for word in denied),
        frozenset(findings | qualifiers | plain),
    )


def entails(report: Iterable[Statement], said: Statement) -> bool:
    """Whether a report, by its sentences, makes another sentence true."""
    offered = [one.offered for one in report]
    if any(said.denied & one for one in offered):
        return False
    return not said.asked or any(said.asked <= one for one in offered)
