"""SQLite files: remove rows about somebody from them; caches are removed whole.

A gateway's files are recognized by their tables, as this layer may not import `cxrtext.pacs`.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cxrtext.errors import CxrTextError, HeldError, WorkError
from cxrtext.files import only_one, remove_file
from cxrtext.files.sqlite import open_database, sqlite_errors
from cxrtext.images import cache_store
from cxrtext.service.forget.messages import deletes, names, says
from cxrtext.service.forget.subject import Subject

BUSY_SECONDS = 120.0
CACHE = "remove the file: it is a cache"
NO_CACHE = "it is not a cache: restore it from a copy"
"""What to do about a damaged file."""

DECODED, OF_ENCODER = "decoded images", "features of a locked encoder"
CACHES = {
    "sentence scores": frozenset({"model", "score"}),
    "facts of check-data": frozenset({"facts"}),
}
"""Caches in SQLite files, and the tables that identify them."""

FileOf = tuple[Path, int | None]
"""A file, and the number of the row that names it, if one does."""


class Rows(NamedTuple):
    """Rows about somebody, and what to do with them."""

    table: str
    condition: str  # in SQL, with the functions of `_opened_about`
    change: str = "DELETE FROM {table} WHERE {condition}"
    counted: bool = True


@dataclass(frozen=True)
class Store:
    """A kind of file that holds rows about different people."""

    what: str
    known_by: frozenset[str]  # its tables
    rows: tuple[Rows, ...]  # in the order to remove them
    # files beside it, to remove first
    files: Callable[[Path, sqlite3.Connection, Subject], Iterator[FileOf]] = lambda *_: iter(())
    of_gateway: bool = False  # the gateway must be stopped, so that no byte stays in a journal


# --- an inbox ---

OBJECTS, BAD = "objects", "bad"
"""Folders beside an inbox: for what waits, and for messages that could not be read."""

_OBJECT = "known(patient) OR known(study)"
_ACCESSIONS = f"SELECT accession FROM objects WHERE accession <> '' AND ({_OBJECT})"  # noqa: S608


def _inbox_files(path: Path, base: sqlite3.Connection, subject: Subject) -> Iterator[FileOf]:
    """Files that wait, are held or failed and are about them, and refused messages naming them."""
    accessions = {accession for (accession,) in base.execute(_ACCESSIONS)}
    numbers = subject.patients | subject.studies | accessions
    for entry, what, file, charset in base.execute(
        "SELECT entry, what, file, charset FROM entries WHERE file IS NOT NULL"
    ).fetchall():
        waiting = path.parent / OBJECTS / file
        if what == "object":  # its header was read before, even if it is gone now
            theirs = str(waiting) in subject.files
        elif not waiting.is_file():
            continue
        elif what == "message":
            theirs = says(waiting.read_bytes(), charset, subject, numbers)
        else:
            theirs = deletes(waiting.read_bytes(), subject)
        if theirs:
            yield waiting, entry
    for message in sorted((path.parent / BAD).glob("*")):
        if message.is_file() and names(message.read_bytes(), numbers | subject.bare):
            yield message, None


INBOX = Store(
    "inbox",
    frozenset({"entries", "objects", "reports", "tallies"}),
    (
        Rows(  # they still count as received
            "entries",
            "waits(entry) AND state <> 'done'",
            "INSERT INTO tallies SELECT what, 'forgotten', 1 FROM entries WHERE {condition} "
            "ON CONFLICT DO UPDATE SET number = number + 1",
            counted=False,
        ),
        Rows(  # others' objects, such as another patient's under one of their UIDs
            "entries",
            "known(study) AND NOT waits(entry)",
            "UPDATE entries SET state = 'waiting', attempts = 0, study = NULL WHERE {condition}",
        ),
        Rows("entries", "waits(entry)"),
        Rows("pictures", "image(substr(image, instr(image, ' ') + 1))"),  # after the index's number
        Rows("merges", "patient(old) OR patient(new)"),
        Rows(
            "reports",
            "known(patient) OR known(study) OR known(joined) OR known(accession) "
            f"OR accession IN ({_ACCESSIONS})",
        ),
        Rows("objects", _OBJECT),
    ),
    _inbox_files,
    of_gateway=True,
)


# --- what is known about a peer ---

PEER = Store(
    "state of a peer",
    frozenset({"facts", "studies", "instances"}),
    (
        Rows("studies", "study_uid(study)"),
        Rows("pending", "study_uid(study)"),
        Rows("renewed", "image_uid(instance)"),
        Rows("instances", "study_uid(study) OR image_uid(instance)"),
    ),
    of_gateway=True,
)
_PEER_IDS = {
    "studies": "study, ''",
    "pending": "study, ''",
    "renewed": "'', instance",
    "instances": "study, instance",
}


def learn_peer(path: Path, subject: Subject) -> None:
    """Learn a peer's ids for their studies and images, even those that never entered."""
    with _opened_about(PEER, path, subject) as (base, _):
        there = _tables(base)
        for table, condition, *_ in PEER.rows:
            if table in _PEER_IDS.keys() & there:
                query = f"SELECT {_PEER_IDS[table]} FROM {table} WHERE {condition}"  # noqa: S608
                for study, instance in base.execute(query).fetchall():
                    subject.studies.update({study} - {""})
                    subject.images.update({instance} - {""})


