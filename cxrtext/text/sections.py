"""Reports divided into their sections."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from cxrtext.text.characters import without_controls
from cxrtext.text.headings import ADMINISTRATIVE, HEADLESS, find_headings

_DESCRIBES = frozenset({"findings", "impression", "conclusion", "findings and impression"})
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Part(NamedTuple):
    """A part of a report: a section's text, or with None a heading or a printed line."""

    section: str | None
    text: str


def _bodies(section: str, body: str) -> Iterator[Part]:
    """A section's text; administrative ones end at the first blank line after some text."""
    if section in ADMINISTRATIVE:
        gap = _BLANK_LINE.search(body, len(body) - len(body.lstrip()))
        if gap is not None:
            yield Part(section, body[: gap.start()])
            section, body = HEADLESS, body[gap.start() :]
    yield Part(section, body)


def divide_report(report: str) -> Iterator[Part]:
    """Divide a report into the texts of its sections and what is dropped between them.

    Args:
        report: The text of a report; may be empty.

    Yields:
        Parts in order.  Together they are the report with line feeds for line breaks and
        spaces for control characters, no character lost or repeated.
    """
    text = without_controls(report)
    section, done = HEADLESS, 0
    for start, end, opened, title, view in find_headings(text):
        # "CHEST:" inside the impression divides it by organs, and opens nothing.
        if (title or view) and section in _DESCRIBES:
            continue
        yield from _bodies(section, text[done:start])
        yield Part(opened if title else None, text[start:end])
        if opened is not None:
            section = HEADLESS if title else opened
        elif section in ADMINISTRATIVE:
            section = HEADLESS
        done = end
    yield from _bodies(section, text[done:])


def split_sections(report: str) -> list[tuple[str, str]]:
    """Divide a report at its headings.

    A heading is one of those of MIMIC-CXR, Open-i and common usage (``FINDINGS``, ``IMPRESSION``,
    ``CLINICAL HISTORY``, ``PORTABLE AP CHEST`` ...), followed by a colon: at the start of a line in
    any case; inside a line in capitals, or in any case after the end of a sentence.  In capitals
    it needs no colon on a line of its own, before a dash, and before a word that is not in
    capitals.  ``indication``, ``history``, ``comparison``, ``technique`` and ``examination`` end
    at a blank line, because many reports then go on with their findings under no heading.  A line
    in capitals that only names an examination is an ``examination``.  Control characters are
    spaces.

    Args:
        report: The text of a report; may be empty.

    Returns:
        ``(section, text)`` in order, stripped; text without a heading is section ``report``.
        Sections without text are left out; a heading that occurs twice gives two entries.
    """
    return [
        (part.section, body)
        for part in divide_report(report)
        if part.section is not None and (body := part.text.strip())
    ]
