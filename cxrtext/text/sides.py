"""Left and right in a sentence: which sides it names, what each clause is about, and its mirror."""

import re
from typing import Literal

from cxrtext.text.wording import CLAUSE_END

Side = Literal["", "left", "right"]
SIDES: tuple[Side, ...] = ("left", "right")

_FLAGS = re.IGNORECASE
_NAMED = re.compile(r"\b(left|right)\b", _FLAGS)
_LOBE = re.compile(r"\b([LR])([UML]L)\b", _FLAGS)
_LINGULA = re.compile(r"\blingular?\b", _FLAGS)
_BOTH = re.compile(r"\b(?:bilateral(?:ly)?|both|either|bi(?:basilar|basal|apical))\b", _FLAGS)
_ONE_SIDED = re.compile(
    r"\b(?:[LR]ML|lingular?|middle lobe|(?:minor|horizontal) fissure|azygous|azygos)\b", _FLAGS
)
"""What one side has and the other has not: a mirrored sentence would name what nobody has."""

_APART = re.compile(r";|,\s+(?:but|whereas|while|and\s+an?)\b", _FLAGS)
"""Where a clause begins that need not be about the side that another one names."""


def sides_of(text: str) -> frozenset[Side]:
    """The sides that a text names, by word or by lobe; both where it says "bilateral"."""
    if _BOTH.search(text):
        return frozenset(SIDES)
    named = [word.lower() for word in _NAMED.findall(text)]
    named += ["left" if m[1] in "Ll" else "right" for m in _LOBE.finditer(text)]
    named += ["left"] if _LINGULA.search(text) else []
    return frozenset(side for side in SIDES if side in named)


def side_of(text: str) -> Side:
    """The side that a text names where it names one and not the other, else ""."""
    sides = sides_of(text)
    return next(iter(sides)) if len(sides) == 1 else ""


def sided_parts(sentence: str) -> list[tuple[str, frozenset[Side]]]:
    """The parts of a sentence that are about a side, or say that they are about both.

    It is all about the one side that it names, but for what stands apart from it ("edema; small
    left effusion").  Where it names both, each clause is about its own; what is said of "right
    greater than left" is about neither.
    """
    end = CLAUSE_END if len(sides_of(sentence)) > 1 else _APART
    ends = [match.start() for match in end.finditer(sentence)]
    clauses = [sentence[a:b] for a, b in zip([0, *ends], [*ends, len(sentence)], strict=True)]
    parts = [(clause, sides_of(clause)) for clause in clauses]
    return [(one, of) for one, of in parts if len(of) == 1 or _BOTH.search(one)]


def other_side(sentence: str) -> str:
    """The sentence with left and right exchanged.

    "" where it does not name exactly one side, or something that the other side has not.

    >>> other_side("Opacity in the LLL."), other_side("RML atelectasis.")
    ('Opacity in the RLL.', '')
    """
    if not side_of(sentence) or _ONE_SIDED.search(sentence):
        return ""
    other = _NAMED.sub(
        lambda m: cased("right" if m[1].lower() == "left" else "left", m[1]), sentence
    )
    return _LOBE.sub(lambda m: cased("R" if m[1] in "Ll" else "L", m[1]) + m[2], other)


def cased(word: str, like: str) -> str:
    """A word in the case of another: LEFT, Left or left."""
    if like.isupper():
        return word.upper()
    return word.capitalize() if like[0].isupper() else word.lower()
