"""The sentences of a study that describe its image."""

from collections import Counter
from collections.abc import Iterator, Sequence

from cxrtext.errors import ConfigError
from cxrtext.records import Sentence, Study
from cxrtext.text.addenda import standing
from cxrtext.text.layout import plain_text
from cxrtext.text.sections import ADDENDUM, HEADLESS, SECTIONS, divide_report
from cxrtext.text.sentences import divide

DESCRIPTIVE_SECTIONS = (
    *("findings", "impression", "conclusion", "findings and impression", HEADLESS, ADDENDUM),
)
"""Sections that describe the image; they are scored and trained on."""
PRELIMINARY = "wet read"  # describes the image too, if a report has no other such section


def check_sections(sections: Sequence[str]) -> frozenset[str]:
    """Return section names as a set, in lower case (ConfigError for an unknown name)."""
    names = frozenset(" ".join(name.lower().split()) for name in sections)
    unknown = sorted(names - set(SECTIONS))
    if unknown:
        raise ConfigError(f"section '{unknown[0]}' is not one of: {', '.join(SECTIONS)}")
    return names


def _said(text: str, column: str = HEADLESS) -> Iterator[tuple[str, str]]:
    """The sentences of a text with their sections; before any heading, the column's name."""
    for section, body in divide_report(plain_text(text).text):
        if section is not None:
            name = column if section == HEADLESS else section
            yield from ((name, segment.text) for segment in divide(body) if segment.kept)


def study_sentences(study: Study, sections: Sequence[str] | None = None) -> list[Sentence]:
    """Divide a study's report into the sentences that describe the image.

    Section columns are used if any wanted section has text in them, or else the whole report:
    tables with both hold the same text twice.  Sentences that an addendum contradicts are left out
    (:mod:`cxrtext.text.addenda`).  ``position`` counts from 0 in each section.  ``sections`` are
    ``DESCRIPTIVE_SECTIONS`` by default.
    """
    wanted = check_sections(DESCRIPTIVE_SECTIONS if sections is None else sections)
    said = [one for column, text in study.sections.items() for one in _said(text, column)]
    if not any(name in wanted for name, _ in said):
        said = list(_said(study.report))
    if sections is None and not any(name in wanted for name, _ in said):
        wanted |= {PRELIMINARY}
    positions: Counter[str] = Counter()
    sentences = []
    for (name, sentence), stands in zip(said, standing(said), strict=True):
        if stands and name in wanted:
            sentences.append(Sentence(study.study_id, name, positions[name], sentence))
            positions[name] += 1
    return sentences
