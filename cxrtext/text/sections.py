"""Reports divided into their sections."""

import re

from cxrtext.text.headings import ADMINISTRATIVE, HEADLESS, find_headings

# Lines that a reporting system prints and nobody wrote.
_FURNITURE = re.compile(
    r"^[ \t]*(?:FINAL (?:REPORT|ADDENDUM)|RADIOLOGY REPORT|PRELIMINARY REPORT|_{5,}|-{5,}|={5,})"
    r"[ \t]*$",
    re.MULTILINE,
)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


def _paragraph_break(section: str, body: str) -> int:
    """Where the section ends: administrative ones at the first blank line after some text."""
    if section in ADMINISTRATIVE:
        offset = len(body) - len(body.lstrip())
        gap = _BLANK_LINE.search(body, offset)
        if gap is not None:
            return gap.start()
    return len(body)


def split_sections(report: str) -> list[tuple[str, str]]:
    """Divide a report at its headings.

    A heading is one of those of MIMIC-CXR, Open-i and common usage (``FINDINGS``, ``IMPRESSION``,
    ``CLINICAL HISTORY``, ``PORTABLE AP CHEST`` ...), followed by a colon: at the start of a line in
    any case; inside a line in capitals, or capitalised after the end of a sentence.  A line of
    nothing but a heading in capitals needs no colon.  ``indication``, ``history``,
    ``comparison``, ``technique`` and ``examination`` end at a blank line, because many reports
    then go on with their findings under no heading.

    Args:
        report: The text of a report; may be empty.

    Returns:
        ``(section, text)`` in order, stripped; text without a heading is section ``report``.
        Sections without text are left out; a heading that occurs twice gives two entries.
    """
    text = _FURNITURE.sub("", report.replace("\r\n", "\n").replace("\r", "\n"))
    headings = find_headings(text)
    first = headings[0][0] if headings else len(text)
    pieces = [(HEADLESS, text[:first])]
    for number, (_, start, section) in enumerate(headings):
        end = headings[number + 1][0] if number + 1 < len(headings) else len(text)
        body = text[start:end]
        cut = _paragraph_break(section, body)
        pieces += [(section, body[:cut]), (HEADLESS, body[cut:])]
    return [(section, body.strip()) for section, body in pieces if body.strip()]
