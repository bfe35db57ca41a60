"""What is wrong with reports: counted, never quoted."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from cxrtext.datasets.checking.problems import Kind, Problems, Severity
from cxrtext.datasets.checking.processes import Lost, answers
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError
from cxrtext.records import BadItem, Study, open_source
from cxrtext.records.text_source import Item
from cxrtext.text import split_sections, study_sentences

UNUSABLE = Kind(
    "reports-unusable",
    Severity.ERROR,
    "tables of reports that cannot be read",
    "do what the reason says",
)
BAD = Kind(
    "report-row",
    Severity.ERROR,
    "rows of the reports that cannot be read, or contradict another",
    "do what the reason says; such rows stop training and evaluation",
)
LOST = Kind(
    "report-unread",
    Severity.ERROR,
    "reports that could not be divided into sentences",
    "look at these rows; with less memory in use they may be read",
)
EMPTY = Kind(
    "report-empty",
    Severity.WARNING,
    "reports without text",
    "fill them or remove the rows; nothing is learnt from them",
)
NO_SENTENCE = Kind(
    "report-without-sentence",
    Severity.WARNING,
    "reports with text but no sentence that describes the image",
    "see whether their headings are known: only findings, impression and conclusion are used",
)
TINY = Kind(
    "report-short",
    Severity.NOTE,
    "reports of one or two words",
    "see whether their texts were cut off",
)
LONG = Kind(
    "report-long",
    Severity.WARNING,
    "reports of more than 1,500 words",
    "see whether several reports were joined into one",
)
EQUAL = Kind(
    "report-repeated",
    Severity.NOTE,
    "reports whose text equals that of another study",
    "normal for short normal reports; otherwise see whether texts were joined to wrong studies",
)
WITHOUT = Kind(
    "study-without-report",
    Severity.WARNING,
    "studies with an image but no report",
    "add their reports; without one an image serves for evaluation only",
)
NO_IMAGE = Kind(
    "report-without-study",
    Severity.NOTE,
    "reports of studies without an image",
    "normal for a table of all reports; otherwise see that both spell study_id alike",
)
NONE_JOINED = Kind(
    "no-report-joined",
    Severity.ERROR,
    "tables of reports in which no report belongs to an image",
    "see that study_id is spelt alike in the manifest and the reports",
)

CHUNK = 64
FEW = 1000
"""Up to so many reports are read in this process."""

_TINY, _LONG = 2, 1500


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What is noted of a report.

    Args:
        study: Its study.
        row: Its row.
        words: Words in all its sections.
        sentences: Sentences that describe the image.
        sections: Sections that hold text.
        digest: Of the text in small letters with single spaces, hexadecimal.
    """

    study: str
    row: int
    words: int
    sentences: int
    sections: tuple[str, ...]
    digest: str


@dataclass(slots=True)
class ReportFacts:
    """What was counted in all reports.

    Args:
        studies: Every study, and its row.
        words: Words of each report that has text.
        sentences: Sentences of each report that has text.
        sections: Reports with text in each section.
    """

    studies: dict[str, int] = field(default_factory=dict)
    words: list[int] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    sections: Counter[str] = field(default_factory=Counter)


def describe(studies: list[Study]) -> list[TextFacts]:
    """Count what stands in some reports."""
    return [_describe(study) for study in studies]


