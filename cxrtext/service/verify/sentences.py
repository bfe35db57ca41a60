"""The sentences of a report that say what is in its image, and where in the report they stand."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cxrtext.errors import InputError
from cxrtext.service.limits import MAX_REPORT_CHARACTERS, MAX_REPORT_SENTENCES
from cxrtext.text import DESCRIPTIVE_SECTIONS
from cxrtext.text.sections import HEADLESS, divide_report
from cxrtext.text.sentences import divide, without_controls

_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")

MAX_MARKS = 16
"""Characters that are left out of a sentence at one place: a dictation system's field marks."""

Placed = tuple[str, int, int]
"""A character that is no blank, and where it starts and ends in the report."""


@dataclass(frozen=True, slots=True)
class ReportSentence:
    section: str  # its section, such as "findings"; "report" where there is no heading
    sentence: str  # the sentence on one line, as the model reads it
    start: int  # where it starts in the report, in characters
    end: int  # where it ends


def report_sentences(report: str) -> list[ReportSentence]:
    """Divide a report into the sentences that describe its image (InputError).

    They are those of findings, impression and conclusion.  Text under no heading counts where no
    section of findings has a sentence: many reports have no headings, or none but the
    impression's.
    Places are exact: ``report[start:end]`` is the sentence, apart from line breaks, blanks and
    HTML's character references.
    """
    if len(report) > MAX_REPORT_CHARACTERS:
        raise InputError(
            f"the report has {len(report)} characters; at most {MAX_REPORT_CHARACTERS} are read"
        )
    found = [s for s in _sentences(report) if s.section in DESCRIPTIVE_SECTIONS]
    if any(s.section in ("findings", "findings and impression") for s in found):
        found = [s for s in found if s.section != HEADLESS]
    if not found:
        raise InputError(
            "the report holds no sentence of findings, impression or conclusion; give a text "
            "such as 'FINDINGS: Left pleural effusion.'"
        )
    if len(found) > MAX_REPORT_SENTENCES:
        raise InputError(
            f"the report has {len(found)} sentences; at most {MAX_REPORT_SENTENCES} are verified"
        )
    return found


def _sentences(report: str) -> Iterator[ReportSentence]:
    # A line break of two characters is one in the parts of a report.
    starts = [place for place in range(len(report)) if report[place - 1 : place + 1] != "\r\n"]
    starts.append(len(report))
    done = 0
    for section, text in divide_report(report):
        start, end = starts[done], starts[done + len(text)]
        done += len(text)
        if section is None or not text.strip():
            continue
        characters = _placed(report, start, end)
        place = 0
        for piece in divide(text):
            spans = []
            for character in "".join(piece.text.split()):
                place = _find(characters, place, character)
                spans += characters[place : place + 1]
                place += 1
            if piece.kept and spans:
                yield ReportSentence(section, piece.text, spans[0][1], spans[-1][2])


def _placed(report: str, start: int, end: int) -> list[Placed]:
    """The characters of a part of a report but for blanks, references resolved."""
    placed: list[Placed] = []
    done = start
    for match in _REFERENCE.finditer(report, start, end):
        placed += _visible(report[done : match.start()], done)
        whole = (match.start(), match.end())
        placed += [(c, *whole) for c, _, _ in _visible(html.unescape(match[0]), 0)]
        done = match.end()
    return placed + _visible(report[done:end], done)


def _visible(text: str, start: int) -> list[Placed]:
    return [
        (character, place, place + 1)
        for place, character in enumerate(text, start)
        if not without_controls(character).isspace() and character
    ]


def _find(characters: list[Placed], place: int, wanted: str) -> int:
    """The next place of a character, past marks that a sentence has not; else the place given."""
    for near in range(place, min(place + MAX_MARKS, len(characters))):
        if characters[near][0] == wanted:
            return near
    return place