# --- results for a PACS, and marks of readers ---

_RESULT = "patient(patient_id) OR study(study_id) OR study(study)"
_OF_RESULT = f"FROM results WHERE {_RESULT}"


def _result_files(path: Path, base: sqlite3.Connection, _: Subject) -> Iterator[FileOf]:
    folder = path.parent.resolve()
    for number, file in base.execute(f"SELECT rowid, file {_OF_RESULT}"):
        if (folder / file).resolve().is_relative_to(folder):
            yield folder / file, number


RESULTS = Store(
    "results",
    frozenset({"results", "sent", "answered"}),
    (
        Rows("sent", f"instance IN (SELECT instance {_OF_RESULT})", counted=False),
        Rows("answered", f"image IN (SELECT source {_OF_RESULT})", counted=False),
        Rows("results", _RESULT),
    ),
    _result_files,
)
MARKS = Store(
    "marks of readers",
    frozenset({"marks"}),
    (Rows("marks", "about(patient_id, study_id, image)"),),
)

STORES = (PEER, RESULTS, MARKS, INBOX)


# --- count and remove rows ---


def count(store: Store, path: Path, subject: Subject) -> int:
    """How many rows of a file, and files beside it without a row, are about them."""
    with _opened_about(store, path, subject) as (base, files):
        there = _tables(base)
        number = sum(entry is None for _, entry in files)
        for table, condition, _, counted in store.rows:
            if counted and table in there:
                query = f"SELECT count(*) FROM {table} WHERE {condition}"  # noqa: S608
                number += base.execute(query).fetchone()[0]
        return number


def forget(store: Store, path: Path, subject: Subject) -> None:
    """Remove them from a file that no gateway uses (HeldError)."""
    try:
        with _opened_about(store, path, subject, write=True) as (base, files):
            for file, _ in files:
                remove_file(file)
            there = _tables(base)  # files of earlier releases may have fewer tables
            for table, condition, change, _ in store.rows:
                if table in there:
                    base.execute(change.format(table=table, condition=condition))
    except HeldError:
        if not store.of_gateway:
            raise
        raise HeldError(
            f"{path}: is in use: stop 'cxrtext gateway run' first, then run the command again"
        ) from None


@contextmanager
def _opened_about(
    store: Store, path: Path, subject: Subject, *, write: bool = False
) -> Iterator[tuple[sqlite3.Connection, list[FileOf]]]:
    """Open a file with SQL functions about somebody; also gives the files beside it about them."""
    functions: dict[str, Callable[..., bool]] = {
        "known": (subject.patients | subject.studies).__contains__,
        "patient": subject.patients.__contains__,
        "study": subject.studies.__contains__,
        "image": subject.images.__contains__,
        "study_uid": subject.has_study,
        "image_uid": subject.has_image,
    }
    columns = ("patient_id", "study_id", "image")
    with _opened(path, NO_CACHE, write=write) as base:
        for name, function in functions.items():
            base.create_function(name, 1, function)
        base.create_function(
            "about", 3, lambda *cells: subject.has(dict(zip(columns, cells, strict=True)))
        )
        files = list(store.files(path, base, subject))
        base.create_function("waits", 1, {entry for _, entry in files}.__contains__)
        yield base, files


@contextmanager
def _opened(path: Path, mend: str, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file; after writing, no journal and no freed page stays."""
    with sqlite_errors(path, WorkError, mend, "then run the command again"):
        base = open_database(path, write=write, wait_s=BUSY_SECONDS, journal="DELETE")
        with closing(base):
            yield base
            if write and path.is_file():
                base.execute("VACUUM")


def _tables(base: sqlite3.Connection) -> set[str]:
    return {name for (name,) in base.execute("SELECT name FROM sqlite_master")}


def kind_of(path: Path) -> Store | str | None:
    """What a SQLite file is: a store, the name of a cache, or neither."""
    try:
        with path.open("rb") as handle:
            if not handle.read(16).startswith(b"SQLite format 3"):
                return None
        with _opened(path, NO_CACHE) as base:
            there = _tables(base)
    except (OSError, CxrTextError):
        return None
    stores = (store for store in STORES if store.known_by <= there)
    caches = (name for name, tables in CACHES.items() if tables <= there)
    return next(stores, None) or next(caches, None)


# --- caches: their content can be made again ---


def remove_cache(what: str, path: Path) -> None:
    """Remove a cache that no process has open; of decoded images, all sizes."""
    if what == DECODED:
        cache_store.remove_cache(path.parent)
    elif what == OF_ENCODER:
        with only_one(path):
            remove_file(path)
    elif path.is_file():
        with _opened(path, CACHE, write=True) as base:
            base.execute("BEGIN EXCLUSIVE")
            remove_file(path)
