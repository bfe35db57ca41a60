"""The sentences of a corpus of reports, in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Sentence, open_source
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.text import check_sections, study_sentences


@dataclass(frozen=True, slots=True)
class Corpus:
    """The sentences of a corpus of reports, by study."""

    # The sentences of each study, in order of the source; a study may have none.  In a source of
    # sentences, each one is a study of its own unless its study is named.
    studies: list[list[Sentence]]
    rejected: int = 0  # rows or files that could not be read and were left out

    @property
    def sentences(self) -> list[Sentence]:
        return [sentence for study in self.studies for sentence in study]

    @property
    def with_text(self) -> int:
        return sum(map(bool, self.studies))


def read_corpus(
    reports: Path | str, sections: Sequence[str] | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
) -> Corpus:  # fmt: skip
    """Read reports from a table or a folder of text files, and divide each into sentences."""
    if sections is not None:
        check_sections(sections)
    studies: dict[str, list[Sentence]] = {}
    rejected = 0
    for item in open_source(reports, columns):
        if isinstance(item, LeftOut):
            rejected += 1
        elif isinstance(item, Sentence):
            studies.setdefault(item.study_id, []).append(item)
        else:
            studies[item.study_id] = study_sentences(item, sections)
    corpus = Corpus(list(studies.values()), rejected)
    if not corpus.with_text:
        raise DataError(
            f"{reports}: no report has text in the chosen sections (reports read: "
            f"{len(corpus.studies)}); check the columns, or choose other sections"
        )
    return corpus
