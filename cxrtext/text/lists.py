"""Numbered and bulleted lists, whose items are sentences."""

import re
from collections.abc import Iterator

from cxrtext.text.boundaries import is_end

# "1." "2)" "(3)" and "2.," before an item, the space before them lost or not; bullets only at the
# start of a line.
_CANDIDATE = re.compile(
    r"(?:(?P<line>^[ \t]*)|(?<=\s)|(?<=[a-z]{2}[.;])(?=\d{1,2}\.\s))"
    r"(?:\(?(?P<paren>\d{1,2})\)|(?P<dot>\d{1,2})\.,?)"
    r"(?=\s|[A-Z(]|$)"
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


def _after_stop(block: str, match: re.Match[str]) -> bool:
    return block[max(0, match.start() - _LOOK_BACK) : match.start()].rstrip().endswith(_STOPS)


def list_marks(block: str) -> Iterator[tuple[int, int]]:
    """Find the marks that open the items of a list.

    Args:
        block: Lines without a blank one between them.

    Yields:
        ``(start, end)`` of each mark, in order.
    """
    candidates = list(_CANDIDATE.finditer(block))
    # "Chest 1. Normal heart. 2. Clear lungs." is a list, "in zone 1. The one in zone 2." is not.
    seconds = [m.start() for m in candidates if _number(m) == 2 and _after_stop(block, m)]
    last_second = max(seconds, default=-1)
    previous = 0
    for match in candidates:
        if match["bullet"] is not None:
            yield match.span()
            continue
        number = _number(match)
        before = block[max(0, match.start() - _LOOK_BACK) : match.start()].rstrip()
        if match["line"] is not None:
            # "at the level of\n4. The ..." is the end of a sentence that was wrapped.
            opens = number in (1, previous + 1) or not before or before.endswith(_STOPS)
        else:
            after = block[match.end() : match.end() + _LOOK_BACK].lstrip()
            opens = _is_inline(before, after, number, previous, last_second > match.start())
        if opens:
            previous = number
            yield match.span()
