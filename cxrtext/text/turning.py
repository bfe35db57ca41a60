"""A sentence with one thing in it turned over: the other side, or its denial.

What it then says is false of the study that it was written about, as far as its words tell.
Sentences whose turned form may be just as true are left alone: those that hedge, that deny
something of one side ("no effusion on the left" says nothing of the right), that name both sides,
or name no finding ("the left lung is clear").
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from cxrtext.text.rules import rules_of
from cxrtext.text.sides import other_side, sides_of
from cxrtext.text.wording import mentions, wording

_FLAGS = re.IGNORECASE
_NO = re.compile(
    r"^(?P<there>there (?:is|are|has been) )?no (?:definite |acute |obvious |significant )?"
    r"(?:(?:radiographic )?(?:evidence|signs?) of (?:an? |any )?)?(?P<rest>.+)$",
    _FLAGS,
)
_NOT = re.compile(r"\b(is|are) (?:not|no longer) ", _FLAGS)
_THERE = re.compile(r"^there (is|are) (?:an? )?(?!no\b|not\b)(?P<rest>.+)$", _FLAGS)
_BE = re.compile(r"\b(?:is|are|was|were|has|have)\b", _FLAGS)
_BE_NOW = re.compile(r"\b(is|are) ", _FLAGS)
_SEEN = re.compile(r" (?:is|are) (?:seen|identified|present|noted|evident|visible)\b", _FLAGS)
_LONGEST = 6
"""Words of an affirmed phrase without a verb that "no" may stand before."""


def false_mirrors(report: Sequence[str]) -> list[str]:
    """The mirror of each sentence of a report, "" where it may be true of its study.

    It may where another sentence affirms one of its findings elsewhere ("small effusion on the
    other side", "bilateral"), or says the mirror itself.

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

    "" where it does not name one side, affirms no finding, hedges, or denies something.
    """
    affirmed, absent = mentions(sentence)
    if absent or not affirmed or wording(sentence) != "affirmed":
        return ""
    return other_side(sentence)


def denied(sentence: str) -> tuple[str, ...]:
    """The sentence with its denial taken away, or with one put in; of one clause only.

    >>> denied("There is no pneumothorax."), denied("The heart is enlarged.")
    (('There is pneumothorax.',), ('The heart is not enlarged.',))
    """
    affirmed, absent = mentions(sentence)
    kind = wording(sentence)
    if rules := rules_of(sentence).denials:
        way = "taken" if kind == "negated" else "put" if kind == "affirmed" and not absent else ""
        found = _by_rules(sentence, rules.get(way, ()))
        is_false = wording(found) == "negated" if way == "put" else not mentions(found)[1]
        return (found,) if found and is_false else ()
    if kind == "negated" and absent and not affirmed:
        return _affirmation(sentence)
    if kind == "affirmed" and affirmed and not absent:
        return _denial(sentence)
    return ()


def _by_rules(sentence: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """The first rewriting that fits, else ""; "~" makes the letter after it small."""
    for pattern, to in rules:
        if match := pattern.match(sentence):
            return _capital(re.sub("~(.)", lambda m: m[1].lower(), match.expand(to)))
    return ""


def _affirmation(sentence: str) -> tuple[str, ...]:
    if match := _NO.match(sentence):
        rest = match["rest"]
        if re.search(r"\b(?:no|not|nor|without)\b|;", rest, _FLAGS):
            return ()
        return (_capital((match["there"] or "") + rest),)
    if len(_NOT.findall(sentence)) == 1:
        return (_NOT.sub(r"\1 ", sentence),)
    return ()


def _denial(sentence: str) -> tuple[str, ...]:
    if re.search(r"[;,:]|\b(?:with|and|but)\b", sentence):
        return ()
    if match := _THERE.match(sentence):
        return (_capital(f"there {match[1].lower()} no {_small(match['rest'])}"),)
    verbs = _BE.findall(sentence)
    is_phrase = not verbs and len(sentence.split()) <= _LONGEST
    if is_phrase or (len(verbs) == 1 and _SEEN.search(sentence)):
        return (_capital("no " + _small(re.sub(r"^an? ", "", sentence, flags=_FLAGS))),)
    if len(verbs) == 1 and _BE_NOW.search(sentence):
        return (_BE_NOW.sub(r"\1 not ", sentence),)
    return ()


def _small(text: str) -> str:
    """A text whose first word begins small, but for abbreviations."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
