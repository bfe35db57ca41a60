"""Text divided into sentences."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from cxrtext.text.boundaries import is_end, segment
from cxrtext.text.fields import is_bare_name, is_denial
from cxrtext.text.layout import plain_text

# Ends of a line that was wrapped in the middle of a sentence.
_GOES_ON = re.compile(
    r"(?:[,/(&]|(?<! )-|(?<![\w/])(?:a|an|and|are|as|at|by|for|from|has|in|is|of|on|or|than|the|to"
    r"|was|were|with|without|versus|(?<![:,–-] )(?:left|right)"
    r"|(?:Dr|Drs|Mr|Mrs|Ms|vs?|e\.g|i\.e|no|approx)\.))$",
    re.IGNORECASE,
)
_OPENS = re.compile(r"[A-Z][a-z]+")
_STATEMENT = re.compile(r"[^\W\d_a-z]|[\d([+☐☑\"]|[^:\n]{1,40}:[ \t]{0,40}\S")
_FIELD = re.compile(r"[^\W\d_a-z][^:.\n]{1,60}(?::[ \t]{0,40}| [-–—] )\S")
# De-identification shortens lines after they were wrapped.
_MARGIN = 15
_SHORT, _NARROW, _WIDE, _LINES = 60, 40, 90, 3
"""A statement is seldom longer than the first; prose is hardly ever wrapped at the second."""
_MOST = 0.75


def statement_lines(block: str) -> list[str]:
    """Divide lines, none of them blank, into statements.

    A block is a list if most of its lines are short and begin like a statement; then each line is
    one.  Otherwise it is wrapped prose, and a statement ends with a line that had room for the next
    word.
    """
    if "\n" not in block:
        return [block]
    lines = [line.strip() for line in block.split("\n")]
    width = max(map(len, lines))
    uneven = len(lines) > _LINES and 1.5 * min(map(len, lines[:-1])) < width < _WIDE
    wide = uneven and block != block.upper() and all(map(_STATEMENT.match, lines))
    is_list = wide or _is_list(block, lines, width)
    parts = [[lines[0]]]
    for before, line in pairwise(lines):
        opening = _OPENS.match(line)
        spare = width - len(before) - 1 - _MARGIN
        ended = opening is not None and len(opening[0]) <= spare
        listed = is_list and (len(before) <= _SHORT or wide or before.endswith(_STOPS))
        goes_on = not before or _GOES_ON.search(before)
        opens = _STATEMENT.match(line) or not _STATEMENT.match(lines[0])
        is_field = _FIELD.match(line)
        if (is_field and ":" in before) or (
            not goes_on and (ended or (listed and opens) or is_field)
        ):
            parts.append([line])
        else:
            parts[-1].append(line)
    return ["\n".join(part) for part in parts]


def _is_list(block: str, lines: list[str], width: int) -> bool:
    opening = [bool(_STATEMENT.match(line)) for line in lines]
    if block != block.upper() and any(opening):
        short = sum(len(line) <= _SHORT for line in lines)
        return sum(opening[1:]) >= _MOST * len(opening[1:]) and 2 * short >= len(lines)
    # Capitals do not help here: look for narrow lines, or lines with room for the next word.
    if any(_GOES_ON.search(line) for line in lines[:-1]):
        return False
    room = [
        len(before) + 1 + len(line.split(" ", 1)[0]) <= width
        for before, line in pairwise(lines)
        if len(before) < width
    ]
    return width <= _NARROW or (len(room) > 1 and all(room))


# "1." "2)" "(3)" and "2.," before an item, also without a space before them; bullets and letters
# ("a.", "(b)") only at the start of a line.
_CANDIDATE = re.compile(
    r"(?:(?P<line>^[ \t]*)|(?<=\s)|(?<=[a-z]{2}[.;])(?=\d{1,2}\.\s))"
    r"(?:\(?(?P<paren>\d{1,2})\)|(?P<dot>\d{1,2})\.,?)"
    r"(?=\s|[A-Z(]|$)"
    r"|(?P<letter>^[ \t]*\(?[A-Ha-h][.)])(?=[ \t]+\S)"
    r"|(?P<bullet>^[ \t]*(?:[-*•·–]+(?=\s)|[•·]+))",
    re.MULTILINE,
)
_STOPS = tuple(".;:?!")
_LOOK_BACK = 60


def _is_inline(before: str, after: str, number: int, previous: int, second_follows: bool) -> bool:
    """Whether a number inside a line opens an item ("No. 3." and "Jan. 5." do not)."""
    if not after or not (after[0].isalpha() or after[0] in "(_"):
        return False
    next_in_order = number == previous + 1 and number > 1
    if before.endswith(_STOPS) and is_end(f"{before} {number}", len(before)):
        return next_in_order or not after[0].islower()
    if after[0].islower():
        return False
    # Without a stop before them, numbers must be in sequence: "1. Edema 2. Effusion".
    return next_in_order or (number == 1 and second_follows)


def _number(match: re.Match[str]) -> int:
    return int(match["paren"] or match["dot"] or 0)


def _letter(match: re.Match[str]) -> str:
    return match["letter"].strip(" \t().").lower()


def _before(block: str, match: re.Match[str]) -> str:
    return block[max(0, match.start() - _LOOK_BACK) : match.start()].rstrip()


def list_marks(block: str) -> Iterator[tuple[int, int]]:
    """Give ``(start, end)`` of each mark that opens a list item; no line may be blank."""
    candidates = list(_CANDIDATE.finditer(block))
    # "Chest 1. Normal heart. 2. Clear lungs." is a list, "in zone 1. The one in zone 2." is not.
    twos = [match for match in candidates if _number(match) == 2]
    seconds = [match.start() for match in twos if _before(block, match).endswith(_STOPS)]
    last_second = max(seconds, default=-1)
    letters = [_letter(match) for match in candidates if match["letter"] is not None]
    previous, previous_letter = 0, ord("a") - 1
    for match in candidates:
        if match["bullet"] is not None:
            yield match.span()
            continue
        if match["letter"] is not None:
            letter = _letter(match)
            # "hepatitis\nC. No effusion": the end of a wrapped sentence.
            if ord(letter) == previous_letter + 1 and (letter > "a" or "b" in letters):
                previous_letter = ord(letter)
                yield match.span()
            continue
        number = _number(match)
        before = _before(block, match)
        if match["line"] is not None:
            # "at the level of\n4. The ...": the end of a wrapped sentence.
            opens = number in (1, previous + 1) or not before or before.endswith(_STOPS)
        else:
            after = block[match.end() : match.end() + _LOOK_BACK].lstrip()
            opens = _is_inline(before, after, number, previous, last_second > match.start())
        if opens:
            previous = number
            yield match.span()


_BLANK_LINE = re.compile(r"\n\s*\n")
# "left lung apex.There are", "NO EFFUSION.HEART NORMAL": a space was lost.
_LOST_SPACE = re.compile(
    r"(?<=[A-Za-z0-9)][A-Za-z0-9)][.?!])(?=[A-Z][a-z])|(?<=[A-Z]{4}[.?!])(?=[A-Z]{2})"
)
_LETTER = re.compile(r"[^\W\d_]")
_PLACEHOLDERS = re.compile(r"\bX{2,}\b|_+|\[\*\*[^\]]{0,80}\*\*\]")


class Segment(NamedTuple):
    """A part of a text: a kept sentence, or text dropped between sentences."""

    text: str
    kept: bool


def _item_segments(item: str) -> Iterator[Segment]:
    for part in statement_lines(item):
        line = " ".join(part.split())
        if line:
            for sentence in _with_answers(segment(_LOST_SPACE.sub(" ", line))):
                # A sentence has a letter outside the marks of de-identification.
                said = _LETTER.search(_PLACEHOLDERS.sub(" ", sentence))
                yield Segment(sentence, kept=said is not None)


def _with_answers(sentences: list[str]) -> list[str]:
    """Join a bare name and a denial after it into one sentence: "Effusion. None."."""
    joined = list[str]()
    for sentence in sentences:
        if joined and is_denial(sentence) and is_bare_name(joined[-1].rstrip(".")):
            joined[-1] += f" {sentence}"
        else:
            joined.append(sentence)
    return joined


def divide(text: str) -> Iterator[Segment]:
    """Divide a plain text into its sentences and the text dropped between them.

    Apart from white space, together they are the text, unchanged.
    """
    for block in _BLANK_LINE.split(text):
        done = 0
        for start, end in list_marks(block):
            yield from _item_segments(block[done:start])
            yield Segment(block[start:end].strip(), kept=False)
            done = end
        yield from _item_segments(block[done:])


def split_sentences(text: str) -> list[str]:
    """Divide a section or a whole text into sentences, with PySBD.

    Markup, tables and tick boxes are resolved (:mod:`cxrtext.text.layout`).  Wrapped lines are
    joined; a blank line, a line that is a statement and a list marker ("1.", "2)", "-") end a
    sentence.  Markers are dropped, and so is text without a letter outside de-identification marks
    (``XXXX``, ``___``); the marks are kept.  Nothing else is lost.  Each sentence is one line with
    single spaces.  Time grows linearly with the text.

    Source: Sadvilkar and Neumann 2020 (PySBD).
    """
    return [segment.text for segment in divide(plain_text(text).text) if segment.kept]
