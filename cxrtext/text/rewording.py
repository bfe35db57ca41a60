"""Puts a typed query into the wording of the training reports.

A denial after its noun moves before it.  Abbreviations, misspellings and unusual words for sides
are replaced if the training reports never use them but use the replacement.  A sentence that the
rules cannot read, or that is not in English, stays as it is.
"""

import re
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

from cxrtext.files.yaml_text import read_own
from cxrtext.text.rules import language_of, rules

Said = Callable[[str], int]
"""How often the training reports use a word, given in lower case."""

ONE_SLIP, TWO_SLIPS = 5, 8
"""Least letters of a word that is corrected by one edit, and by two."""
CLEARLY = 5
"""Of equally near words, one is chosen only if it is this many times as frequent as any other."""
MOST_SLIPS = 8
"""A sentence with more unknown words is probably in another language, not misspelled."""

_FLAGS = re.IGNORECASE
_WORD = re.compile(r"[^\W\d_]+")
_OPPOSITE = {"hypo": "hyper", "hyper": "hypo", "inter": "intra", "intra": "inter"}

_END = re.compile(r"(?: (?:now|today|currently|any ?more|any longer|at present))?[\s.!]*$", _FLAGS)
_BE = r"is|are|was|were|be|been|has|have|had|remains?|appears?"
_LEADING = re.compile(
    r"^(?:(?:the|an?|any|this|that|previous(?:ly)?|prior|earlier|known|seen|noted) )+", _FLAGS
)
_TRAILING = re.compile(rf"(?:[\s:,–-]+|\b(?:{_BE}|now|since|completely|fully|entirely))+$", _FLAGS)
# Signs of a noun phrase that makes a statement itself, or lists several things.
_SAYS = re.compile(
    rf",|\b(?:{_BE}|there|with|new|clear|normal|stable|unchanged|worse\w*|better|\w+ed)\b", _FLAGS
)
_LONGEST = 6
"""Most words of a noun phrase that "No" is put before."""

_SIDE = r"(?P<side>left|right|both)(?: (?:sides?|hemi-?thorax|lungs?|chest|thorax))?"
_ON_A_SIDE = re.compile(rf",? (?:on|in|at|of|to)(?: the)? {_SIDE}(?P<end>\W*)$", _FLAGS)
_SIDED = re.compile(r"\b(left|right)(?:[- ]sided| hemi-?thorax)\b", _FLAGS)
_GRADES = (
    r"(?:there (?:is|are) )?(?:(?:no|an?|the|any|small|tiny|trace|minimal|mild|moderate|severe"
    r"|large|massive|acute|chronic|new|old) )*"
)


def words_of(sentence: str) -> list[str]:
    """The words of a sentence in lower case, without numbers and marks."""
    return _WORD.findall(sentence.lower())


def _known(text: str, said: Said) -> bool:
    return all(map(said, words_of(text)))


def reworded(sentence: str, said: Said | None = None, spelled: Collection[str] = ()) -> str:
    """A query in the wording of the training reports; unchanged if it already is.

    Args:
        said: None if the reports' words are unknown; then only denials move.
        spelled: Words known to be spelled right, in lower case; those that the reports use may
            replace a misspelled word.

    >>> reworded("Consolidation has resolved.")
    'No consolidation.'
    """
    given = text = " ".join(sentence.split())
    if language_of(text) != "en":
        return sentence
    if said is not None:
        text = _in_full(text, said)
        text = _corrected(text, said, {*spelled, *_right()})
    denial_first = _denial_first if said is None or said("no") else str
    text = denial_first(text)
    if said is not None:
        text = denial_first(_side_first(text, said))
    return sentence if text == given else text[:1].upper() + text[1:]


def _denial_first(text: str) -> str:
    english = rules("en").patterns
    found = [one for one in english["after"].finditer(text) if _END.match(text, one.end())]
    if not found or english["pseudo"].search(text) or english["uncertain"].search(text):
        return text
    noun = _LEADING.sub("", _TRAILING.sub("", text[: found[-1].start()]))
    words = len(noun.split())
    read = (*(english[name] for name in ("before", "after", "clause_end")), _SAYS)
    if not 0 < words <= _LONGEST or any(rule.search(noun) for rule in read):
        return text
    return f"No {_lowered(re.sub(' and ', ' or ', noun))}."


