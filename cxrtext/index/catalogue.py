"""The catalogue of an index: which images and sentences it holds, in SQLite.

It is the truth: every other file of an index is read as the catalogue says.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, DiskError, HeldError, WorkError, kind_of
from cxrtext.files.table_sums import keep_sums, prepare
from cxrtext.index import schema

CATALOGUE = "catalogue.sqlite"
"""The file, in an index's folder."""

WAIT_S = 30.0
"""How long a reader waits while a writer commits."""

_IMAGES = (
    "SELECT number, image, path, study_id, patient_id, split, height, width, metadata, file "
    "FROM images JOIN roots USING (root) "
)


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """An image of the index.

    Args:
        number: Its number, which no other image gets, not even after it was deleted.
        image: Its name in the manifest; the id by which it is asked for.
        path: Where it lies, if its manifest's folder was not moved since.
        study_id: Its study.
        patient_id: Its patient.
        split: Its split.
        height: Height of the original, in pixels.
        width: Width of the original, in pixels.
        metadata: The other cells of its row.
    """

    number: int
    image: str
    path: str
    study_id: str
    patient_id: str
    split: str
    height: int
    width: int
    metadata: Mapping[str, str] = field(default_factory=dict)


class Catalogue:
    """An open catalogue; a context manager.  Threads may share one.

    Args:
        path: The SQLite file; made when missing and ``write`` is set.
        write: Whether it may be changed.
        wait_s: How long to wait where another process commits a change.

    Raises:
        CheckpointError: The file is missing, damaged, or of another version.
        WorkError: It cannot be written.
    """

    def __init__(self, path: Path, *, write: bool = False, wait_s: float = WAIT_S) -> None:
        if not write:
            check_index_folder(path.parent)
        self.path = path
        self._lock = threading.RLock()
        mode = "rwc" if write else _reading_mode(path)
        try:
            self.database = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={mode}",
                uri=True,
                check_same_thread=False,
                timeout=wait_s,
                isolation_level=None,
            )
        except sqlite3.OperationalError as error:
            raise WorkError(f"{path}: cannot be opened ({error}); check the folder") from None
        try:
            self._prepare(write)
        except BaseException:
            self.database.close()
            raise

    def _prepare(self, write: bool) -> None:
        with told(self.path):
            self.database.execute("PRAGMA foreign_keys = ON")
            prepare(self.database)
            if not write:
                self.database.execute("PRAGMA query_only = ON")
            else:
                # What is deleted is overwritten: it is text of reports.
                self.database.execute("PRAGMA secure_delete = ON")
                self.database.execute("PRAGMA synchronous = FULL")
                # A change that outgrows its cache is kept in memory: to put part of it into the
                # file before the commit would lock readers out until then.
                self.database.execute("PRAGMA cache_spill = OFF")
            with self.transaction(write=write):
                if write and schema.version_of(self.database) is None:
                    schema.create(self.database)
                    keep_sums(self.database, schema.tables())
                if schema.migrate(self.database, self.path, write=write):
                    keep_sums(self.database, schema.tables())

    def __enter__(self) -> "Catalogue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """One consistent view of the catalogue; with ``write``, all of its changes or none."""
        with self._lock:
            self.database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield self.database
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise

    def version(self) -> int:
        """A number that changes when another connection has changed the catalogue."""
        # Within a transaction, be it another thread's, SQLite would tell the number of its start.
        with self._lock:
            return int(self.database.execute("PRAGMA data_version").fetchone()[0])

    def meta(self) -> dict[str, str]:
        """What is noted of the index as a whole."""
        return dict(self.database.execute("SELECT key, value FROM meta").fetchall())

    def counts(self) -> tuple[int, int]:
        """Number of images and of distinct sentences."""
        images = self.database.execute("SELECT count(*) FROM images").fetchone()[0]
        sentences = self.database.execute("SELECT count(*) FROM sentences").fetchone()[0]
        return int(images), int(sentences)

    def columns(self) -> dict[str, int]:
        """Slots of the columns that filters can name, beside those of the images themselves."""
        return dict(self.database.execute("SELECT name, slot FROM columns ORDER BY slot"))

    def known_images(self) -> dict[str, int]:
        """Numbers of all images, by name."""
        return dict(self.database.execute("SELECT image, number FROM images"))

    def known_sentences(self) -> dict[str, int]:
        """Numbers of all sentences, by text."""
        return dict(self.database.execute("SELECT sentence, number FROM sentences"))

    def image(self, name: str) -> IndexedImage | None:
        """The image of a name."""
        row = self.database.execute(f"{_IMAGES} WHERE image = ?", (name,)).fetchone()
        return _image(row) if row else None

    def images(self, numbers: Sequence[int]) -> list[IndexedImage | None]:
        """The images of some numbers, in their order; None for one that was deleted."""
        found = {}
        for start in range(0, len(numbers), 500):
            part = list(numbers[start : start + 500])
            marks = ",".join("?" * len(part))
            query = f"{_IMAGES} WHERE number IN ({marks})"
            found.update({row[0]: _image(row) for row in self.database.execute(query, part)})
        return [found.get(number) for number in numbers]

    def page(self, offset: int, limit: int) -> list[IndexedImage]:
        """Some images, in the order in which they were indexed."""
        rows = self.database.execute(
            f"{_IMAGES} ORDER BY number LIMIT ? OFFSET ?", (limit, offset)
        ).fetchall()
        return [_image(row) for row in rows]

    def sentence(self, number: int) -> tuple[str, int] | None:
        """Text and number of studies of a sentence; None for one that was deleted."""
        found: tuple[str, int] | None = self.database.execute(
            "SELECT sentence, (SELECT count(DISTINCT study_id) FROM said "
            "WHERE said.sentence = s.number) FROM sentences s WHERE number = ?",
            (number,),
        ).fetchone()
        return found

    def report(self, study_id: str) -> list[tuple[str, str]]:
        """Section and text of each sentence of a study, in order."""
        return self.database.execute(
            "SELECT section, s.sentence FROM said JOIN sentences s ON s.number = said.sentence "
            "WHERE study_id = ? ORDER BY section, position",
            (study_id,),
        ).fetchall()


def check_index_folder(folder: Path) -> None:
    """Refuse a folder that is no index.

    Raises:
        CheckpointError: It is none.
    """
    if not (folder / CATALOGUE).is_file():
        raise CheckpointError(f"{folder}: not an index; make one with 'cxrtext index'")


def noted_checkpoint(folder: Path, meta: Mapping[str, str]) -> str:
    """The checkpoint that made an index, if it still lies where it was.

    Args:
        folder: The index's folder.
        meta: What its catalogue notes.

    Raises:
        CheckpointError: It does not, or the index is empty.
    """
    if "checkpoint" not in meta:
        raise CheckpointError(
            f"{folder}: the index is empty; run 'cxrtext index MANIFEST' to fill it"
        )
    noted = meta["checkpoint"]
    if not (Path(noted) / "config.json").is_file():
        raise CheckpointError(
            f"{folder}: the checkpoint that made this index is no longer at '{noted}'; give its "
            "folder with --model"
        )
    return noted


def _reading_mode(path: Path) -> str:
    # A reader rolls back what a writer was killed in the middle of, which takes the right to write.
    return "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"


def _image(row: tuple[Any, ...]) -> IndexedImage:
    number, image, root, study_id, patient_id, split, height, width, metadata, file = row
    return IndexedImage(
        number=number,
        image=image,
        path=str(Path(root) / (file or image)),
        study_id=study_id,
        patient_id=patient_id,
        split=split,
        height=height,
        width=width,
        metadata=json.loads(metadata),
    )


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Say in one line what SQLite and the disk complain of.

    Raises:
        CheckpointError: The catalogue is damaged.
        HeldError: Another process holds the catalogue.
        DiskError: The disk is full or cannot be written.
        WorkError: Something else keeps it from being used.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        # Our own SQL fits a whole catalogue.
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            raise CheckpointError(
                f"{path}: is damaged ({error}); restore the folder from a copy, or index into a "
                "new one"
            ) from None
        kind = kind_of(error)
        advice = {
            HeldError: "another process writes it; try again in a moment",
            DiskError: "make room on the disk, and check the right to write",
        }.get(kind, "check the free space, the right to write, and that no other process holds it")
        raise kind(
            f"{path}: {error}; {advice}, then run the same command again: what was there is kept"
        ) from None
    except sqlite3.DatabaseError as error:
        raise CheckpointError(
            f"{path}: not a readable catalogue ({error}); restore the folder from a copy, or "
            "index into a new one"
        ) from None
