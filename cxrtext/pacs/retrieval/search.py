"""All studies of some days, from peers that cut their answers off without a word.

A peer may cap a page at 100 or 1,000 rows, ignore ``offset``, or page wrongly with a filter that
it computes.  So days that are answered with many rows are asked for again by halves, and a single
day by halves of its hours.  Pages are the last resort.
"""

from dataclasses import replace
from datetime import date, timedelta

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.query import Question, day_of

DAY_S = 86_400
SHORTEST_S = 60  # hours are halved down to a minute
MOST_ROWS = 20_000  # that are paged through

Rows = dict[str, Described]
"""Studies by UID."""


def search(source: DicomWeb, question: Question) -> tuple[Rows, bool]:
    """The studies that a question is about, and whether the peer gave all that it has."""
    found: Rows = {}
    complete = _complete(source, question, *_ask(source, question, found), found)
    return found, complete


def _ask(source: DicomWeb, question: Question, found: Rows) -> tuple[Rows, bool]:
    """An answer, and whether it may be cut off; its studies are put to those found."""
    rows, full = source.studies(question)
    first, _, last = question.day.partition("-")
    for uid, row in rows.items():
        day = day_of(row)
        if is_uid(uid) and (not (first and day) or first <= day <= (last or first)):
            found.setdefault(uid, row)
    return rows, full


def _complete(source: DicomWeb, question: Question, rows: Rows, full: bool, found: Rows) -> bool:
    """Ask on for what an answer may lack; whether nothing does."""
    if not full:
        return True
    halves = _halves(question)
    answers = [(half, *_ask(source, half, found)) for half in halves]
    # Equal ones are of a peer that does not look at the time.
    if not halves or all(part.keys() == rows.keys() for _, part, _ in answers):
        return _page(source, question, len(rows), found)
    complete = [_complete(source, *one, found) for one in answers]
    if halves[0].times is not None and question.times is None:
        _page(source, question, len(rows), found)  # studies without a time are in no half
    return all(complete)


def _halves(question: Question) -> list[Question]:
    """The halves of a question's days, or of a day's hours; none of a minute, or of any day."""
    begin, _, end = question.day.partition("-")
    if end and end != begin:
        first, last = date.fromisoformat(begin), date.fromisoformat(end)
        middle = first + (last - first) // 2
        spans = (first, middle), (middle + timedelta(days=1), last)
        return [replace(question, day=days(*span)) for span in spans]
    start, stop = question.times or (0, DAY_S - 1)
    if not begin or stop - start < SHORTEST_S:
        return []
    at = (start + stop) // 2
    return [replace(question, times=times) for times in ((start, at), (at + 1, stop))]


def days(first: date, last: date) -> str:
    return f"{first:%Y%m%d}-{last:%Y%m%d}" if first != last else f"{first:%Y%m%d}"


def _page(source: DicomWeb, question: Question, offset: int, found: Rows) -> bool:
    """Ask for further pages while they bring anything new; whether they came to an end.

    A peer may ignore ``offset``: then nothing new comes.
    """
    while offset < MOST_ROWS:
        before = len(found)
        rows, full = _ask(source, replace(question, offset=offset), found)
        if not rows or (len(found) > before and not full):
            return True
        if len(found) == before:
            return False
        offset += len(rows)
    return False
