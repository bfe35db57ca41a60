"""Left and right in a sentence: the sides it names, the side of each clause, and its mirror."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from cxrtext.text.rules import rules_of
from cxrtext.text.wording import mentions, wording

Side = Literal["", "left", "right"]
SIDES: tuple[Side, ...] = ("left", "right")


def sides_of(text: str) -> frozenset[Side]:
    """The sides that a text names, by word or by lobe; both for "bilateral"."""
    rules = rules_of(text)
    if rules.patterns["both"].search(text):
        return frozenset(SIDES)
    named = rules.sides.named(text)
    return frozenset(
        side
        for side in SIDES
        if side in named or (side == "left" and rules.patterns["left"].search(text))
    )


def side_of(text: str) -> Side:
    """The side that a text names, or "" if it names none or both."""
    sides = sides_of(text)
    return next(iter(sides)) if len(sides) == 1 else ""


def sided_parts(sentence: str) -> list[tuple[str, frozenset[Side]]]:
    """The parts of a sentence that are about one side, or expressly about both, with their sides.

    If it names one side, the whole sentence is about it, except parts set apart ("edema; small left
    effusion").  If it names both, each clause is about its own side; "right greater than left" is
    about neither.
    """
    patterns = rules_of(sentence).patterns
    end = patterns["clause_end" if len(sides_of(sentence)) > 1 else "apart"]
    ends = [match.start() for match in end.finditer(sentence)]
    clauses = [sentence[a:b] for a, b in zip([0, *ends], [*ends, len(sentence)], strict=True)]
    parts = [(clause, sides_of(clause)) for clause in clauses]
    return [(one, of) for one, of in parts if len(of) == 1 or patterns["both"].search(one)]


def other_side(sentence: str) -> str:
    """The sentence with left and right exchanged.

    "" if it does not name exactly one side, or names something that only one side has.

    >>> other_side("Opacity in the LLL."), other_side("RML atelectasis.")
    ('Opacity in the RLL.', '')
    """
    rules = rules_of(sentence)
    if not side_of(sentence) or rules.patterns["one_sided"].search(sentence):
        return ""
    return rules.sides.exchanged(sentence)


def false_mirrors(report: Sequence[str]) -> list[str]:
    """The mirror of each sentence of a report, "" if the mirror may be true of the study.

    It may be true if a sentence affirms one of its findings elsewhere ("small effusion on the other
    side", "bilateral"), or is the mirror itself.

    >>> false_mirrors(["Left effusion.", "Right pneumothorax."])
    ['Right effusion.', 'Left pneumothorax.']
    """
    said = set(report)
    places = {sentence: _places(sentence) for sentence in said}
    found = {sentence: _findings(sentence) for sentence in said}
    result = []
    for sentence in report:
        elsewhere = any(
            not places[other] <= places[sentence] and not found[other].isdisjoint(found[sentence])
            for other in said
        )
        mirror = "" if elsewhere else mirrored(sentence)
        result.append("" if mirror in said else mirror)
    return result


@lru_cache(maxsize=4096)
def _places(sentence: str) -> frozenset[str]:
    sides = frozenset[str](sides_of(sentence))
    return sides if len(sides) == 2 else sides | rules_of(sentence).levels.named(sentence)


@lru_cache(maxsize=4096)
def _findings(sentence: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in mentions(sentence)[0])


def mirrored(sentence: str) -> str:
    """The sentence with left and right exchanged.

    "" if it does not name exactly one side, affirms no finding, hedges, or denies something.
    """
    affirmed, absent = mentions(sentence)
    if absent or not affirmed or wording(sentence) != "affirmed":
        return ""
    return other_side(sentence)
