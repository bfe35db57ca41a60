"""All studies of some days, from peers that cut their answers off without a word.

A peer may cap a page at 100 or 1,000 rows, ignore ``offset``, or page wrongly with a filter that
it computes.  So days that are answered with many rows are asked for again by halves, and a single
day by halves of its hours, until no half adds anything to the whole.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.query import UNCUT, Question, Studies, day_of

DAY_S = 86_400
SHORTEST_S = 60  # hours are halved down to a minute
MOST_ROWS = 20_000  # that are paged through


@dataclass
class Search:
    studies: dict[str, Described] = field(default_factory=dict)  # by UID
    cut: bool = False  # the peer has more than it can be brought to give


def search(source: DicomWeb, question: Question) -> Search:
    found = Search()
    first = _ask(source, question, found)
    if not _may_be_cut(first):
        return found
    if not question.day:
        found.cut |= not _page(source, question, first, found)
    elif not _split(source, question, first, found):
        _page(source, question, first, found)  # studies without a time are in no half
    return found


def _may_be_cut(answer: Studies) -> bool:
    return answer.more or len(answer.rows) >= UNCUT


def _uids(*answers: Studies) -> set[str]:
    return {row.first("StudyInstanceUID") for answer in answers for row in answer.rows}


def _ask(source: DicomWeb, question: Question, found: Search) -> Studies:
    answer = source.studies(question)
    for row in answer.rows:
        uid = row.first("StudyInstanceUID")
        if is_uid(uid) and _asked_for(question, day_of(row)):
            found.studies.setdefault(uid, row)
    return answer


def _asked_for(question: Question, day: str) -> bool:
    first, _, last = question.day.partition("-")
    return not (first and day) or first <= day <= (last or first)


def _halves(question: Question) -> list[Question]:
    """The halves of a question's days, or of a day's hours; none of a minute."""
    begin, _, end = question.day.partition("-")
    if end and end != begin:
        first, last = date.fromisoformat(begin), date.fromisoformat(end)
        middle = first + (last - first) // 2
        spans = (first, middle), (middle + timedelta(days=1), last)
        return [replace(question, day=days(*span)) for span in spans]
    start, stop = question.times or (0, DAY_S - 1)
    if stop - start < SHORTEST_S:
        return []
    at = (start + stop) // 2
    return [replace(question, times=times) for times in ((start, at), (at + 1, stop))]


def days(first: date, last: date) -> str:
    return f"{first:%Y%m%d}-{last:%Y%m%d}" if first != last else f"{first:%Y%m%d}"


def _split(source: DicomWeb, question: Question, whole: Studies, found: Search) -> bool:
    """Ask for halves of what gave many rows; whether they have nothing that it has not."""
    halves = _halves(question)
    if not halves:
        found.cut |= not _page(source, question, whole, found)
        return False
    answers = [_ask(source, half, found) for half in halves]
    if all(_uids(answer) == _uids(whole) for answer in answers):  # it does not look at the time
        found.cut |= not _page(source, question, whole, found)
        return False
    cut = whole.more or any(map(_may_be_cut, answers))
    if not cut and _uids(*answers) <= _uids(whole):
        return True
    for half, answer in zip(halves, answers, strict=True):
        if _may_be_cut(answer):
            _split(source, half, answer, found)
    return False


def _page(source: DicomWeb, question: Question, first: Studies, found: Search) -> bool:
    """Ask for further pages while they bring anything new; whether the last was a short one.

    A peer may ignore ``offset``: then nothing new comes.
    """
    offset = longest = len(first.rows)
    while offset < MOST_ROWS:
        before = len(found.studies)
        page = _ask(source, replace(question, offset=offset), found)
        if not page.rows:
            return True
        if len(found.studies) == before:
            return False
        offset += len(page.rows)
        if len(page.rows) < longest and not page.more:
            return True
    return False


def merged(searches: Iterable[Search]) -> Search:
    found = Search()
    for one in searches:
        found.studies = {**one.studies, **found.studies}
        found.cut |= one.cut
    return found
