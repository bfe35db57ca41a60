"""The catalogue of a decoded cache: which file is which square, in SQLite."""

import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cxrtext.files.table_sums import strict_text
from cxrtext.images.cache_files import Stamp, name_of

NAME = "decoded.sqlite"
READER_VERSION = 2
"""To be raised when an image read, or made a square, is no longer the same pixels as before."""

FORMAT = 2
"""Version of the catalogue's tables."""

BUSY_SECONDS = 120.0

_SCHEMA = """
CREATE TABLE file (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    digest BLOB NOT NULL                 -- SHA-256 of its bytes
) STRICT, WITHOUT ROWID;
CREATE TABLE store (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice
    size INTEGER NOT NULL,               -- side of its squares
    reader INTEGER NOT NULL,             -- version of the reader that made them
    file TEXT NOT NULL UNIQUE,
    UNIQUE (size, reader)
) STRICT;
CREATE TABLE square (
    store INTEGER NOT NULL,
    digest BLOB NOT NULL,
    slot INTEGER,                        -- NULL where the image cannot be read
    height INTEGER,                      -- of the original, in pixels
    width INTEGER,
    checksum INTEGER,
    reason TEXT,                         -- why it cannot be read, without the file's name
    PRIMARY KEY (store, digest)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Store:
    """The squares of one size, in one file."""

    id: int
    size: int
    file: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a square lies, and what it was made from."""

    slot: int
    height: int
    width: int
    checksum: int


def _reason_checksum(digest: bytes, reason: object) -> int:
    return zlib.crc32(digest + str(reason).encode("utf-8", "surrogatepass"))


class UnusableError(Exception):
    """The catalogue is damaged or of another version."""


class Catalogue:
    """An open catalogue; a context manager.

    Args:
        folder: The cache's folder, which exists.

    Raises:
        UnusableError: It is damaged or of another version.
        sqlite3.Error: It cannot be opened or made.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        # SQLite's own files take the rights of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._base = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        self._base.text_factory = strict_text
        self._noted: list[tuple[bytes, int, int, int, bytes]] = []
        try:
            self._prepare()
        except sqlite3.OperationalError:
            self._base.close()
            raise
        except (sqlite3.DatabaseError, UnusableError):
            self._base.close()
            raise UnusableError from None

    def _prepare(self) -> None:
        base = self._base
        # A killed process leaves what the system has; only a machine that loses power could
        # lose more, and then the checksums tell.
        base.execute("PRAGMA journal_mode = PERSIST")
        base.execute("PRAGMA synchronous = OFF")
        base.execute("BEGIN IMMEDIATE")
        version = base.execute("PRAGMA user_version").fetchone()[0]
        empty = base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if version != (0 if empty else FORMAT):
            raise UnusableError
        if empty:
            for statement in _SCHEMA.split(";")[:-1]:
                base.execute(statement)
            base.execute(f"PRAGMA user_version = {FORMAT}")
        base.execute("COMMIT")
        if base.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise UnusableError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._base.close()

    def digest(self, path: Path, stamp: Stamp) -> bytes | None:
        """Give the digest of a file that has not changed since it was noted."""
        row = self._base.execute(
            "SELECT digest FROM file WHERE path = ? AND size = ? AND mtime_ns = ? AND ctime_ns = ?",
            [name_of(path), stamp.size, stamp.mtime_ns, stamp.ctime_ns],
        ).fetchone()
        return None if row is None else bytes(row[0])

    def note(self, path: Path, stamp: Stamp, digest: bytes) -> None:
        """Note the digest of a file; kept with the next square, or by :meth:`flush`."""
        self._noted.append((name_of(path), stamp.size, stamp.mtime_ns, stamp.ctime_ns, digest))
        if len(self._noted) >= 1000:
            self.flush()

    def flush(self) -> None:
        """Keep what was noted."""
        with self._writing():
            pass

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._base.executemany("INSERT OR REPLACE INTO file VALUES (?,?,?,?,?)", self._noted)
            yield self._base
            self._base.execute("COMMIT")
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise
        self._noted.clear()

    def store(self, size: int) -> Store | None:
        """Give the squares of a size, as this version reads images; None where there are none."""
        row = self._base.execute(
            "SELECT id, size, file FROM store WHERE size = ? AND reader = ?",
            [size, READER_VERSION],
        ).fetchone()
        return row and Store(*row)

    def add_store(self, size: int) -> Store:
        """Begin a store of a size."""
        with self._writing() as base:
            base.execute(
                "INSERT INTO store (size, reader, file) VALUES (?, ?, ?)",
                [size, READER_VERSION, f"decoded-{size}-{secrets.token_hex(4)}.u8"],
            )
        made = self.store(size)
        assert made is not None  # noqa: S101 - it was made above
        return made

    def outdated(self) -> list[Store]:
        """Give the stores that another version of the reader made."""
        rows = self._base.execute(
            "SELECT id, size, file FROM store WHERE reader != ?", [READER_VERSION]
        ).fetchall()
        return [Store(*row) for row in rows]

    def remove_store(self, store: Store) -> None:
        """Forget a store and its squares."""
        with self._writing() as base:
            base.execute("DELETE FROM square WHERE store = ?", [store.id])
            base.execute("DELETE FROM store WHERE id = ?", [store.id])

    def kept(self, store: Store, digest: bytes) -> Kept | str | None:
        """Give where the square of a digest lies, why there is none, or None."""
        row = self._base.execute(
            "SELECT slot, height, width, checksum, reason FROM square "
            "WHERE store = ? AND digest = ?",
            [store.id, digest],
        ).fetchone()
        if row is None:
            return None
        if row[0] is not None:
            return Kept(*row[:4])
        # A reason that is not what was noted is none: the image is decoded again.
        return str(row[4]) if row[3] == _reason_checksum(digest, row[4]) else None

    def add(self, store: Store, digest: bytes, entry: Kept | str) -> None:
        """Note a square that is written, or why there is none; kept when this returns."""
        if isinstance(entry, str):
            values: tuple[object, ...] = (
                None,
                None,
                None,
                _reason_checksum(digest, entry),
                entry,
            )
        else:
            values = (entry.slot, entry.height, entry.width, entry.checksum, None)
        with self._writing() as base:
            base.execute(
                "INSERT OR REPLACE INTO square VALUES (?,?,?,?,?,?,?)", [store.id, digest, *values]
            )

    def entries(self) -> Iterator[tuple[Store, bytes, Kept | str | None]]:
        """Give every entry of every store: its digest, and what :meth:`kept` says of it."""
        for store in [
            Store(*row) for row in self._base.execute("SELECT id, size, file FROM store")
        ]:
            found = self._base.execute("SELECT digest FROM square WHERE store = ?", [store.id])
            for (digest,) in found.fetchall():
                yield store, bytes(digest), self.kept(store, bytes(digest))

    def slots(self, store: Store) -> int:
        """Give the number of slots in use: one more than the last."""
        row = self._base.execute(
            "SELECT coalesce(max(slot) + 1, 0) FROM square WHERE store = ?", [store.id]
        ).fetchone()
        return int(row[0])

    def cut(self, store: Store, slots: int) -> int:
        """Forget the squares from a slot on, and say how many they were."""
        with self._writing() as base:
            return base.execute(
                "DELETE FROM square WHERE store = ? AND slot >= ?", [store.id, slots]
            ).rowcount
