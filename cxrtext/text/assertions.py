"""What sentences and reports assert about findings: present or absent, and on which side.

These are the labels of :mod:`cxrtext.text.labelling` without hedged ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cxrtext.text.fields import as_prose
from cxrtext.text.labelling import FINDINGS, OPACITIES, Label, sentence_labels
from cxrtext.text.rules import rules_of
from cxrtext.text.sides import SIDES, Side

MOST_RULED_OUT = 6
"""Most findings asserted by a statement that names none."""


@dataclass(frozen=True, slots=True, order=True)
class Assertion:
    finding: str  # one of FINDINGS in lower case
    present: bool
    side: Side = ""  # the only side that it is about
    limited: bool = False  # denies only a large one: "no large effusion"
    implied: bool = False  # from a sentence that names no finding

    def __str__(self) -> str:
        words = " ".join(word for word in (self.side, self.finding) if word)
        return words if self.present else f"no {'large ' if self.limited else ''}{words}"


@dataclass(frozen=True, slots=True)
class StudySays:
    """What a report says about findings."""

    # affirmed findings with the sides that are named (both if none is)
    present: Mapping[str, frozenset[Side]]
    absent: frozenset[str]  # findings ruled out and nowhere affirmed or hedged
    named: frozenset[str]  # all findings that it names or rules out in any way

    def contradicts(self, assertions: Iterable[Assertion]) -> bool:
        """Whether it says the opposite of any of the assertions."""
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
    """What a sentence asserts about findings; hedged findings are left out."""
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
    """What the sentences of a report say together."""
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
    """The labels of a sentence in the order of `FINDINGS`, without an opacity that is explained."""
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
