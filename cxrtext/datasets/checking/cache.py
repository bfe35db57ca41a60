"""What earlier checks noted of images, kept in SQLite so that a check can be stopped and go on."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from cxrtext.datasets.checking.image_facts import ImageFacts
from cxrtext.errors import DataError
from cxrtext.files import SEAL, seal_of
from cxrtext.files.table_sums import strict_text

CACHE_NAME = ".check-data.sqlite"
"""The file, beside the manifest."""

_APPLICATION = 0x63786463
_VERSION = 3
"""Raised whenever the same file would give other facts."""

_COMMIT_SECONDS = 5.0

Stamp = tuple[int, int]
"""Size in bytes, and time of change in nanoseconds."""


class FactsCache:
    """Facts by path, valid while the file's size and time of change stay the same.

    Args:
        database: An open database, or None for a cache that keeps nothing.
    """

    def __init__(self, database: sqlite3.Connection | None) -> None:
        self._database = database
        self._committed = time.monotonic()

    def get(self, path: str, stamp: Stamp) -> ImageFacts | None:
        """Return what is known of a file as it is now."""
        if self._database is None:
            return None
        row = self._database.execute(
            "SELECT facts FROM facts WHERE path = ? AND size = ? AND mtime_ns = ?", (path, *stamp)
        ).fetchone()
        return None if row is None else _facts_of(row[0], path, stamp)

    def put(self, path: str, stamp: Stamp, facts: ImageFacts) -> None:
        """Keep what is known of a file; faults are not kept, so that they are looked at again."""
        if self._database is None or facts.fault:
            return
        self._database.execute(
            "INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)",
            (path, *stamp, _text_of(facts, path, stamp)),
        )
        if time.monotonic() - self._committed > _COMMIT_SECONDS:
            self._database.commit()
            self._committed = time.monotonic()


def _text_of(facts: ImageFacts, path: str, stamp: Stamp) -> str:
    noted = asdict(facts)
    return json.dumps({**noted, SEAL: seal_of([path, *stamp, noted])})


def _facts_of(text: str, path: str, stamp: Stamp) -> ImageFacts | None:
    """Facts as they were noted; None where a bit of them has changed since."""
    try:
        noted = json.loads(text)
        seal = noted.pop(SEAL)
        return ImageFacts(**noted) if seal == seal_of([path, *stamp, noted]) else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30)
    database.text_factory = strict_text
    try:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and tables:
            raise DataError(f"{path}: is no cache of check-data; name another file with --cache")
        if version != _VERSION:
            database.execute("DROP TABLE IF EXISTS facts")
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute(
            "CREATE TABLE IF NOT EXISTS facts (path TEXT PRIMARY KEY, size INTEGER NOT NULL, "
            "mtime_ns INTEGER NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID"
        )
        database.commit()
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def open_cache(path: Path | None, *, wanted: bool = False) -> Iterator[FactsCache]:
    """Open the cache, making it where there is none.

    Args:
        path: The file; None keeps nothing.
        wanted: Whether the user named the file: then it must be possible to write it.  The one
            beside the manifest is done without in a folder that cannot be written.

    Yields:
        The cache; what was put is kept even when the block is left by an error.

    Raises:
        DataError: The file holds something else, or cannot be written although it was named.
    """
    if path is None:
        yield FactsCache(None)
        return
    try:
        database = _open(path)
    except sqlite3.OperationalError as error:
        if wanted:
            raise DataError(f"{path}: the cache cannot be written ({error})") from None
        yield FactsCache(None)
        return
    except sqlite3.DatabaseError:
        raise DataError(f"{path}: is no readable cache; remove it and start again") from None
    with closing(database):
        try:
            yield FactsCache(database)
            database.commit()
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"{path}: the cache cannot be used ({error}); make room on the disk, or remove it"
            ) from None
        except BaseException:
            with suppress(sqlite3.DatabaseError):
                database.commit()
            raise