def _lowered(text: str) -> str:
    """A text with its first letter in lower case, except in an abbreviation."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


# --- words ---


@cache
def _abbreviations() -> tuple[dict[str, list[str]], re.Pattern[str]]:
    full: dict[str, list[str]] = read_own(Path(__file__).with_name("abbreviations.yaml"))
    keys = "|".join(re.escape(key) for key in sorted(full, key=len, reverse=True))
    return full, re.compile(
        rf"(?:(?<![\w/])|(?<=w/))(?<!\d )(?:{keys})(?:(?<=/) *|(?![\w/]))", _FLAGS
    )


@cache
def _right() -> frozenset[str]:
    listed = filter(str.isalpha, frozenset[str]().union(*rules("en").words.values()))
    full = " ".join(one for some in _abbreviations()[0].values() for one in some)
    return frozenset([*listed, *words_of(full)])


def _in_full(text: str, said: Said) -> str:
    full, pattern = _abbreviations()
    by_capitals = {key.upper(): key for key in full}

    def written_out(match: re.Match[str]) -> str:
        short = match[0].strip()
        key = by_capitals[short.upper()]
        in_lower_case = key.isupper() and len(key) < 3 and not short.isupper()
        if in_lower_case or _known(short, said):
            return match[0]
        known = (one for one in full[key] if _known(one, said))
        return next(known, short) + (" " if short.endswith("/") else "")

    return pattern.sub(written_out, text)


def _corrected(text: str, said: Said, spelled: Collection[str]) -> str:
    triggers = [rules("en").patterns[name] for name in ("uncertain", "before", "after")]
    unknown = {
        word
        for word in words_of(text)
        if len(word) >= ONE_SLIP
        and word not in spelled
        and not said(word)
        and not any(rule.fullmatch(word) for rule in triggers)
    }
    if len(unknown) > MOST_SLIPS:
        return text
    meant = {word: _meant(word, said, spelled) for word in sorted(unknown)}
    return _WORD.sub(lambda match: meant.get(match[0].lower()) or match[0], text)


def _meant(word: str, said: Said, spelled: Collection[str]) -> str:
    """The word that a misspelled one stands for; "" where that is not clear.

    Slips seldom touch the first letter (Pollock and Zamora 1984), and a prefix that begins
    otherwise ("abnormal", "unilateral") says something else.
    """
    slips = 1 if len(word) < TWO_SLIPS else 2
    near: dict[int, list[tuple[int, str]]] = {}
    for other in spelled:
        if other[:1] == word[0] and abs(len(other) - len(word)) <= slips and said(other):
            near.setdefault(edits(word, other), []).append((said(other), other))
    opposite = next((turned for one, turned in _OPPOSITE.items() if word.startswith(one)), None)
    best = sorted(near.get(min(near, default=0), ()), reverse=True)
    if not best or min(near) > slips or (opposite and best[0][1].startswith(opposite)):
        return ""
    return best[0][1] if len(best) == 1 or best[0][0] >= CLEARLY * best[1][0] else ""


def edits(one: str, other: str) -> int:
    """Optimal string alignment distance: letters inserted, deleted, replaced or swapped.

    Source: Damerau 1964.
    """
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            least = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and one[i - 2 : i] == wanted + other[j - 2]:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


# --- sides ---


def _side_first(text: str, said: Said) -> str:
    match = _ON_A_SIDE.search(text)
    if match and not _known(match[0], said):
        rest, side = text[: match.start()], match["side"].lower()
        side = "bilateral" if side == "both" else side
        if said(side) and not re.search(r"\b(?:left|right|both|bilateral)\b|[.;,]", rest, _FLAGS):
            grades = re.match(_GRADES, rest, _FLAGS)
            at = grades.end() if grades else 0
            text = f"{rest[:at]}{side} {_lowered(rest[at:])}{match['end']}"
    return _SIDED.sub(
        lambda m: m[0] if _known(m[0], said) or not _known(m[1], said) else m[1], text
    )
