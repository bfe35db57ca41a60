"""What is wrong with reports: counted, never quoted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, starmap
from pathlib import Path
from typing import Any, NamedTuple

from cxrtext.datasets.checking.problems import Problems
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.records import LeftOut, Study, open_reports
from cxrtext.text import split_sections, study_sentences
from cxrtext.text.finding_words import affirmed_findings

CHUNK = 64
FEW = 1000  # up to so many reports are read in this process


class TextFacts(NamedTuple):
    study: str
    row: int
    words: int  # words in all its sections
    sentences: int  # sentences that describe the image
    sections: Sequence[str]  # sections that hold text
    findings: Sequence[str]  # that the sentences affirm


@dataclass(slots=True)
class ReportFacts:
    studies: dict[str, int] = field(default_factory=dict)  # every study, and its row
    words: list[int] = field(default_factory=list)  # words of each report that has text
    sentences: list[int] = field(default_factory=list)  # sentences of each report that has text
    sections: Counter[str] = field(default_factory=Counter)  # reports with text in each section
    positives: dict[str, set[str]] = field(default_factory=dict)  # studies by what they affirm


def describe_work(studies: list[dict[str, Any]], _: bytes) -> tuple[list[TextFacts], bytes]:
    """Count what stands in some reports, in a process of its own."""
    return [_describe(Study(**study)) for study in studies], b""


def _describe(study: Study) -> TextFacts:
    texts = [text for text in (study.report, *study.sections.values()) if text.strip()]
    words = " ".join(texts).split()
    sections = {name for name, text in study.sections.items() if text.strip()}
    if study.report.strip():
        sections |= {name for name, _ in split_sections(study.report)}
    said = [one.sentence for one in study_sentences(study)] if words else []
    return TextFacts(
        study=study.study_id,
        row=study.row,
        words=len(words),
        sentences=len(said),
        sections=sorted(sections),
        findings=sorted(affirmed_findings(said)),
    )


def _chunks(
    reports: Iterable[Study | LeftOut], problems: Problems, update: Callable[[int, int], None]
) -> Iterator[list[Study]]:
    """Studies in groups; bad rows are noted on the way."""
    total = sum(1 for _ in reports)  # dividing texts into sentences takes far longer
    items, number = iter(reports), 0
    while group := list(islice(items, CHUNK)):
        number += len(group)
        update(number, total)
        for item in group:
            if isinstance(item, LeftOut):
                problems.add("row-wrong", f"reports {item.where}: {item.why}")
        yield [item for item in group if isinstance(item, Study)]


def check_reports(
    path: Path, problems: Problems, workers: int, update: Callable[[int, int], None]
) -> ReportFacts | None:
    """Note what is wrong with reports; return what was counted, unless they are unreadable."""
    facts = ReportFacts()
    try:
        for found in _described(_chunks(open_reports(path), problems, update), workers):
            if isinstance(found, str):
                problems.add("row-wrong", f"reports {found}")
                continue
            for text in found:
                _note(text, facts, problems)
    except DataError as error:
        problems.add("table-unreadable", str(error))
        return None
    return facts


def _described(groups: Iterator[list[Study]], workers: int) -> Iterator[list[TextFacts] | str]:
    """What stands in groups of reports; of one that cannot be read the row and the reason."""
    for group in islice(groups, FEW // CHUNK):
        yield list(map(_describe, group))
    tasks = ([asdict(study) for study in group] for group in groups)
    for task, answer in answers(describe_work, tasks, workers):
        if not isinstance(answer, ProcessLost):
            yield list(starmap(TextFacts, answer[0]))
            continue
        # One report of the group is to blame: tried one by one, only it is lost.
        for (study,), single in answers(describe_work, ([study] for study in task), 1):
            if isinstance(single, ProcessLost):
                yield f"row {study['row']}: {single.fault.format('read')}"
            else:
                yield list(starmap(TextFacts, single[0]))


def _note(text: TextFacts, facts: ReportFacts, problems: Problems) -> None:
    facts.studies[text.study] = text.row
    facts.sections.update(text.sections)
    for finding in text.findings:
        facts.positives.setdefault(finding, set()).add(text.study)
    if not text.sentences:
        problems.add("report-without-sentence", f"row {text.row}")
    if text.words:
        facts.words.append(text.words)
        facts.sentences.append(text.sentences)


def sections_table(facts: ReportFacts) -> FactTable:
    total = len(facts.studies)
    rows = [
        (name, str(count), str(total - count), f"{100 * count / total:.0f} %")
        for name, count in facts.sections.most_common()
    ]
    return FactTable("Sections of the reports", ("section", "with text", "empty", "share"), rows)
