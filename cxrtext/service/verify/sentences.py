"""The sentences of a report that describe its image, and their places in the report."""

from collections.abc import Iterator
from dataclasses import dataclass

from cxrtext.errors import InputError
from cxrtext.service.limits import MAX_REPORT_CHARACTERS, MAX_REPORT_SENTENCES
from cxrtext.text import DESCRIPTIVE_SECTIONS
from cxrtext.text.addenda import standing
from cxrtext.text.layout import plain_text
from cxrtext.text.sections import HEADLESS, divide_report
from cxrtext.text.sentences import divide


@dataclass(frozen=True, slots=True)
class ReportSentence:
    section: str  # such as "findings"; "report" without a heading
    sentence: str  # on one line, as the model reads it
    start: int  # where it starts in the report, in characters
    end: int  # where it ends


def report_sentences(report: str) -> list[ReportSentence]:
    """Divide a report into the sentences that describe its image (InputError).

    They are those of findings, impression, conclusion and addenda, without those that an addendum
    contradicts.  Text without a heading counts if no findings section has a sentence: many reports
    have no headings, or only the impression's.  Places are exact: ``report[start:end]`` is the
    sentence, apart from line breaks, blanks and markup.
    """
    if len(report) > MAX_REPORT_CHARACTERS:
        raise InputError(
            f"the report has {len(report)} characters; at most {MAX_REPORT_CHARACTERS} are read"
        )
    every = list(_sentences(report))
    stands = standing([(one.section, one.sentence) for one in every])
    kept = [s for s, is_standing in zip(every, stands, strict=True) if is_standing]
    kept = [s for s in kept if s.section in DESCRIPTIVE_SECTIONS]
    if any(s.section in ("findings", "findings and impression") for s in kept):
        kept = [s for s in kept if s.section != HEADLESS]
    if not kept:
        raise InputError(
            "the report has no sentence of findings, impression or conclusion; give a text such "
            "as 'FINDINGS: Left pleural effusion.'"
        )
    if len(kept) > MAX_REPORT_SENTENCES:
        raise InputError(
            f"the report has {len(kept)} sentences; at most {MAX_REPORT_SENTENCES} are verified"
        )
    return kept


def _sentences(report: str) -> Iterator[ReportSentence]:
    plain = plain_text(report)
    begin = 0
    for section, text in divide_report(plain.text):
        place = begin
        for piece in divide(text) if section is not None else ():
            spans = []
            for character in "".join(piece.text.split()):
                place = plain.text.index(character, place)
                spans.append(place)
                place += 1
            if piece.kept and spans and section is not None:
                start, end = plain.places[spans[0]], plain.places[spans[-1] + 1]
                yield ReportSentence(section, piece.text, start, max(end, start + 1))
        begin += len(text)
