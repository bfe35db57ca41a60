"""Whether a report makes a sentence true, judged by the words that both affirm and deny.

A report is assumed to name everything present.  So a sentence that only denies ("No pneumothorax.")
is true of every study if its report affirms none of the words, even if it does not deny them.  A
sentence that affirms ("Small left effusion.") is true if one sentence of the report says as much or
more ("Small left effusion and atelectasis.").
"""

import re
from dataclasses import dataclass

from cxrtext.text.rules import LETTER, rules_of
from cxrtext.text.wording import mentions

_WORD = re.compile(rf"{LETTER}+")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence needs from a report, and what it offers to other sentences, as marked words.

    A sentence that hedges, or affirms and denies nothing ("The lungs are clear."), needs all its
    words.
    """

    asked: frozenset[str]  # affirmed words with qualifiers: one sentence must offer them all
    denied: frozenset[str]  # no sentence of the report may affirm these
    offered: frozenset[str]  # affirmed words, qualifiers, and all plain words


def statement_of(sentence: str) -> Statement:
    affirmed, denied = mentions(sentence)
    words = set(_WORD.findall(sentence.lower()))
    findings = {f"+{word}" for word in affirmed}
    # where, or how much: needed along with an affirmed finding
    qualifiers = {f"@{word}" for word in words & rules_of(sentence).words["qualifiers"]}
    plain = {f"={word}" for word in words}
    asked = findings | qualifiers if affirmed else set() if denied else plain
    return Statement(
        frozenset(asked),
        frozenset(f"+{word}" for word in denied),
        frozenset(findings | qualifiers | plain),
    )
