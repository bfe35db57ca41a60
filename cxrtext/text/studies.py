"""The sentences of a study that describe its image."""

from collections import Counter
from collections.abc import Iterator, Sequence

from cxrtext.errors import ConfigError
from cxrtext.records import Sentence, Study
from cxrtext.text.sections import HEADLESS, SECTIONS, split_sections
from cxrtext.text.sentences import split_sentences

DESCRIPTIVE_SECTIONS = ("findings", "impression", "conclusion", "findings and impression", HEADLESS)
"""Sections that say what is in the image, and so are scored and trained on."""


def check_sections(sections: Sequence[str]) -> frozenset[str]:
    """Return section names as a set, in lower case (ConfigError for a name of no section)."""
    names = frozenset(" ".join(name.lower().split()) for name in sections)
    unknown = sorted(names - set(SECTIONS))
    if unknown:
        raise ConfigError(f"section '{unknown[0]}' is not one of: {', '.join(SECTIONS)}")
    return names


def _texts(study: Study) -> Iterator[tuple[str, str]]:
    """Sections from the columns; text before any heading in a column is of that column."""
    for column, text in study.sections.items():
        for section, body in split_sections(text):
            yield (column if section == HEADLESS else section), body


def study_sentences(study: Study, sections: Sequence[str] | None = None) -> list[Sentence]:
    """Divide a study's report into the sentences that describe the image.

    Where the table has columns of sections, they are used, and the whole report only when none of
    the wanted sections has text in them: tables that hold both hold the same text twice.
    ``position`` counts from 0 in each section.  ``sections`` are ``DESCRIPTIVE_SECTIONS`` by
    default.
    """
    wanted = check_sections(DESCRIPTIVE_SECTIONS if sections is None else sections)
    texts = [(name, body) for name, body in _texts(study) if name in wanted]
    if not texts:
        texts = [(name, body) for name, body in split_sections(study.report) if name in wanted]
    positions: Counter[str] = Counter()
    found = []
    for name, body in texts:
        for sentence in split_sentences(body):
            found.append(Sentence(study.study_id, name, positions[name], sentence))
            positions[name] += 1
    return found
