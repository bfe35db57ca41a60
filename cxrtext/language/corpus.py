"""The sentences of a table of reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records import Sentence, read_reports
from cxrtext.text import study_sentences


@dataclass(frozen=True, slots=True)
class Corpus:
    """The sentences of a table of reports, by study.

    Args:
        studies: The sentences of each study, in order of the table; some are empty.
    """

    studies: list[list[Sentence]]

    @property
    def sentences(self) -> list[Sentence]:
        """All sentences, in order."""
        return [sentence for study in self.studies for sentence in study]

    @property
    def with_text(self) -> int:
        """Number of studies that have at least one sentence."""
        return sum(map(bool, self.studies))


def read_corpus(reports: Path, sections: Sequence[str] | None = None) -> Corpus:
    """Read a table of reports and divide every report into sentences.

    Raises:
        DataError: The table cannot be read, or no report has a sentence in the wanted sections.
        ConfigError: A section's name is unknown.
    """
    corpus = Corpus([study_sentences(study, sections) for study in read_reports(reports)])
    if not corpus.with_text:
        raise DataError(
            f"{reports}: none of the {len(corpus.studies)} reports has text in the sections "
            "wanted; look at its columns, or name other sections"
        )
    return corpus
