"""The labels of a table or folder of reports, with the sentences they come from."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.language.corpus import read_corpus
from cxrtext.records import Sentence, write_table
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.text.labelling import FINDINGS, NO_FINDING, label_report, understands
from cxrtext.text.rules import language_of

UNKNOWN = "unknown"  # the language of sentences without rules
FEW = 0.01
COLUMNS = (NO_FINDING, *(name for name in FINDINGS if name != NO_FINDING))


@dataclass(frozen=True, slots=True)
class ReportLabels:
    """What was labelled, in counts."""

    studies: int
    rejected: int  # rows or files that could not be read and were left out
    values: dict[str, Counter[int | None]]  # studies with each value, by finding
    languages: Counter[str]  # sentences by language
    understood: float  # the share of sentences that the rules understand
    by_language: dict[str, float]  # the same for each language; "unknown" for others
    by_section: dict[str, float]
    evidence: Path


def label_reports(
    reports: Path | str,
    out: Path,
    sections: Sequence[str] | None = None,
    *,
    silence: int | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
) -> ReportLabels:
    """Write a table of labels, and beside it the sentence behind each (``.evidence``).

    ``silence`` is the value of a finding that a report does not mention.  ``columns`` gives the
    table's own headers; the others are guessed.
    """
    corpus = read_corpus(reports, sections, columns)
    studies = {some[0].study_id: [one.sentence for one in some] for some in corpus.studies if some}
    labels = {study: label_report(sentences) for study, sentences in studies.items()}
    evidence = out.with_name(f"{out.stem}.evidence{out.suffix}")
    behind = [
        {"study_id": study, "finding": name, **labels[study][name]._asdict()}
        for study in labels
        for name in COLUMNS
        if labels[study][name].value is not None
    ]
    write_table(evidence, ("study_id", "finding", "value", "side", "sentence"), behind)
    rows = (
        {"study_id": study}
        | {n: silence if one[n].value is None else one[n].value for n in COLUMNS}
        for study, one in labels.items()
    )
    write_table(out, ("study_id", *COLUMNS), rows)
    understood = Understood()
    understood.add(corpus.sentences)
    return ReportLabels(
        len(labels),
        corpus.rejected,
        {name: Counter(one[name].value for one in labels.values()) for name in COLUMNS},
        Counter(language_of(one.sentence) or UNKNOWN for one in corpus.sentences),
        understood.share,
        understood.by_language,
        understood.by_section,
        evidence,
    )


class Understood:
    """The share of sentences that the rules understand: in all, by language and by section.

    A language with a share of sentences below :data:`FEW` is not listed, because short sentences
    are sometimes taken for another language.
    """

    def __init__(self) -> None:
        self._languages: dict[str, list[bool]] = {}
        self._sections: dict[str, list[bool]] = {}

    def add(self, sentences: Iterable[Sentence]) -> None:
        for one in sentences:
            is_read = understands(one.sentence)
            language = language_of(one.sentence) or UNKNOWN
            self._languages.setdefault(language, []).append(is_read)
            self._sections.setdefault(one.section, []).append(is_read)

    @property
    def share(self) -> float:
        every = [is_read for some in self._languages.values() for is_read in some]
        return sum(every) / max(1, len(every))

    @property
    def by_language(self) -> dict[str, float]:
        least = FEW * sum(map(len, self._languages.values()))
        listed = {name: some for name, some in self._languages.items() if len(some) >= least}
        return {name: sum(some) / len(some) for name, some in listed.items()}

    @property
    def by_section(self) -> dict[str, float]:
        return {name: sum(some) / len(some) for name, some in self._sections.items()}
