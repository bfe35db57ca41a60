"""What sentences and reports assert of findings: there or not there, and on which side.

It is what :mod:`cxrtext.text.labelling` reads, but for what is hedged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cxrtext.text.fields import as_prose
from cxrtext.text.labelling import FINDINGS, OPACITIES, Label, sentence_labels
from cxrtext.text.rules import rules_of
from cxrtext.text.sides import SIDES, Side

MOST_RULED_OUT = 6
"""Findings that a statement without a word of one is judged by."""


@dataclass(frozen=True, slots=True, order=True)
class Assertion:
    finding: str  # one of FINDINGS in lower case
    present: bool
    side: Side = ""  # the one side that it is said of
    limited: bool = False  # a denial of a large one alone: "no large effusion"
    implied: bool = False  # a denial by a sentence without a word of the finding

    def __str__(self) -> str:
        words = " ".join(word for word in (self.side, self.finding) if word)
        return words if self.present else f"no {'large ' if self.limited else ''}{words}"


@dataclass(frozen=True, slots=True)
class StudySays:
    """What a report says of findings."""

    # those that it affirms, with the sides that it names (both where it names none)
    present: Mapping[str, frozenset[Side]]
    absent: frozenset[str]  # those that it rules out and nowhere affirms or hedges
    named: frozenset[str]  # all that it names or rules out, in whatever way

    def contradicts(self, assertions: Iterable[Assertion]) -> bool:
        """Whether it says the opposite of any of some assertions."""
        return any(map(self._contradicts, assertions))

    def _contradicts(self, one: Assertion) -> bool:
        sides = self.present.get(one.finding)
        if one.present:
            other_side = bool(one.side) and sides is not None and one.side not in sides
            return one.finding in self.absent or other_side
        if sides is None or one.limited:
            return False
        return not one.side or sides == {one.side}


def assertions_of(sentence: str) -> tuple[Assertion, ...]:
    """What a sentence says of findings; nothing where it hedges, or is about none."""
    labels = _labels(sentence)
    named = _named(sentence, labels) or dict(list(labels.items())[:MOST_RULED_OUT])
    implied = not _named(sentence, labels)
    limited = _limited(sentence)
    return tuple(
        sorted(
            Assertion(
                name.lower(),
                label.value == 1,
                _side(label),
                limited=limited and label.value == 0,
                implied=implied,
            )
            for name, label in named.items()
            if label.value in (0, 1)
        )
    )


def says_of(sentences: Iterable[str]) -> StudySays:
    """What the sentences of one report say together."""
    present: dict[str, set[Side]] = defaultdict(set)
    hedged: dict[str, set[Side]] = defaultdict(set)
    absent, named = set[str](), set[str]()
    for sentence in sentences:
        for name, label in _labels(sentence).items():
            finding = name.lower()
            named.add(finding)
            if label.value == 0:
                absent |= set() if label.side or _limited(sentence) else {finding}
            else:
                sides = SIDES if label.side == "both" else (_side(label),)
                (present if label.value == 1 else hedged)[finding] |= {s for s in sides if s}
    for finding in present:
        present[finding] |= hedged.get(finding, set())
    return StudySays(
        {name: frozenset(sides or SIDES) for name, sides in present.items()},
        frozenset(absent - set(present) - set(hedged)),
        frozenset(named),
    )


def _labels(sentence: str) -> dict[str, Label]:
    """The labels of a sentence in the order of findings; an opacity beside what it is is none."""
    labels = sentence_labels(sentence)
    told = any(name in labels and labels[name].value for name in OPACITIES)
    return {
        name: labels[name]
        for name in FINDINGS
        if name in labels and not (told and name == "Lung Opacity")
    }


def _named(sentence: str, labels: Mapping[str, Label]) -> dict[str, Label]:
    text, findings = as_prose(sentence).text, rules_of(sentence).findings
    return {name: one for name, one in labels.items() if one.value or findings[name].search(text)}


def _limited(sentence: str) -> bool:
    return rules_of(sentence).patterns["limited"].search(sentence) is not None


def _side(label: Label) -> Side:
    return next((side for side in SIDES if side == label.side), "")
