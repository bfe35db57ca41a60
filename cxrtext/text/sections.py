"""Divides reports into sections at their headings."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from cxrtext.text.fields import is_field
from cxrtext.text.layout import plain_text
from cxrtext.text.rewording import edits
from cxrtext.text.rules import LANGUAGES, headings

HEADLESS = "report"  # the section of text without a heading
ADDENDUM, SUPERSEDED = "addendum", "superseded"

SECTIONS = tuple(headings("en"))  # all section names

ADMINISTRATIVE = frozenset({"indication", "history", "comparison", "technique", "examination"})
"""Sections of one paragraph: text after a blank line has no heading."""

ALIASES_TO_SECTIONS = {
    alias: section
    for language in LANGUAGES
    for section, aliases in headings(language).items()
    for alias in aliases
}
"""The section of each heading, in small letters with single spaces."""


def _alternatives(aliases: list[str]) -> str:
    longest_first = sorted(aliases, key=len, reverse=True)
    return "|".join(r"\s+".join(map(re.escape, alias.split())) for alias in longest_first)


_WORDS = _alternatives(list(ALIASES_TO_SECTIONS))
_INLINE = _alternatives(
    [alias for alias in ALIASES_TO_SECTIONS if ALIASES_TO_SECTIONS[alias] != HEADLESS]
)

_COLON = r"[:\uff1a]"  # also the wide one of East Asian keyboards
_START = r"^[ \t\xa0]*(?:[*#]{1,3}[ \t\xa0]*)?(?:\d{1,2}[.)][ \t\xa0]*)?"
# "ADDENDUM #1:", "WET READ VERSION #2"; "ADDENDUM 1/2/2020 10:30:", "*** ADDENDUM (Dr. ___) ***"
_ADDENDA = _alternatives([a for a, section in ALIASES_TO_SECTIONS.items() if section == ADDENDUM])
_ADDED = (
    rf"^[^\w\n]{{0,12}}(?P<addendum>(?i:{_ADDENDA}))"
    r"(?:[ \t*]{0,6}(?:#|no\.?)?[ \t]{0,4}\d[\d/.: -]{0,25}(?:[ap]m)?|[ \t]{0,4}\([^)\n]{0,40}\)"
    r"|[^\w\n]{1,4}[^\n]{0,60}\b(?i:supersedes|replaces|ersetzt)\b[^\n]{0,60}$"
    r"|[ \t]{1,4}(?:by|dictated|begins?|start|vom|de|du)\b[^:\n]{0,40}|,[^:\n]{1,40}){0,3}"
    r"(?:[ \t]{0,4}(?::(?!\d)|[^\w\n]{2,20}$)|(?<=\w)$)"
)
# "ORIGINAL REPORT - REPORTED IN ERROR", "PREVIOUS VERSION (SUPERSEDED, DO NOT USE)".
_OLD = (
    r"^[^\w\n]{0,12}(?P<old>(?i:(?:original|previous|prior|old|initial|preliminary) "
    r"(?:report|version|read(?:ing)?|interpretation)"
    r"(?=[ :(-][^\n]{0,60}\b(?:superseded|in error|replaced|do not use|void)\W*$)))[^\n]*$"
)
# Such as "FINAL INTERPRETATION, supersedes the preliminary report:".
_NEWER = r"^(?P<newer>[A-Z][^:\n]{0,100}\b(?i:supersedes|replaces|ersetzt)\b[^:\n]{0,60}):"
# A heading with a letter lost or wrong: "INDICATON:", "NDICATION:".
_NEAR = r"^[ \t]*(?P<near>[A-Z][A-Za-z ]{5,30}):"
_COUNT = r"(?:[ \t\xa0]*#[ \t\xa0]*\d{1,2})?"
# At the start of a line in any case; "**Findings:**" is a heading in Markdown.
_LINE_HEADING = rf"{_START}(?P<line>(?i:{_WORDS})){_COUNT}[ \t\xa0]*\*{{0,2}}{_COLON}\*{{0,2}}"
# On a line of its own, a heading in capitals or markup needs no colon.
_BARE_HEADING = (
    rf"{_START}(?P<bare>(?=[A-Z])(?i:{_WORDS})){_COUNT}[ \t\xa0]*(?:\*{{1,2}}[ \t\xa0]*)?$"
)
# Neither do capitals before a dash or before a word that is not in capitals.
_UNMARKED = (
    rf"(?:^[ \t\xa0]*|(?<=[.!?]\s))(?P<unmarked>(?=[A-Z]{{2}})(?i:{_INLINE})(?<=[A-Z)])){_COUNT}"
    r"(?:[ \t\xa0]*[-–—](?=\s)|[ \t\xa0]+(?=[A-Z][a-z]|\d\.\s|___))"
)
# Inside a line: in capitals after a space, or in any case after the end of a sentence, even if the
# space was lost with a line break.
_CAPITALS = rf"(?<=[\s.!?;])(?P<capitals>(?=[A-Z]{{2}})(?i:{_INLINE})(?<=[A-Z)])){_COUNT}:"
_AFTER_STOP = (
    rf"(?:(?<=[.!?;]\s)[ \t\xa0]?|(?<=[a-z][.!?;])(?=[A-Z]))(?P<stop>(?i:{_INLINE})){_COLON}"
)
# "CHEST RADIOGRAPH PERFORMED ON ___": a line of its own that only names the examination.
_TITLE_WORD = (
    r"(?:CHEST|C?XR|RADIOGRAPHS?|RADIOGRAPHY|X-?RAYS?|FILMS?|VIEWS?|PA|AP|LATERAL|LAT|FRONTAL|PORTABLE"
    r"|BEDSIDE|UPRIGHT|SUPINE|SEMI-?ERECT|SEMI-?UPRIGHT|ERECT|DECUBITUS|OBLIQUE|LORDOTIC|SINGLE|ONE"
    r"|TWO|THREE|AND|OF|THE|WITH|A|AN|PERFORMED|OBTAINED|DATED|ON|AT|FROM|HOURS|AM|PM|EXAM"
    r"|EXAMINATION|STUDY|SERIES|PRE-?OP|[0-9_/:&().-]{1,20})"
)
_TITLE = (
    r"^[ \t\xa0]*(?P<title>(?=[^\n]{0,60}(?:CHEST|RADIOGRAPH|VIEW|FILM|X-?RAY))"
    rf"(?=[A-Z0-9]){_TITLE_WORD}(?:,?[ \t\xa0]{{1,4}}\(?{_TITLE_WORD}\)?){{1,15}}[.,]?)[ \t\xa0]*$"
)
# "PORTABLE AP CHEST:", "PA AND LATERAL VIEWS OF THE CHEST:", "CHEST, SINGLE VIEW, ___:", "CXR:".
_VIEW_HEADING = (
    r"^[ \t\xa0]*(?P<view>(?=[A-Z0-9_ ,/&()-]{0,60}(?:CHEST|RADIOGRAPH|VIEW|FILM|X-?RAY))"
    r"[A-Z][A-Z0-9_ ,/&()-]{4,80}|(?=[A-Z][^\n:]{2,40}:)(?i:(?=[^\n:]{0,40}C(?:HEST|XR))"
    rf"{_TITLE_WORD}(?:,?[ \t\xa0]{{1,4}}\(?{_TITLE_WORD}\)?){{0,8}})):(?!\d)"
)
# Lines printed by the reporting system.
_BOILERPLATE = (
    r"^[ \t\xa0]*(?P<boilerplate>PRELIMINARY REPORT|END OF (?:REPORT|ADDENDUM)|\((?:Over|Cont)\)"
    r"|_{5,}|-{5,}|={5,}|\*{5,}"
    r"|(?i:(?:electronically )?(?:signed|dictated|transcribed|approved|verified) by\b[^\n]{0,200}))"
    r"[ \t\xa0]*$"
)
_HEADING = re.compile(
    "|".join(
        (
            _BOILERPLATE,
            _OLD,
            _LINE_HEADING,
            _BARE_HEADING,
            _UNMARKED,
            _CAPITALS,
            _AFTER_STOP,
            _ADDED,
            _NEWER,
            _VIEW_HEADING,
            _TITLE,
            _NEAR,
        )
    ),
    re.MULTILINE,
)


class Heading(NamedTuple):
    """A heading's place, with its colon, and its section.

    ``section`` is None for a line printed by the reporting system.  ``title``: the heading is also
    the text of its section; ``view``: it names a view ("PORTABLE AP CHEST:").
    """

    start: int
    end: int
    section: str | None
    title: bool = False
    view: bool = False


def _view_section(heading: str) -> str:
    """The section that a heading about a view opens, by its first word."""
    first = heading.split()[0].strip(",").lower()
    section = ALIASES_TO_SECTIONS.get(first, "indication" if first == "reason" else HEADLESS)
    return section if section in ADMINISTRATIVE - {"examination"} else "findings"


@lru_cache(maxsize=10_000)
def _near_section(words: str) -> str | None:
    """The section with a heading one letter different from these words, or None."""
    close = (
        section
        for alias, section in ALIASES_TO_SECTIONS.items()
        if len(alias) > _FEW and abs(len(alias) - len(words)) < 2 and edits(words, alias) == 1
    )
    return next(close, None)


_FEW = 6


def _stands_out(text: str, match: re.Match[str]) -> bool:
    """Whether a heading on a line of its own has markup or begins a paragraph."""
    lead = text[max(0, match.start() - 80) : match.start()]
    blank = lead[len(lead.rstrip()) :]
    return "*" in match[0] or "#" in match[0] or blank == lead or blank.count("\n") > 1


def find_headings(text: str) -> list[Heading]:
    r"""Find the headings of a report with ``\n`` line ends, and lines printed by the system."""
    headings_found = []
    for match in _HEADING.finditer(text):
        kind = match.lastgroup or ""
        words = match[kind]
        # The patterns' (?i:) also matches mixed case.
        if kind in ("unmarked", "capitals") and not words.isupper():
            continue
        start, end = match.span()
        if kind == "bare" and not (words.isupper() or _stands_out(text, match)):
            continue
        if kind == "near":
            if (near := _near_section(" ".join(words.lower().split()))) is not None:
                headings_found.append(Heading(start, end, near))
        elif kind == "newer":
            headings_found.append(Heading(start, end, ADDENDUM))
        elif kind in ("boilerplate", "old"):
            headings_found.append(Heading(start, end, SUPERSEDED if kind == "old" else None))
        elif kind == "title":
            headings_found.append(Heading(start, end, "examination", title=True))
        elif kind == "view":
            headings_found.append(Heading(start, end, _view_section(words), view=True))
        else:
            section = ALIASES_TO_SECTIONS.get(" ".join(words.lower().split()))
            headings_found.append(Heading(start, end, section))
    return headings_found


_DESCRIBES = frozenset({"findings", "impression", "conclusion", "findings and impression"})
_BLANK_LINE = re.compile(r"\n[ \t\xa0]*\n")
# "Comparison: 2017-09-19. Unchanged left pneumothorax." without another heading.
_COMPARED = re.compile(
    r"(?:none|no prior|[^.\n]{0,40}\d[^.\n]{0,40})[^.\n]{0,40}\.[ \t]+(?=[A-Z])", re.I
)
_LINE = re.compile(r"(?:\n|(?<=[.;])[ \t])([^\n:.]{2,60}:[^\n]{1,100})")


class ReportPart(NamedTuple):
    """A part of a report: a section's text, or, with None, a heading or a dropped line."""

    section: str | None
    text: str


