"""The headings that stand in chest X-ray reports, and the section each one opens."""

import re
from typing import NamedTuple

from cxrtext.text.section_names import (
    ADMINISTRATIVE,
    ALIASES_TO_SECTIONS,
    HEADLESS,
    REPORT_NAMES,
    SECTIONS,
    canonical,
)

__all__ = ["ADMINISTRATIVE", "HEADLESS", "SECTIONS", "Heading", "canonical", "find_headings"]


def _alternatives(aliases: list[str]) -> str:
    longest_first = sorted(aliases, key=len, reverse=True)
    return "|".join(r"\s+".join(map(re.escape, alias.split())) for alias in longest_first)


_WORDS = _alternatives(list(ALIASES_TO_SECTIONS))
_INLINE = _alternatives([alias for alias in ALIASES_TO_SECTIONS if alias not in REPORT_NAMES])

_START = r"^[ \t]*(?:[*#]{1,3}[ \t]*)?"
# "ADDENDUM #1:", "WET READ VERSION #2"
_COUNT = r"(?:[ \t]*#[ \t]*\d{1,2})?"
# At the start of a line any case will do; "**Findings:**" is a heading in Markdown.
_LINE_HEADING = rf"{_START}(?P<line>(?i:{_WORDS})){_COUNT}[ \t]*\*{{0,2}}:\*{{0,2}}"
# A line of its own needs no colon when it is in capitals or marked up.
_BARE_HEADING = rf"{_START}(?P<bare>(?=[A-Z])(?i:{_WORDS})){_COUNT}[ \t]*(?:\*{{1,2}}[ \t]*)?$"
# Nor do capitals before a dash, or before a word that is not in capitals.
_UNMARKED = (
    rf"(?:^[ \t]*|(?<=[.!?]\s))(?P<unmarked>(?=[A-Z]{{2}})(?i:{_INLINE})(?<=[A-Z)])){_COUNT}"
    r"(?:[ \t]+[-–—](?=\s)|[ \t]+(?=[A-Z][a-z]|\d\.\s|___))"
)
# Inside a line: in capitals after a space, or in any case after the end of a sentence.
_CAPITALS = rf"(?<=\s)(?P<capitals>(?=[A-Z]{{2}})(?i:{_INLINE})(?<=[A-Z)])){_COUNT}:"
_AFTER_STOP = rf"(?<=[.!?;]\s)[ \t]?(?P<stop>(?i:{_INLINE})):"
# "PORTABLE AP CHEST:", "PA AND LATERAL VIEWS OF THE CHEST:", "CHEST, SINGLE VIEW, ___:".
_VIEW_HEADING = (
    r"^[ \t]*(?P<view>(?=[A-Z0-9_ ,/&()-]{0,60}(?:CHEST|RADIOGRAPH|VIEW|FILM|X-?RAY))"
    r"[A-Z][A-Z0-9_ ,/&()-]{4,80}):"
)
# "CHEST RADIOGRAPH PERFORMED ON ___": a line of its own that only names the examination.
_TITLE_WORD = (
    r"(?:CHEST|RADIOGRAPHS?|RADIOGRAPHY|X-?RAYS?|FILMS?|VIEWS?|PA|AP|LATERAL|LAT|FRONTAL|PORTABLE"
    r"|BEDSIDE|UPRIGHT|SUPINE|SEMI-?ERECT|SEMI-?UPRIGHT|ERECT|DECUBITUS|OBLIQUE|LORDOTIC|SINGLE|ONE"
    r"|TWO|THREE|AND|OF|THE|WITH|A|AN|PERFORMED|OBTAINED|DATED|ON|AT|FROM|HOURS|AM|PM|EXAM"
    r"|EXAMINATION|STUDY|SERIES|PRE-?OP|[0-9_/:&().-]{1,20})"
)
_TITLE = (
    r"^[ \t]*(?P<title>(?=[^\n]{0,60}(?:CHEST|RADIOGRAPH|VIEW|FILM|X-?RAY))"
    rf"(?=[A-Z0-9]){_TITLE_WORD}(?:,?[ \t]{{1,4}}\(?{_TITLE_WORD}\)?){{1,15}}[.,]?)[ \t]*$"
)
# Lines that a reporting system prints and nobody wrote.
_FURNITURE = (
    r"^[ \t]*(?P<furniture>PRELIMINARY REPORT|END OF (?:REPORT|ADDENDUM)|\((?:Over|Cont)\)"
    r"|_{5,}|-{5,}|={5,}|\*{5,}"
    r"|(?i:(?:electronically )?(?:signed|dictated|transcribed|approved|verified) by\b[^\n]{0,200}))"
    r"[ \t]*$"
)
_HEADING = re.compile(
    "|".join(
        (
            _FURNITURE,
            _LINE_HEADING,
            _BARE_HEADING,
            _UNMARKED,
            _CAPITALS,
            _AFTER_STOP,
            _VIEW_HEADING,
            _TITLE,
        )
    ),
    re.MULTILINE,
)


class Heading(NamedTuple):
    """A heading's place, colon included, and its section.

    ``section`` is None for a line that a reporting system printed.  ``title`` says that the heading
    is also the text of its section, ``view`` that it names a view ("PORTABLE AP CHEST:").
    """

    start: int
    end: int
    section: str | None
    title: bool = False
    view: bool = False


def _view_section(heading: str) -> str:
    """The section that a heading in capitals about a view opens, its first word permitting."""
    first = heading.split()[0].strip(",").lower()
    section = ALIASES_TO_SECTIONS.get(first, "indication" if first == "reason" else HEADLESS)
    return section if section in ADMINISTRATIVE - {"examination"} else "findings"


def _stands_out(text: str, match: re.Match[str]) -> bool:
    """Whether a heading in mixed case on a line of its own is marked up or opens a paragraph."""
    lead = text[max(0, match.start() - 80) : match.start()]
    blank = lead[len(lead.rstrip()) :]
    return "*" in match[0] or "#" in match[0] or blank == lead or blank.count("\n") > 1


def find_headings(text: str) -> list[Heading]:
    """Find the headings of a report and the lines of its reporting system.

    Args:
        text: The report, its lines ending in a line feed.

    Returns:
        The headings in order of place.
    """
    found = []
    for match in _HEADING.finditer(text):
        kind = match.lastgroup or ""
        words = match[kind]
        # The patterns' (?i:) lets mixed case by.
        if kind in ("unmarked", "capitals") and not words.isupper():
            continue
        start, end = match.span()
        if kind == "bare" and not (words.isupper() or _stands_out(text, match)):
            continue
        if kind == "furniture":
            found.append(Heading(start, end, None))
        elif kind == "title":
            found.append(Heading(start, end, "examination", title=True))
        elif kind == "view":
            found.append(Heading(start, end, _view_section(words), view=True))
        else:
            found.append(Heading(start, end, canonical(words)))
    return found
