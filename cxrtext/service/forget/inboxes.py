"""Inboxes (`cxrtext.pacs.inbox`, which stands above this layer): what is of somebody in them."""

import sqlite3
from pathlib import Path

from cxrtext.datasets.importing.reports.hl7 import MessageError, read_message
from cxrtext.errors import HeldError
from cxrtext.files import remove_file
from cxrtext.service.forget.caches import NO_CACHE, opened
from cxrtext.service.forget.subject import Subject

INBOX_TABLES = frozenset({"entries", "objects", "reports", "listeners"})
"""Tables by which its file is known."""

_OBJECTS = "objects"
"""Folder of what waits, beside the file."""

_BUSY_INBOX = "is in use: stop 'cxrtext listen', 'hl7 listen', 'follow' and 'inbox work' first"


def _of_inbox(
    path: Path, base: sqlite3.Connection, subject: Subject
) -> dict[str, list[tuple[object]]]:
    """Keys of the rows about them, by table."""
    ids = {*subject.patients, *subject.studies}
    numbers = _numbers(base, ids)

    def rows(query: str) -> list[tuple[object, ...]]:
        return [row for row in base.execute(query).fetchall() if ids & set(row[1:])]

    objects = rows("SELECT instance, patient, study FROM objects")
    reports = base.execute("SELECT report, patient, study, joined, accession FROM reports")
    messages = _messages(path, base, subject)
    return {
        "objects": [(row[0],) for row in objects],
        "reports": [(row[0],) for row in reports if (ids & set(row[1:4])) or row[4] in numbers],
        "entries": [(row[0],) for row in rows("SELECT entry, study FROM entries")]
        + [(entry,) for entry in messages],
        # Known by the number and the name of an image of the index.
        "pictures": [
            (image,)
            for (image,) in base.execute("SELECT image FROM pictures")
            if image.partition(" ")[2] in subject.images
        ],
    }


def _numbers(base: sqlite3.Connection, ids: set[str]) -> set[str]:
    """By what a report may name them: ids, and the accession numbers of what was received."""
    objects = base.execute("SELECT accession, patient, study FROM objects")
    return {row[0] for row in objects if row[0] and ids & set(row[1:])} | ids


def _messages(path: Path, base: sqlite3.Connection, subject: Subject) -> dict[int, Path]:
    """The files of reports that wait and are about them, by entry."""
    found = {}
    numbers = _numbers(base, {*subject.patients, *subject.studies})
    bare = {patient.partition(":")[2] for patient in subject.patients}
    for entry, file, charset in base.execute(
        "SELECT entry, file, charset FROM entries WHERE what = 'message' AND file IS NOT NULL"
    ).fetchall():
        message = path.parent / _OBJECTS / file
        try:
            said = read_message(message.read_bytes(), "", charset)
        except (MessageError, OSError):
            continue
        if said is not None and (
            {said.study, said.accession, said.patient} & numbers - {""}
            or (":" not in said.patient and said.patient in bare - {""})
        ):
            found[entry] = message
    return found


def count_inbox(path: Path, subject: Subject) -> int:
    """How many rows of an inbox are about them."""
    with opened(path, mend=NO_CACHE) as base:
        return sum(map(len, _of_inbox(path, base, subject).values()))


def forget_inbox(path: Path, subject: Subject) -> None:
    """Take them out; who receives or works must be stopped, so that no byte stays in a journal.

    Raises:
        HeldError: Another process has the inbox open.
        WorkError: It is damaged.
    """
    keys = {"objects": "instance", "reports": "report", "entries": "entry", "pictures": "image"}
    try:
        with opened(path, write=True, mend=NO_CACHE) as base:
            about = _of_inbox(path, base, subject)
            for file in _messages(path, base, subject).values():
                remove_file(file)
            for table, rows in about.items():
                base.executemany(f"DELETE FROM {table} WHERE {keys[table]} = ?", rows)  # noqa: S608
    except HeldError:
        raise HeldError(f"{path}: {_BUSY_INBOX}, then run the command again") from None
