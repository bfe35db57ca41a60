"""Inboxes, and states of pull and follow (`cxrtext.pacs`, above this layer): whom they know."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cxrtext.datasets.admission.ids import Ids
from cxrtext.datasets.importing.reports.hl7 import (
    CHARACTER_SETS,
    MessageError,
    read_message,
)
from cxrtext.errors import HeldError
from cxrtext.files import remove_file
from cxrtext.service.forget.caches import NO_CACHE, opened
from cxrtext.service.forget.subject import SHORTEST, Subject

INBOX_TABLES = frozenset({"entries", "objects", "reports", "tallies"})
"""Tables by which its file is known."""

PEER_TABLES = frozenset({"facts", "studies", "instances"})
"""Tables by which what is known of a pulled or followed peer is known."""

OBJECTS, _BAD = "objects", "bad"
"""Folders beside the file: of what waits, and of messages that could not be read."""

_BUSY = "is in use: stop 'cxrtext gateway run' first"


def _of_inbox(
    path: Path, base: sqlite3.Connection, subject: Subject, ids_of: Ids
) -> dict[str, list[tuple[object]]]:
    ids = subject.patients | subject.studies
    numbers = _numbers(base, subject)

    def theirs(query: str) -> list[tuple[object]]:
        return [(row[0],) for row in base.execute(query) if ids & set(row[1:])]

    reports = base.execute("SELECT report, patient, study, joined, accession FROM reports")
    waiting = _waiting(path, base, subject, ids_of)
    return {
        "objects": theirs("SELECT instance, patient, study FROM objects"),
        "reports": [(row[0],) for row in reports if (ids & set(row[1:4])) or row[4] in numbers],
        "entries": [(entry,) for entry in waiting],
        # Objects of others, such as of another patient under a UID of theirs.
        "held": [
            one for one in theirs("SELECT entry, study FROM entries") if one[0] not in waiting
        ],
        "merges": [
            (old,)
            for old, new in (base.execute("SELECT old, new FROM merges") if _merges(base) else ())
            if subject.patients & {old, new}
        ],
        # Known by the number and the name of an image of the index.
        "pictures": [
            (image,)
            for (image,) in base.execute("SELECT image FROM pictures")
            if image.partition(" ")[2] in subject.images
        ],
    }


def _merges(base: sqlite3.Connection) -> bool:
    """Whether it knows merged patients, as an inbox of before 0.1 did not."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'merges'"
    return base.execute(query).fetchone() is not None


def _numbers(base: sqlite3.Connection, subject: Subject) -> set[str]:
    """By what a report may name them: ids, and the accession numbers of what was received."""
    ids = subject.patients | subject.studies
    objects = base.execute("SELECT accession, patient, study FROM objects")
    return {row[0] for row in objects if row[0] and ids & set(row[1:])} | ids


def _waiting(
    path: Path, base: sqlite3.Connection, subject: Subject, ids_of: Ids
) -> dict[int, Path]:
    """The files of what waits, is held, or failed, and is about them, by entry."""
    found = {}
    numbers = _numbers(base, subject)
    for entry, what, file, charset in base.execute(
        "SELECT entry, what, file, charset FROM entries WHERE file IS NOT NULL"
    ).fetchall():
        waiting = path.parent / OBJECTS / file
        if what == "object":  # known by its header, also where it is gone since
            if str(waiting) in subject.files:
                found[entry] = waiting
            continue
        if not waiting.is_file():
            continue
        data = waiting.read_bytes()
        if (
            _says(data, charset, subject, numbers)
            if what == "message"
            else _deletes(data, subject, ids_of)
        ):
            found[entry] = waiting
    return found


def _says(data: bytes, charset: str, subject: Subject, numbers: set[str]) -> bool:
    bare = subject.bare
    try:
        said = read_message(data, "", charset)
    except MessageError:
        return _names(data, numbers | bare)
    if not said:  # such as of a merge
        return _names(data, numbers | bare)
    return any(
        {one.study, one.accession, one.patient} & numbers - {""}
        or (":" not in one.patient and one.patient in bare)
        for one in said
    )


def _names(data: bytes, names: set[str]) -> bool:
    """Whether a message that cannot be read names them.

    An id is a whole part of any field; a short one, which may stand for anything, of PID-3.
    """
    marks = re.sub(rb"\w", b"", data[3:8]) if data.startswith(b"MSH") else b""
    divides = re.compile(b"[" + re.escape(marks + b"|^~&\\") + rb"\r\n\x0b\x1c]")
    lines = [line.strip().split(marks[:1] or b"|") for line in re.split(rb"[\r\n]", data)]
    own = b"|".join(line[3] for line in lines if line[0] == b"PID" and len(line) > 3)
    parts, own_parts = ({part.strip() for part in divides.split(one)} for one in (data, own))
    return any(
        not _spelled(name).isdisjoint(parts if len(name) >= SHORTEST else own_parts)
        for name in names
    )


def _spelled(name: str) -> set[bytes]:
    """A text in every character set that a message may have."""
    return {name.encode(codec, "xmlcharrefreplace") for codec in CHARACTER_SETS.values()}


