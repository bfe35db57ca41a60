"""Text divided into sentences."""

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from cxrtext.text.boundaries import is_end, segment

# Category Cc except the tab and the line breaks, the separators of lines and paragraphs, and two
# characters without width that text from web pages and from Windows brings along.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u200b\ufeff]")
# "[<Lungs are clear.>]": a dictation system's marks around a template's field.
_FIELD_MARK = re.compile(r"\[<|>\]")
_NUMBER = re.compile(r" ?\d")


def without_controls(text: str) -> str:
    r"""Return a text whose lines end in ``\n`` and whose control characters are spaces."""
    return _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def _without_field_marks(text: str) -> str:
    """Put a space for each mark, but for a ``[<`` before a number with no end: "less than"."""
    parts: list[str] = []
    done, less_than = 0, -1
    for match in _FIELD_MARK.finditer(text):
        if match[0] == "[<" and _NUMBER.match(text, match.end()):
            less_than = match.start()
            continue
        if match[0] == ">]" and less_than >= done:
            parts += [text[done:less_than], " "]
            done = less_than + len("[<")
        parts += [text[done : match.start()], " "]
        done, less_than = match.end(), -1
    return "".join([*parts, text[done:]])


def normalize(text: str) -> str:
    """Return a text as its sentences are to show it, in time linear in its length.

    HTML's character references (``&gt;``) are resolved once, control characters become spaces,
    line breaks line feeds, and a dictation system's field marks ``[<`` and ``>]`` spaces.  All
    other characters are as they were.
    """
    if "&" in text:
        text = html.unescape(text)
    text = without_controls(text)
    return _without_field_marks(text) if "[<" in text or ">]" in text else text


# Words that a line wrapped in the middle of a sentence may end in.
_GOES_ON = re.compile(
    r"(?:[,/(&-]|\b(?:a|an|and|are|as|at|by|for|from|has|in|is|of|on|or|than|the|to|was|were|with"
    r"|without|versus|(?:Dr|Drs|Mr|Mrs|Ms|vs?|e\.g|i\.e|no|No|approx)\.))$"
)
_OPENS = re.compile(r"[A-Z][a-z]+")
# De-identification shortens lines after they were wrapped.
_MARGIN = 15


def deliberate_breaks(block: str) -> list[str]:
    """Divide lines, none of them blank, where one was ended although the next word had room on it.

    A new part begins with a capitalized word, and the line before ends in no word that asks for
    more, with room to spare for that word in the width of the block.
    """
    if "\n" not in block:
        return [block]
    lines = [line.strip() for line in block.split("\n")]
    width = max(map(len, lines))
    parts = [[lines[0]]]
    for before, line in pairwise(lines):
        opening = _OPENS.match(line)
        room = width - len(before) - 1 - _MARGIN
        if opening and before and len(opening[0]) <= room and not _GOES_ON.search(before):
            parts.append([line])
        else:
            parts[-1].append(line)
    return ["\n".join(part) for part in parts]


# "1." "2)" "(3)" and "2.," before an item, the space before them lost or not; bullets and letters
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
    # Without a stop before them, numbers have to count: "1. Edema 2. Effusion".
    return next_in_order or (number == 1 and second_follows)


def _number(match: re.Match[str]) -> int:
    return int(match["paren"] or match["dot"] or 0)


def _letter(match: re.Match[str]) -> str:
    return match["letter"].strip(" \t().").lower()


def _before(block: str, match: re.Match[str]) -> str:
    return block[max(0, match.start() - _LOOK_BACK) : match.start()].rstrip()


def list_marks(block: str) -> Iterator[tuple[int, int]]:
    """Give ``(start, end)`` of each mark that opens an item of a list in lines, none blank."""
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
            # "hepatitis\nC. No effusion" is the end of a sentence that was wrapped.
            if ord(letter) == previous_letter + 1 and (letter > "a" or "b" in letters):
                previous_letter = ord(letter)
                yield match.span()
            continue
        number = _number(match)
        before = _before(block, match)
        if match["line"] is not None:
            # "at the level of\n4. The ..." is the end of a sentence that was wrapped.
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
    """A part of a text: a sentence that is kept, or what is dropped between sentences."""

    text: str
    kept: bool


def _item_segments(item: str) -> Iterator[Segment]:
    for part in deliberate_breaks(item):
        line = " ".join(part.split())
        if line:
            for sentence in segment(_LOST_SPACE.sub(" ", line)):
                # A letter stands outside the marks that de-identification leaves.
                said = _LETTER.search(_PLACEHOLDERS.sub(" ", sentence))
                yield Segment(sentence, kept=said is not None)


def divide(text: str) -> Iterator[Segment]:
    """Divide a text into its sentences and what is dropped between them.

    Apart from white space they are the normalized text, no character lost, repeated or altered.
    """
    for block in _BLANK_LINE.split(normalize(text)):
        done = 0
        for start, end in list_marks(block):
            yield from _item_segments(block[done:start])
            yield Segment(block[start:end].strip(), kept=False)
            done = end
        yield from _item_segments(block[done:])


def split_sentences(text: str) -> list[str]:
    """Divide a section or a whole text into sentences, with PySBD.

    Wrapped lines are joined; a blank line, a line that was ended on purpose and a list marker
    ("1.", "2)", "-") end a sentence, and the marker is dropped.  HTML's character references are
    resolved, control characters are spaces, and so are the field marks ``[<`` and ``>]``.
    De-identification marks (``XXXX``, ``___``) are kept, but what holds no letter beside them is
    no sentence.  Nothing else is lost.  Each sentence is one line with single spaces.  Time grows
    linearly with the text.

    Source: Sadvilkar and Neumann 2020 (PySBD).
    """
    return [segment.text for segment in divide(text) if segment.kept]
