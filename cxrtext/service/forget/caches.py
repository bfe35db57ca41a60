"""Files of rows that are about somebody, and caches, which go whole where they hold one."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cxrtext.errors import CxrTextError, WorkError
from cxrtext.files import only_one, remove_file
from cxrtext.files.sqlite import open_database, sqlite_errors
from cxrtext.images.cache_store import count_kept, path_key
from cxrtext.service.forget.subject import Subject

BUSY_SECONDS = 120.0
CACHE = "remove the file: it is a cache"
NO_CACHE = "it is no cache: restore it from a copy"
"""What to do about a file that is damaged."""
LONGEST_ROW = 16 * 2**20  # bytes of one image's features, at most


@contextmanager
def opened(path: Path, *, write: bool = False, mend: str = CACHE) -> Iterator[sqlite3.Connection]:
    """A SQLite file; where it is written, no journal and no freed page stays."""
    with sqlite_errors(path, WorkError, mend, "then run the command again"):
        base = open_database(path, write=write, wait_s=BUSY_SECONDS, journal="DELETE")
        with closing(base):
            yield base
            if write and path.is_file():
                base.execute("VACUUM")


def tables_of(path: Path) -> set[str]:
    """Names of the tables of a SQLite file; none where it is no such file."""
    try:
        with path.open("rb") as handle:
            if not handle.read(16).startswith(b"SQLite format 3"):
                return set()
        with opened(path) as base:
            return {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    except (OSError, CxrTextError):
        return set()


# --- caches, which go whole: what is not in one is made again ---


def count_squares(folder: Path, subject: Subject) -> int:
    """Entries of a decoded cache."""
    digests = {bytes.fromhex(digest) for digest in subject.digests}
    return count_kept(folder, {path_key(Path(file)) for file in subject.files}, digests)


def _is_theirs(path: str, subject: Subject) -> bool:
    """Whether a path is one of their images', wherever the folder lay when it was noted.

    An entry too many does no harm: what is not in a cache is made again.
    """
    parts = path.split("/")
    return path in subject.files or any(
        "/".join(parts[-count:]) in subject.images for count in range(1, len(parts))
    )


def count_facts(path: Path, subject: Subject) -> int:
    """Files that `check-data` has seen."""
    if not path.is_file():
        return 0
    with opened(path) as base:
        known = [name for (name,) in base.execute("SELECT path FROM facts")]
    return sum(_is_theirs(os.fsdecode(name), subject) for name in known)


def count_scores(path: Path, subject: Subject) -> int:
    """Sentences whose scores a cache may have: it knows them by digests of their word pieces."""
    return len(subject.sentences) if path.is_file() else 0


def count_features(path: Path, subject: Subject) -> int:
    """What a locked encoder's features may be of: a cache knows them by digests alone."""
    theirs = subject.digests if path.name.startswith("regions-") else subject.sentences
    return len(theirs) if path.is_file() else 0


def remove_cache(path: Path) -> None:
    """Remove a SQLite file that no process has open."""
    with opened(path, write=True) as base:
        base.execute("BEGIN EXCLUSIVE")
        remove_file(path)


def remove_features(path: Path) -> None:
    with only_one(path):
        remove_file(path)
        remove_file(path.with_suffix(".keys"))


# --- marks of readers (`cxrtext.records.marks`) ---

MARKS = frozenset({"marks"})
"""Tables by which a file of marks is known."""


def _marks(base: sqlite3.Connection, subject: Subject) -> list[tuple[int]]:
    rows = base.execute("SELECT mark, patient_id, study_id, image FROM marks").fetchall()
    columns = ("patient_id", "study_id", "image")
    return [(row[0],) for row in rows if subject.has(dict(zip(columns, row[1:], strict=True)))]


def count_marks(path: Path, subject: Subject) -> int:
    with opened(path, mend=NO_CACHE) as base:
        return len(_marks(base, subject))


def forget_marks(path: Path, subject: Subject) -> None:
    with opened(path, write=True, mend=NO_CACHE) as base:
        base.executemany("DELETE FROM marks WHERE mark = ?", _marks(base, subject))


# --- results for a PACS (`cxrtext.pacs.results.folder`, which stands above this layer) ---

RESULTS = frozenset({"results", "sent", "answered"})
"""Tables by which the file of a folder of results is known."""


def _results(base: sqlite3.Connection, subject: Subject) -> list[tuple[str, str, str]]:
    rows = base.execute("SELECT instance, file, source, study_id, patient_id, study FROM results")
    return sorted(
        (instance, file, source)
        for instance, file, source, study_id, patient_id, study in rows
        if patient_id in subject.patients or subject.studies & {study_id, study}
    )


def count_results(path: Path, subject: Subject) -> int:
    with opened(path, mend=NO_CACHE) as base:
        return len(_results(base, subject))


def forget_results(path: Path, subject: Subject) -> None:
    """Remove their files, then take them out."""
    with opened(path, write=True, mend=NO_CACHE) as base:
        rows = _results(base, subject)
        for _, file, _ in rows:
            if (path.parent / file).resolve().is_relative_to(path.parent.resolve()):
                remove_file(path.parent / file)
        for instance, _, source in rows:
            base.execute("DELETE FROM sent WHERE instance = ?", [instance])
            base.execute("DELETE FROM answered WHERE image = ?", [source])
            base.execute("DELETE FROM results WHERE instance = ?", [instance])