def describe_work(studies: list[dict[str, Any]], _: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """Do `describe` in a process of its own."""
    return [asdict(facts) for facts in describe([Study(**study) for study in studies])], b""


def _as_tasks(groups: Iterable[list[Study]]) -> Iterator[list[dict[str, Any]]]:
    for group in groups:
        yield [asdict(study) for study in group]


def _describe(study: Study) -> TextFacts:
    texts = [text for text in (study.report, *study.sections.values()) if text.strip()]
    words = " ".join(texts).split()
    sections = {name for name, text in study.sections.items() if text.strip()}
    if study.report.strip():
        sections |= {name for name, _ in split_sections(study.report)}
    digest = hashlib.blake2b(" ".join(words).lower().encode(errors="replace"), digest_size=8)
    return TextFacts(
        study=study.study_id,
        row=study.row,
        words=len(words),
        sentences=len(study_sentences(study)) if words else 0,
        sections=tuple(sorted(sections)),
        digest=digest.hexdigest(),
    )


def _chunks(
    items: Iterator[Item], total: int, problems: Problems, update: Callable[[int, int], None]
) -> Iterator[list[Study]]:
    """Studies in groups; bad rows are noted on the way."""
    number = 0
    while group := list(islice(items, CHUNK)):
        number += len(group)
        update(number, total)
        studies = []
        for item in group:
            if isinstance(item, BadItem):
                problems.add(BAD, f"{item.item}: {item.reason}")
            elif isinstance(item, Study):
                studies.append(item)
        if studies:
            yield studies


def check_reports(
    path: Path, problems: Problems, workers: int, update: Callable[[int, int], None]
) -> ReportFacts | None:
    """Read reports and note what is wrong with them.

    Args:
        path: A table or folder of reports.
        problems: What is wrong is added.
        workers: Processes for large tables.
        update: Called with the reports read, and how many there are.

    Returns:
        What was counted, or None where there are no reports to read.
    """
    facts = ReportFacts()
    first: dict[str, int] = {}
    try:
        source = open_source(path)
        if source.holds != "reports":
            problems.add(UNUSABLE, f"{path.name}: holds sentences, not reports")
            return None
        total = sum(1 for _ in source)  # dividing texts into sentences takes far longer
        groups = _chunks(iter(source), total, problems, update)
        for found in _described(groups, workers):
            if isinstance(found, list):
                for text in found:
                    _note(text, facts, first, problems)
            else:
                problems.add(LOST, found.reason)
    except DataError as error:
        problems.add(UNUSABLE, str(error))
        return None
    return facts


def _described(groups: Iterator[list[Study]], workers: int) -> Iterator[list[TextFacts] | Lost]:
    head = list(islice(groups, FEW // CHUNK))
    for group in head:
        yield describe(group)
    for group, answer in answers(describe_work, _as_tasks(groups), workers):
        if not isinstance(answer, Lost):
            yield _described_by(answer[0])
            continue
        # One report of the group is to blame: tried one by one, only it is lost.
        for (study,), single in answers(describe_work, ([study] for study in group), 1):
            if isinstance(single, Lost):
                yield Lost(f"row {study['row']}: {single.reason}", single.mend)
            else:
                yield _described_by(single[0])


def _described_by(answer: list[dict[str, Any]]) -> list[TextFacts]:
    return [TextFacts(**{**facts, "sections": tuple(facts["sections"])}) for facts in answer]


def _note(text: TextFacts, facts: ReportFacts, first: dict[str, int], problems: Problems) -> None:
    where = f"row {text.row}"
    facts.studies[text.study] = text.row
    facts.sections.update(text.sections)
    if not text.words:
        problems.add(EMPTY, where)
        return
    facts.words.append(text.words)
    facts.sentences.append(text.sentences)
    if not text.sentences:
        problems.add(NO_SENTENCE, where)
    if text.words <= _TINY:
        problems.add(TINY, where)
    if text.words > _LONG:
        problems.add(LONG, f"{where} ({text.words} words)")
    other = first.setdefault(text.digest, text.row)
    if other != text.row:
        problems.add(EQUAL, f"{where} = row {other}")


def join_reports(studies: Mapping[str, int], facts: ReportFacts, problems: Problems) -> None:
    """Note studies without a report and reports without a study.

    Args:
        studies: The studies of the images, and the first row of each.
        facts: What was counted in the reports.
        problems: What is wrong is added.
    """
    if facts.studies and studies and studies.keys().isdisjoint(facts.studies):
        problems.add(NONE_JOINED, f"{len(facts.studies)} reports, {len(studies)} studies")
        return
    for study, row in studies.items():
        if study not in facts.studies:
            problems.add(WITHOUT, f"row {row} of the manifest")
    for study, row in facts.studies.items():
        if study not in studies:
            problems.add(NO_IMAGE, f"row {row} of the reports")


def sections_table(facts: ReportFacts) -> FactTable:
    """Return how many reports have text in each section."""
    total = len(facts.studies)
    rows = [
        (name, str(count), str(total - count), f"{100 * count / total:.0f} %")
        for name, count in facts.sections.most_common()
    ]
    return FactTable("Sections of the reports", ("section", "with text", "empty", "share"), rows)
