"""The tables of the catalogue, and how an older catalogue becomes one of today."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

from cxrtext.errors import CheckpointError

SCHEMA_VERSION = 4

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE roots (
    root INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE            -- folder that images are relative to
) STRICT;
CREATE TABLE images (
    number INTEGER PRIMARY KEY,          -- never used again, and grows with the place
    place INTEGER NOT NULL UNIQUE,       -- in the vector files, from 0
    image TEXT NOT NULL UNIQUE,          -- as the manifest writes it
    root INTEGER NOT NULL REFERENCES roots (root),
    study_id TEXT NOT NULL,
    patient_id TEXT NOT NULL,
    split TEXT NOT NULL,
    height INTEGER NOT NULL,             -- of the original, in pixels
    width INTEGER NOT NULL,
    metadata TEXT NOT NULL               -- JSON object of text
) STRICT;
CREATE INDEX images_study ON images (study_id);
CREATE INDEX images_patient ON images (patient_id);
CREATE TABLE columns (
    name TEXT PRIMARY KEY,               -- as filters write it
    slot INTEGER NOT NULL UNIQUE         -- its column of attributes is c<slot>
) STRICT;
CREATE TABLE attributes (number INTEGER PRIMARY KEY REFERENCES images ON DELETE CASCADE);
CREATE TABLE sentences (
    number INTEGER PRIMARY KEY,
    place INTEGER NOT NULL UNIQUE,
    sentence TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE said (
    study_id TEXT NOT NULL,
    section TEXT NOT NULL,
    position INTEGER NOT NULL,
    sentence INTEGER NOT NULL REFERENCES sentences (number),
    PRIMARY KEY (study_id, section, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX said_sentence ON said (sentence);
CREATE TABLE segments (                  -- checksums of what was appended to a vector file
    file TEXT NOT NULL,
    start INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (file, start)
) STRICT, WITHOUT ROWID;
CREATE TABLE structures (                -- FAISS files, derived from the vectors
    name TEXT PRIMARY KEY,
    file TEXT NOT NULL,
    digest TEXT NOT NULL,
    places INTEGER NOT NULL,             -- it knows the places below
    detail TEXT NOT NULL                 -- JSON
) STRICT
"""

_KEPT_FILES = """
ALTER TABLE images ADD COLUMN file TEXT;      -- kept for it below its root, else NULL
ALTER TABLE images ADD COLUMN added_by TEXT;  -- the key that added it over HTTP
CREATE INDEX images_file ON images (file) WHERE file IS NOT NULL;
CREATE TABLE leftovers (                 -- kept files that may have no image, see kept_files.py
    root INTEGER NOT NULL REFERENCES roots (root),
    file TEXT NOT NULL,
    PRIMARY KEY (root, file)
) STRICT, WITHOUT ROWID
"""

Migration = Callable[[sqlite3.Connection], None]


def _run(database: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        database.execute(statement)


def _add_kept_files(database: sqlite3.Connection) -> None:
    _run(database, _KEPT_FILES)


MIGRATIONS: dict[int, Migration] = {3: _add_kept_files}
"""By the version that it starts from; each leads to the next one.  Version 1 kept other vectors
(a bag a region, absolute paths), so no change of the tables alone makes it one of today."""


def tables() -> list[str]:
    """Names of the tables, each of which has a sum of its rows."""
    return re.findall(r"CREATE TABLE (\w+)", _TABLES + _KEPT_FILES)


def create(database: sqlite3.Connection) -> None:
    """Make the tables; to be called in a transaction."""
    _run(database, _TABLES)
    _add_kept_files(database)
    database.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))


def version_of(database: sqlite3.Connection) -> int | None:
    """The version of a catalogue; None where there is nothing yet."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return None
    found = database.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    return int(found[0]) if found and str(found[0]).isdigit() else 0


def migrate(database: sqlite3.Connection, path: Path, *, write: bool) -> bool:
    """Bring a catalogue to today's version, in the caller's transaction.

    Args:
        database: The open catalogue.
        path: Its file, for messages.
        write: Whether it may be changed.

    Returns:
        Whether it was of another one.

    Raises:
        CheckpointError: It cannot be, or not without writing.
    """
    version = version_of(database)
    if version == SCHEMA_VERSION:
        return False
    if version is not None and version > SCHEMA_VERSION:
        raise CheckpointError(
            f"{path}: written by a newer version of cxrtext (schema {version}, this one reads "
            f"{SCHEMA_VERSION}); update cxrtext, or index into a new folder"
        )
    steps = range(version or 0, SCHEMA_VERSION)
    if any(step not in MIGRATIONS for step in steps):
        raise CheckpointError(
            f"{path}: written by another version of cxrtext (schema {version}, this one reads "
            f"{SCHEMA_VERSION}) and cannot be converted; run 'cxrtext index MANIFEST --model DIR "
            "--out NEW_FOLDER' (with --cache no image is decoded again)"
        )
    if not write:
        raise CheckpointError(
            f"{path}: written by an older version of cxrtext (schema {version}); run 'cxrtext "
            f"index {path.parent} --check' once, with write access, to convert it"
        )
    for step in steps:
        MIGRATIONS[step](database)
    database.execute(
        "UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(SCHEMA_VERSION),)
    )
    return True
