"""The SQLite file of an inbox: what waits, what became of the rest, and what the archive has.

``entries`` is the queue.  ``objects`` has a row for each DICOM object that entered the index,
``reports`` every version of every report, ``pictures`` digests of the pixels of images that the
index got in other ways, ``tallies`` the number of finished entries by outcome, and ``merges`` the
patient ids that were replaced by others (HL7 v2, A40).
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from cxrtext.errors import CheckpointError
from cxrtext.files.sqlite import (
    check_once,
    make_tables,
    open_database,
    sqlite_errors,
    transaction,
)

FILE = "inbox.sqlite"
VERSION = 5

_TABLES = """
CREATE TABLE entries (
  entry INTEGER PRIMARY KEY AUTOINCREMENT,
  what TEXT NOT NULL,                      -- object, message or deletion
  source TEXT NOT NULL,                    -- the name of the peer that it came from
  file TEXT,                               -- in the folder of objects; NULL once it is done
  bytes INTEGER NOT NULL,
  charset TEXT NOT NULL,                   -- if the message names none, written as in MSH-18
  received REAL NOT NULL,                  -- seconds since 1970
  state TEXT NOT NULL DEFAULT 'waiting',   -- waiting, held, failed or done
  attempts INTEGER NOT NULL DEFAULT 0,     -- how often work on it began
  outcome TEXT,                            -- added, replaced, again, left out, ...
  reason TEXT,                             -- why; quotes nothing of its content
  study TEXT,                              -- if it is held until this study changes
  accepted INTEGER NOT NULL DEFAULT 0,     -- 1: somebody decided that it enters in any case
  finished REAL
);
CREATE INDEX entries_open ON entries (state, entry) WHERE state <> 'done';
CREATE TABLE objects (
  instance TEXT PRIMARY KEY,               -- its id: the SOPInstanceUID, or its hash
  study TEXT NOT NULL,
  patient TEXT NOT NULL,                   -- with its issuer
  issuer TEXT NOT NULL,
  accession TEXT NOT NULL,
  accession_issuer TEXT NOT NULL,
  said TEXT NOT NULL,                      -- a digest of what is kept of its header
  pixels TEXT NOT NULL,                    -- a digest of its pixels as shown; '' if all are equal
  changed TEXT NOT NULL,                   -- when its header says that it was changed
  source TEXT NOT NULL,
  received REAL NOT NULL,
  entry INTEGER NOT NULL                   -- that brought it: a later one has a higher number
);
CREATE INDEX objects_study ON objects (study);
CREATE INDEX objects_accession ON objects (accession COLLATE NOCASE) WHERE accession <> '';
CREATE INDEX objects_pixels ON objects (pixels) WHERE pixels <> '';
CREATE TABLE reports (
  report INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  study TEXT NOT NULL,                     -- as named in the report
  accession TEXT NOT NULL,
  issuer TEXT NOT NULL,
  patient TEXT NOT NULL,
  status INTEGER NOT NULL,
  time TEXT NOT NULL,
  addendum INTEGER NOT NULL,
  text TEXT NOT NULL,
  sections TEXT NOT NULL,                  -- JSON
  received REAL NOT NULL,
  joined TEXT,                             -- the study that it was joined to
  held TEXT,                               -- why it waits for somebody to name its study
  matches TEXT NOT NULL DEFAULT '[]',      -- JSON: the studies it may belong to, while it is held
  chosen TEXT,                             -- the study that somebody named
  seen INTEGER NOT NULL DEFAULT 0          -- 0 until the index is up to date with it
);
CREATE INDEX reports_study ON reports (study);
CREATE INDEX reports_accession ON reports (accession COLLATE NOCASE) WHERE accession <> '';
CREATE INDEX reports_joined ON reports (joined);
CREATE INDEX reports_new ON reports (report) WHERE seen = 0;
CREATE TABLE pictures (image TEXT PRIMARY KEY, pixels TEXT NOT NULL);
CREATE TABLE tallies (
  what TEXT NOT NULL, outcome TEXT NOT NULL, number INTEGER NOT NULL,
  PRIMARY KEY (what, outcome)
);
CREATE TABLE merges (old TEXT PRIMARY KEY, new TEXT NOT NULL, received REAL NOT NULL);
"""


class Database:
    """An open database of an inbox; threads may share one."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.RLock()
        if read_only and not path.is_file():
            raise CheckpointError(
                f"{path.parent}: is not an inbox; 'cxrtext gateway run' makes one"
            )
        with ExitStack() as opening, self.errors():
            # WAL: readers, such as the server's metrics, and writers do not wait for each other.
            self.connection = open_database(path, write=not read_only, threads=True, journal="WAL")
            opening.callback(self.connection.close)
            make_tables(
                self.connection,
                path,
                _TABLES,
                VERSION,
                wrong=CheckpointError,
                mend="name another folder",
                write=not read_only,
            )
            if not read_only:
                check_once(self.connection, path)
            opening.pop_all()

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all changes of the block to disk at its end, or none."""
        with self._lock, self.errors(), transaction(self.connection) as database:
            yield database

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection for queries, one thread at a time."""
        with self._lock, self.errors():
            yield self.connection

    def errors(self) -> AbstractContextManager[None]:
        return sqlite_errors(
            self.path, CheckpointError, "keep the folder, and start with a new one", "then go on"
        )
