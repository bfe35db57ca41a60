"""The catalogue of an index: which images and sentences it has, in SQLite.

The catalogue decides: every other file of an index is read as it says.
"""

import json
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, ImageError
from cxrtext.files import sha256
from cxrtext.files.sqlite import WAIT_S, open_database, sqlite_errors, transaction
from cxrtext.models.folders import has_model
from cxrtext.records.manifest import LABEL, OF_MODEL

SCHEMA_VERSION = 7

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE roots (
    root INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE            -- folder that images are relative to
) STRICT;
CREATE TABLE images (
    number INTEGER PRIMARY KEY,          -- never used again
    place INTEGER NOT NULL UNIQUE,       -- in the vector files, from 0
    image TEXT NOT NULL UNIQUE,          -- as written in the manifest
    root INTEGER NOT NULL REFERENCES roots (root),
    study_id TEXT NOT NULL,
    patient_id TEXT NOT NULL,
    split TEXT NOT NULL,
    height INTEGER NOT NULL,             -- of the original, in pixels
    width INTEGER NOT NULL,
    metadata TEXT NOT NULL,              -- JSON object of text
    file TEXT,                           -- kept for it below its root, else NULL
    added_by TEXT                        -- the key that added it over HTTP
) STRICT;
CREATE INDEX images_study ON images (study_id);
CREATE INDEX images_patient ON images (patient_id);
CREATE INDEX images_file ON images (file) WHERE file IS NOT NULL;
CREATE TABLE leftovers (                 -- kept files that may have no image; see writer.py
    root INTEGER NOT NULL REFERENCES roots (root),
    file TEXT NOT NULL,
    PRIMARY KEY (root, file)
) STRICT, WITHOUT ROWID;
CREATE TABLE columns (
    name TEXT PRIMARY KEY,               -- as written in filters
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
"""

CATALOGUE = "catalogue.sqlite"  # the file, in an index's folder

EMPTY = "the index is empty"

NUMBERS_AT_ONCE = 500  # numbers in one statement

TEXT_COLUMNS = ("image", "study_id", "patient_id", "split")
ID_COLUMNS = ("image", "study_id", "patient_id")  # their values name somebody
NUMBER_COLUMNS = ("height", "width")

UNLIKE = f"{OF_MODEL}unlike"
"""The column for how unlike the training images an image is: its distance over the limit; above 1
it is flagged."""

_KEPT = re.compile(r"[0-9a-f]{64}")

_IMAGES = (
    "SELECT number, image, path, study_id, patient_id, split, height, width, metadata, file "
    "FROM images JOIN roots USING (root) "
)


@dataclass(frozen=True, slots=True)
class IndexedImage:
    number: int  # no other image ever gets it, even after this one is deleted
    image: str  # its name in the manifest, and its id
    path: str  # where it is, unless its manifest's folder has moved
    study_id: str
    patient_id: str
    split: str
    height: int  # of the original, in pixels
    width: int
    metadata: Mapping[str, str] = field(default_factory=dict)

    def require_whole(self) -> None:
        """Refuse a kept file that is not what its name says (ImageError)."""
        path = Path(self.path)
        is_kept = not self.path.endswith(self.image) and _KEPT.fullmatch(path.stem)
        if is_kept and sha256(path) != path.stem:
            raise ImageError(f"{path.name}: is damaged; put it back from a backup")


class Catalogue:
    """An open catalogue; a context manager.  With ``write`` it is made if it is missing.

    Threads may share one.  While another process commits a change, wait up to ``wait_s`` seconds.
    """

    def __init__(self, path: Path, *, write: bool = False, wait_s: float = WAIT_S) -> None:
        if not write:
            check_index_folder(path.parent)
        self.path = path
        self._lock = threading.RLock()
        with catalogue_errors(path):
            self.database = open_database(path, write=write, wait_s=wait_s, threads=True)
        try:
            self._prepare(write)
        except BaseException:
            self.database.close()
            raise

    def _prepare(self, write: bool) -> None:
        with catalogue_errors(self.path):
            if write:
                # Keep a change that outgrows its cache in memory: writing part of it to the file
                # before the commit would lock out readers until then.
                self.database.execute("PRAGMA cache_spill = OFF")
            with self.transaction(write=write):
                version = _version_of(self.database)
                if write and version is None:
                    _make_tables(self.database)
                else:
                    _check_version(version, self.path)

    def __enter__(self) -> "Catalogue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A consistent view of the catalogue; with ``write``, all changes of the block or none."""
        with self._lock, transaction(self.database, write=write) as database:
            yield database

    def version(self) -> int:
        """A number that changes when another connection has changed the catalogue."""
        # Within any thread's transaction, SQLite would give the number of the transaction's start.
        with self._lock:
            return int(self.database.execute("PRAGMA data_version").fetchone()[0])

    def meta(self) -> dict[str, str]:
        return dict(self.database.execute("SELECT key, value FROM meta").fetchall())

    def counts(self) -> tuple[int, int]:
        """Number of images and of distinct sentences."""
        images = self.database.execute("SELECT count(*) FROM images").fetchone()[0]
        sentences = self.database.execute("SELECT count(*) FROM sentences").fetchone()[0]
        return int(images), int(sentences)

    def columns(self) -> dict[str, int]:
        """Slots of the columns that filters can name, besides the images' own."""
        return dict(self.database.execute("SELECT name, slot FROM columns ORDER BY slot"))

    def known_images(self) -> dict[str, int]:
        return dict(self.database.execute("SELECT image, number FROM images"))

    def known_sentences(self) -> dict[str, int]:
        return dict(self.database.execute("SELECT sentence, number FROM sentences"))

    def image(self, name: str) -> IndexedImage | None:
        row = self.database.execute(f"{_IMAGES} WHERE image = ?", (name,)).fetchone()
        return _image(row) if row else None

    def of_patient(self, patient_id: str, most: int) -> list[IndexedImage]:
        """At most ``most`` images of a patient, in the order of indexing."""
        rows = self.database.execute(
            f"{_IMAGES} WHERE patient_id = ? ORDER BY number LIMIT ?",
            (patient_id, most),
        )
        return [_image(row) for row in rows]

    def images(self, numbers: Sequence[int]) -> list[IndexedImage | None]:
        """The images with these numbers, in their order; None for a deleted one."""
        by_number = {row[0]: _image(row) for row in self._each(_IMAGES, numbers)}
        return [by_number.get(number) for number in numbers]

    def labels(self, numbers: Sequence[int], model: str) -> dict[int, dict[str, float]]:
        """Labels and :data:`UNLIKE` of images, by number and column.

        {} if the catalogue's are not from the model with this fingerprint.
        """
        with self.transaction() as database:
            by = database.execute("SELECT value FROM meta WHERE key = 'model'").fetchone()
            if by != (model,):
                return {}
            slots = {n: s for n, s in self.columns().items() if n.startswith((LABEL, UNLIKE))}
            chosen = "".join(f", c{int(slot)}" for slot in slots.values())
            rows = self._each(f"SELECT number{chosen} FROM attributes", numbers)  # noqa: S608
            return {
                number: {n: v for n, v in zip(slots, values, strict=True) if isinstance(v, float)}
                for number, *values in rows
            }

    def _each(self, query: str, numbers: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(numbers), NUMBERS_AT_ONCE):
            part = list(numbers[start : start + NUMBERS_AT_ONCE])
            where = f" WHERE number IN ({','.join('?' * len(part))})"
            yield from self.database.execute(query + where, part).fetchall()

    def sentence(self, number: int) -> tuple[str, int] | None:
        """Text and number of studies of a sentence; None if it was deleted."""
        row: tuple[str, int] | None = self.database.execute(
            "SELECT sentence, (SELECT count(DISTINCT study_id) FROM said "
            "WHERE said.sentence = s.number) FROM sentences s WHERE number = ?",
            (number,),
        ).fetchone()
        return row

    def report(self, study_id: str) -> list[tuple[str, str]]:
        """Section and text of each sentence of a study, in order."""
        return self.database.execute(
            "SELECT section, s.sentence FROM said JOIN sentences s ON s.number = said.sentence "
            "WHERE study_id = ? ORDER BY section, position",
            (study_id,),
        ).fetchall()


def set_meta(database: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Note something about the index as a whole, in the caller's transaction."""
    rows = [(key, str(value)) for key, value in values.items()]
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def structure_of(meta: Mapping[str, str]) -> dict[str, Any] | None:
    """The notes about the FAISS file: name, digest, number of places, rotation; or None."""
    noted: dict[str, Any] | None = json.loads(meta.get("structure", "null"))
    return noted


def cells_of(slots: Mapping[str, int]) -> dict[str, str]:
    """SQL of the columns that filters can name, by name; see :meth:`Catalogue.columns`."""
    # Slots are the catalogue's own numbers, so no name becomes part of the SQL.
    cells = {name: f"images.{name}" for name in (*TEXT_COLUMNS, *NUMBER_COLUMNS)}
    return cells | {name: f"attributes.c{int(slot)}" for name, slot in slots.items()}


def check_index_folder(folder: Path) -> None:
    """Refuse a folder that is not an index (CheckpointError)."""
    if not (folder / CATALOGUE).is_file():
        raise CheckpointError(f"{folder}: not an index; make one with 'cxrtext index build'")


def empty_index(folder: Path) -> CheckpointError:
    return CheckpointError(f"{folder}: {EMPTY}; run 'cxrtext index build MANIFEST' to fill it")


def noted_checkpoint(folder: Path, meta: Mapping[str, str]) -> str:
    """The checkpoint that made an index, if it is still in its place (CheckpointError)."""
    if "checkpoint" not in meta:
        raise empty_index(folder)
    noted = meta["checkpoint"]
    if not has_model(Path(noted)):
        raise CheckpointError(
            f"{folder}: the checkpoint that made this index is no longer at '{noted}'; 'cxrtext "
            f"index build --model DIR --out {folder}' notes its new place"
        )
    return noted


def checkpoint_of(folder: Path) -> Path:
    """The checkpoint that an index names; errors as above."""
    with Catalogue(folder / CATALOGUE) as catalogue:
        return Path(noted_checkpoint(folder, catalogue.meta()))


def _image(row: tuple[Any, ...]) -> IndexedImage:
    number, image, root, study_id, patient_id, split, height, width, metadata, file = row
    path = str(Path(root) / (file or image))
    cells = json.loads(metadata)
    return IndexedImage(number, image, path, study_id, patient_id, split, height, width, cells)


def catalogue_errors(path: Path) -> AbstractContextManager[None]:
    """Report errors of SQLite and the disk in one line (CheckpointError for damage)."""
    return sqlite_errors(
        path, CheckpointError, "restore the folder from a copy, or index into a new one"
    )


def _version_of(database: sqlite3.Connection) -> int | None:
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return None
    row = database.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    return int(row[0]) if row and str(row[0]).isdigit() else 0


def _make_tables(database: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        database.execute(statement)
    set_meta(database, {"schema_version": SCHEMA_VERSION})


def _check_version(version: int | None, path: Path) -> None:
    if version != SCHEMA_VERSION:
        raise CheckpointError(
            f"{path}: written by another version of cxrtext (schema {version}, this one reads "
            f"{SCHEMA_VERSION}); run 'cxrtext index build MANIFEST --model DIR --out NEW_FOLDER' "
            "(with --cache no image is decoded again)"
        )
