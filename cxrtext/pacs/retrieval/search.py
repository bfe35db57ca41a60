"""Find all studies of some days, even from peers that silently cut off their answers.

A peer may cap a page at 100 or 1,000 rows, ignore ``offset``, or page wrongly with a computed
filter.  So if an answer has many rows, each half of its days is asked for again, and for a single
day each half of its hours.  Pages are the last resort.
"""

from dataclasses import replace
from datetime import date, timedelta

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.query import Question, day_of

DAY_S = 86_400
SHORTEST_S = 60  # spans of a day are halved down to a minute
MOST_ROWS = 20_000  # to page through

Rows = dict[str, Described]
"""Studies by UID."""


def search(source: DicomWeb, question: Question) -> tuple[Rows, bool]:
    """The studies that match a question, and whether the peer gave all of them."""
    found: Rows = {}
    complete = _complete(source, question, *_ask(source, question, found), found)
    return found, complete


def _ask(source: DicomWeb, question: Question, found: Rows) -> tuple[Rows, bool]:
    """An answer, and whether it may be cut off; its studies are added to those found."""
    rows, full = source.studies(question)
    first, _, last = question.day.partition("-")
    for uid, row in rows.items():
        day = day_of(row)
        if is_uid(uid) and (not (first and day) or first <= day <= (last or first)):
            found.setdefault(uid, row)
    return rows, full


def _complete(source: DicomWeb, question: Question, rows: Rows, full: bool, found: Rows) -> bool:
    """Ask for what an answer may be missing; True if nothing is missing then."""
    if not full:
        return True
    halves = _halves(question)
    answers = [(half, *_ask(source, half, found)) for half in halves]
    # Equal answers mean that the peer ignores the time.
    if not halves or all(part.keys() == rows.keys() for _, part, _ in answers):
        return _page(source, question, len(rows), found)
    complete = [_complete(source, *one, found) for one in answers]
    if halves[0].times is not None and question.times is None:
        _page(source, question, len(rows), found)  # studies without a time are in no half
    return all(complete)


def _halves(question: Question) -> list[Question]:
    """The halves of a question's days, or of a day's time; none for a minute or for any day."""
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
    """Ask for more pages while they bring something new; True if the last page came.

    If a peer ignores ``offset``, nothing new comes.
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