def _deletes(data: bytes, subject: Subject, ids_of: Ids) -> bool:
    try:
        said = json.loads(data)
        study, instance = str(said.get("study", "")), str(said.get("instance", ""))
    except (ValueError, AttributeError):
        return False
    return _is_theirs(study, instance, subject, ids_of)


def _is_theirs(study: str, instance: str, subject: Subject, ids_of: Ids) -> bool:
    """Whether UIDs of headers are theirs; hashed, too, as the index may have them."""
    return bool(
        {study, ids_of.of("study", study)} & subject.studies - {""}
        or {instance, ids_of.of("instance", instance)} & subject.images - {""}
    )


def _bad(path: Path, base: sqlite3.Connection, subject: Subject) -> Iterator[Path]:
    names = _numbers(base, subject) | subject.bare
    for message in sorted((path.parent / _BAD).glob("*")):
        if message.is_file() and _names(message.read_bytes(), names):
            yield message


def count_inbox(path: Path, subject: Subject, ids_of: Ids) -> int:
    """How many rows and refused messages of an inbox are about them."""
    with opened(path, mend=NO_CACHE) as base:
        rows = sum(map(len, _of_inbox(path, base, subject, ids_of).values()))
        return rows + len(list(_bad(path, base, subject)))


def forget_inbox(path: Path, subject: Subject, ids_of: Ids) -> None:
    """Take them out; who receives or works must be stopped, so that no byte stays in a journal."""
    keys = {
        "objects": "instance",
        "reports": "report",
        "entries": "entry",
        "pictures": "image",
        "merges": "old",
    }
    with _stopped(path) as base:
        about = _of_inbox(path, base, subject, ids_of)
        for file in [*_waiting(path, base, subject, ids_of).values(), *_bad(path, base, subject)]:
            remove_file(file)
        base.executemany(  # they count as received
            "INSERT INTO tallies SELECT what, 'forgotten', 1 FROM entries WHERE entry = ? AND "
            "state <> 'done' ON CONFLICT DO UPDATE SET number = number + 1",
            about["entries"],
        )
        base.executemany(  # they are looked at again
            "UPDATE entries SET state = 'waiting', attempts = 0, study = NULL WHERE entry = ?",
            about.pop("held"),
        )
        for table, rows in about.items():
            if rows:  # of earlier releases a table may lack
                base.executemany(f"DELETE FROM {table} WHERE {keys[table]} = ?", rows)  # noqa: S608


# --- what is known of a peer ---


def _of_peer(base: sqlite3.Connection, subject: Subject, ids_of: Ids) -> list[tuple[str, str]]:
    """Their studies and instances; of a row that names one of the two, the other is ""."""
    queries = [
        f"SELECT {columns} FROM {table}"  # noqa: S608 - our names
        for table, (columns, _) in _PEER_ROWS.items()
        if table in _tables(base)
    ]
    return [
        (study, instance)
        for study, instance in base.execute(" UNION ".join(queries))
        if _is_theirs(study, instance, subject, ids_of)
    ]


def _tables(base: sqlite3.Connection) -> set[str]:
    return {name for (name,) in base.execute("SELECT name FROM sqlite_master")}


_PEER_ROWS = {
    "studies": ("study, ''", "study"),
    "pending": ("study, ''", "study"),
    "instances": ("study, instance", "instance"),
    "renewed": ("'', instance", "instance"),
}
"""Of each table the study and the instance that a row names, and by which of them it goes."""


def learn_peer(path: Path, subject: Subject, ids_of: Ids) -> None:
    """Learn what a peer called their studies and images, those that never entered, too."""
    with opened(path, mend=NO_CACHE) as base:
        for study, instance in _of_peer(base, subject, ids_of):
            subject.studies.update({study} - {""})
            subject.images.update({instance} - {""})


def count_peer(path: Path, subject: Subject, ids_of: Ids) -> int:
    """How many studies and objects are known of a peer that are theirs."""
    with opened(path, mend=NO_CACHE) as base:
        return len(_of_peer(base, subject, ids_of))


def forget_peer(path: Path, subject: Subject, ids_of: Ids) -> None:
    """Take them out; all else stays known, so that deletions at the peer are found further on."""
    with _stopped(path) as base:
        theirs, there = _of_peer(base, subject, ids_of), _tables(base)
        keys = {
            "study": [(study,) for study, _ in theirs if study],
            "instance": [(instance,) for _, instance in theirs if instance],
        }
        for table, (_, key) in _PEER_ROWS.items():
            if table in there:
                base.executemany(f"DELETE FROM {table} WHERE {key} = ?", keys[key])  # noqa: S608
        # Accession numbers are asked for anew in any case, and name patients.
        if "questions" in there:
            base.execute("DELETE FROM questions WHERE kind = 'accession'")


@contextmanager
def _stopped(path: Path) -> Iterator[sqlite3.Connection]:
    """A state that nobody works with (HeldError)."""
    try:
        with opened(path, write=True, mend=NO_CACHE) as base:
            yield base
    except HeldError:
        raise HeldError(f"{path}: {_BUSY}, then run the command again") from None