def _bodies(section: str | None, body: str, *, described: bool = True) -> Iterator[ReportPart]:
    """A section's text, and text after it without a heading.

    An administrative section ends at the first blank line after some text, and before the first
    line or sentence that says ``finding: value``.  Unless some section has ``described`` the image,
    a comparison ends after its first sentence.
    """
    if section in ADMINISTRATIVE:
        begin = len(body) - len(body.lstrip())
        gap = _BLANK_LINE.search(body, begin)
        fields = (m.start() for m in _LINE.finditer(body, begin) if is_field(m[1]))
        end = min([next(fields, len(body)), gap.start() if gap else len(body)])
        compared = None if described or section != "comparison" else _COMPARED.match(body, begin)
        end = min(end, compared.end()) if compared else end
        if end < len(body):
            yield ReportPart(section, body[:end])
            section, body = HEADLESS, body[end:]
    yield ReportPart(section, body)


def divide_report(text: str) -> Iterator[ReportPart]:
    """Divide a plain text into its sections and the parts dropped between them.

    Together the parts are the text, unchanged.  Text after an addendum belongs to it until another
    report begins.  A version that says it was replaced is dropped.
    """
    section, done, described, added, old = HEADLESS, 0, False, False, False
    places = find_headings(text)
    has_findings = any(one.section in _DESCRIBES or one.view for one in places)
    for start, end, opened, title, view in places:
        # "CHEST:" inside the impression divides it by organs and opens no section.
        if (title or view) and section in _DESCRIBES:
            continue
        yield from _bodies(None if old else section, text[done:start], described=has_findings)
        described = described or (
            section in {*_DESCRIBES, HEADLESS} and bool(text[done:start].strip())
        )
        yield ReportPart(opened if title else None, text[start:end])
        old = opened == SUPERSEDED or (old and opened != ADDENDUM)
        if opened == ADDENDUM:
            added = described
        elif opened == HEADLESS:
            added = False
        elif added and opened in _DESCRIBES:
            opened = ADDENDUM
        if opened is not None:
            section = HEADLESS if title else opened
        elif section in ADMINISTRATIVE:
            section = HEADLESS
        done = end
    yield from _bodies(None if old else section, text[done:], described=has_findings)


def split_sections(report: str) -> list[tuple[str, str]]:
    """Divide a report at its headings.

    Headings are those of MIMIC-CXR, Open-i and common usage (``FINDINGS``, ``IMPRESSION``,
    ``CLINICAL HISTORY``, ``PORTABLE AP CHEST`` ...) with a colon: in any case at the start of a
    line or after the end of a sentence, in capitals anywhere in a line.  In capitals they need no
    colon on a line of their own, before a dash, or before a word that is not in capitals.
    ``indication``, ``history``, ``comparison``, ``technique`` and ``examination`` end at a blank
    line, because many reports then continue with the findings without a heading.  A line in
    capitals that only names an examination is an ``examination``.  A heading may have one wrong
    letter, and markup is resolved (:mod:`cxrtext.text.layout`).

    Returns:
        ``(section, text)`` in order, stripped; text without a heading is section ``report``.
        Sections without text are left out; a heading that occurs twice gives two entries.
    """
    return [
        (part.section, body)
        for part in divide_report(plain_text(report).text)
        if part.section is not None and (body := part.text.strip())
    ]
