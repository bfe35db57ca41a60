"""The labels of a table or folder of reports, with the sentences that they were read off."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrtext.language.corpus import read_corpus
from cxrtext.records import write_table
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.text.labelling import FINDINGS, NO_FINDING, covered, label_report
from cxrtext.text.rules import language_of

COLUMNS = (NO_FINDING, *(name for name in FINDINGS if name != NO_FINDING))


@dataclass(frozen=True, slots=True)
class ReportLabels:
    """What was read, in counts."""

    studies: int
    rejected: int  # rows or files that could not be read, and were left out
    values: dict[str, Counter[int | None]]  # by finding, studies with each value
    languages: Counter[str]  # sentences
    covered: float  # the share of sentences that the rules read
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

    ``silence`` is what stands for a finding that a report does not mention, ``columns`` what the
    table calls its columns; the others are guessed.
    """
    corpus = read_corpus(reports, sections, columns)
    studies = {
        (some[0].study_id): [one.sentence for one in some] for some in corpus.studies if some
    }
    labels = {study: label_report(sentences) for study, sentences in studies.items()}
    evidence = out.with_name(f"{out.stem}.evidence{out.suffix}")
    found = [
        {"study_id": study, "finding": name, **labels[study][name]._asdict()}
        for study in labels
        for name in COLUMNS
        if labels[study][name].value is not None
    ]
    write_table(evidence, ("study_id", "finding", "value", "side", "sentence"), found)
    rows = (
        {"study_id": study}
        | {n: silence if one[n].value is None else one[n].value for n in COLUMNS}
        for study, one in labels.items()
    )
    write_table(out, ("study_id", *COLUMNS), rows)
    sentences = [sentence for some in studies.values() for sentence in some]
    return ReportLabels(
        len(labels),
        corpus.rejected,
        {name: Counter(one[name].value for one in labels.values()) for name in COLUMNS},
        Counter(map(language_of, sentences)),
        covered(sentences),
        evidence,
    )
