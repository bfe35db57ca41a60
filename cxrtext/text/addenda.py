"""Addenda and corrections override the sentences that they contradict."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from cxrtext.text.fields import as_prose
from cxrtext.text.labelling import Label, sentence_labels
from cxrtext.text.rules import rules_of
from cxrtext.text.sections import ADDENDUM
from cxrtext.text.sides import sides_of

MOST = 200
"""Most addendum sentences read per report, so that time stays linear in its length."""


def standing(said: Sequence[tuple[str, str]]) -> list[bool]:
    """Which sentences of a report, given as (section, sentence), its addenda leave standing.

    A sentence falls if an addendum contradicts its finding or side, or retracts it.  If an addendum
    corrects only a side, sentences that name the other side fall, because they can no longer be
    understood; so does the addendum's sentence, because it names no finding.
    """
    said = [(ADDENDUM if _corrects(sentence) else name, sentence) for name, sentence in said]
    addenda = dict.fromkeys(sentence for section, sentence in said if section == ADDENDUM)
    read = {addendum: _reader(addendum) for addendum in islice(addenda, MOST)}
    fallen = {
        sentence
        for sentence in {sentence for section, sentence in said if section != ADDENDUM}
        if any(falls.of(sentence) for falls, _ in read.values())
    }
    return [
        read[sentence][1] if section == ADDENDUM and sentence in read else sentence not in fallen
        for section, sentence in said
    ]


def _corrects(sentence: str) -> bool:
    patterns = rules_of(sentence).patterns
    return any(patterns[one].search(sentence) for one in ("corrects", "retracts"))


class _Falls:
    """What an addendum's sentence overrides."""

    def __init__(
        self,
        labels: Mapping[str, Label] = {},
        findings: Iterable[str] = (),
        sides: Iterable[str] = (),
    ) -> None:
        self.labels, self.findings, self.sides = labels, set(findings), frozenset(sides)

    def of(self, sentence: str) -> bool:
        own = sentence_labels(sentence)
        if self.findings & {*own} or (self.sides and sides_of(sentence) == self.sides):
            return True
        return any(_differ(own[name], new) for name, new in self.labels.items() if name in own)


def _differ(old: Label, new: Label) -> bool:
    sided = {old.side, new.side} == {"left", "right"}
    return old.value != new.value or (new.value == 1 and sided)


def _reader(addendum: str) -> tuple[_Falls, bool]:
    """What an addendum's sentence overrides, and whether it stands as a statement itself."""
    own, prose = rules_of(addendum), as_prose(addendum)
    named = {name for name, pattern in own.findings.items() if pattern.search(prose.text)}
    labels = sentence_labels(addendum)  # "The heart is normal in size." rules out just one
    new = {name: one for name, one in labels.items() if name in named or len(labels) == 1}
    if match := own.patterns["retracts"].search(addendum):
        return _Falls(new, _named(addendum[: match.start()]) - named), bool(new)
    match = own.patterns["corrects"].search(addendum)
    if match is None:
        return _Falls(new), True
    if new:
        return _Falls(new, _named(addendum[: match.start()]) - named), True
    wrong = {"left", "right"} - sides_of(prose.text)
    return _Falls(sides=wrong if len(wrong) == 1 else ()), False


def _named(text: str) -> set[str]:
    return {name for name, pattern in rules_of(text).findings.items() if pattern.search(text)}
