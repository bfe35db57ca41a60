"""The catalogue of an index: which images and sentences it holds, in SQLite."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cxrtext.errors import CheckpointError

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE images (
    row INTEGER PRIMARY KEY,             -- place in the vector files, from 0
    image TEXT NOT NULL UNIQUE,          -- as the manifest writes it
    path TEXT NOT NULL,
    study_id TEXT NOT NULL,
    patient_id TEXT NOT NULL,
    split TEXT NOT NULL,
    height INTEGER NOT NULL,             -- of the original, in pixels
    width INTEGER NOT NULL,
    metadata TEXT NOT NULL               -- JSON object of text
) STRICT;
CREATE INDEX images_study ON images (study_id);
CREATE TABLE sentences (
    row INTEGER PRIMARY KEY,             -- place in the vector file, from 0
    sentence TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE said (
    study_id TEXT NOT NULL,
    section TEXT NOT NULL,
    position INTEGER NOT NULL,
    sentence INTEGER NOT NULL REFERENCES sentences (row),
    PRIMARY KEY (study_id, section, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX said_sentence ON said (sentence);
"""


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """An image of the index.

    Args:
        row: Its place in the vector files.
        image: Its name in the manifest; the id by which it is asked for.
        path: Where it lay when it was indexed.
        study_id: Its study.
        patient_id: Its patient.
        split: Its split.
        height: Height of the original, in pixels.
        width: Width of the original, in pixels.
        metadata: The other cells of its row.
    """

    row: int
    image: str
    path: str
    study_id: str
    patient_id: str
    split: str
    height: int
    width: int
    metadata: Mapping[str, str] = field(default_factory=dict)


class Catalogue:
    """An open catalogue; a context manager.

    Args:
        path: The SQLite file; made when missing and ``write`` is set.
        write: Whether it may be changed.

    Raises:
        CheckpointError: The file is missing, damaged, or of another version.
    """

    def __init__(self, path: Path, *, write: bool = False) -> None:
        new = not path.is_file()
        if new and not write:
            raise CheckpointError(f"{path.parent}: not an index; make one with 'cxrtext index'")
        mode = "rwc" if write else "ro"
        # The service reads from several threads; SQLite serialises them itself.
        self._db = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={mode}", uri=True, check_same_thread=False
        )
        try:
            if write:
                self._db.execute("PRAGMA synchronous = FULL")
            if new:
                self._db.executescript(_SCHEMA)
                self.set_meta({"schema_version": str(SCHEMA_VERSION)})
            version = self.meta().get("schema_version")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise CheckpointError(f"{path}: not a readable catalogue ({error})") from None
        if version != str(SCHEMA_VERSION):
            self._db.close()
            raise CheckpointError(
                f"{path}: written by another version of cxrtext (schema {version}, this one reads "
                f"{SCHEMA_VERSION}); build the index anew"
            )

    def __enter__(self) -> "Catalogue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def meta(self) -> dict[str, str]:
        """What is noted of the index as a whole."""
        return dict(self._db.execute("SELECT key, value FROM meta").fetchall())

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Note something of the index as a whole."""
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def counts(self) -> tuple[int, int]:
        """Number of images and of distinct sentences."""
        images = self._db.execute("SELECT count(*) FROM images").fetchone()[0]
        sentences = self._db.execute("SELECT count(*) FROM sentences").fetchone()[0]
        return int(images), int(sentences)

    def add_images(self, images: Iterable[IndexedImage]) -> None:
        """Add images in one transaction; their vectors must be on disk already."""
        with self._db:
            self._db.executemany(
                "INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        i.row,
                        i.image,
                        i.path,
                        i.study_id,
                        i.patient_id,
                        i.split,
                        i.height,
                        i.width,
                        json.dumps(dict(i.metadata), ensure_ascii=False),
                    )
                    for i in images
                ],
            )

    def add_sentences(
        self, sentences: Iterable[tuple[int, str]], said: Iterable[tuple[str, str, int, str]]
    ) -> None:
        """Add distinct sentences (row, text) and who said them, in one transaction.

        Args:
            sentences: New sentences; their vectors must be on disk already.
            said: (study, section, position, text) of every sentence, new or known.
        """
        with self._db:
            self._db.executemany("INSERT INTO sentences VALUES (?, ?)", sentences)
            self._db.executemany(
                "INSERT OR REPLACE INTO said SELECT ?, ?, ?, row FROM sentences WHERE sentence = ?",
                said,
            )

    def known_images(self) -> set[str]:
        """Names of all images."""
        return {name for (name,) in self._db.execute("SELECT image FROM images")}

    def known_sentences(self) -> dict[str, int]:
        """Rows of all sentences, by text."""
        return dict(self._db.execute("SELECT sentence, row FROM sentences"))

    def image(self, name: str) -> IndexedImage | None:
        """The image of a name."""
        rows = self._db.execute("SELECT * FROM images WHERE image = ?", (name,)).fetchall()
        return _image(rows[0]) if rows else None

    def images(self, rows: Sequence[int]) -> list[IndexedImage]:
        """The images of some rows, in their order."""
        found = {}
        for start in range(0, len(rows), 500):
            part = list(rows[start : start + 500])
            marks = ",".join("?" * len(part))
            query = f"SELECT * FROM images WHERE row IN ({marks})"  # noqa: S608 - question marks
            found.update({row[0]: _image(row) for row in self._db.execute(query, part)})
        return [found[row] for row in rows]

    def page(self, offset: int, limit: int) -> list[IndexedImage]:
        """Some images, in the order of their rows."""
        rows = self._db.execute(
            "SELECT * FROM images ORDER BY row LIMIT ? OFFSET ?", (limit, offset)
        ).fetchall()
        return [_image(row) for row in rows]

    def sentences(self, rows: Sequence[int]) -> list[tuple[str, int]]:
        """Text and number of studies of some sentences, in their order."""
        return [
            self._db.execute(
                "SELECT sentence, (SELECT count(DISTINCT study_id) FROM said "
                "WHERE said.sentence = s.row) FROM sentences s WHERE row = ?",
                (row,),
            ).fetchone()
            for row in rows
        ]

    def report(self, study_id: str) -> list[tuple[str, str]]:
        """Section and text of each sentence of a study, in order."""
        return self._db.execute(
            "SELECT section, s.sentence FROM said JOIN sentences s ON s.row = said.sentence "
            "WHERE study_id = ? ORDER BY section, position",
            (study_id,),
        ).fetchall()


def _image(row: tuple[int, str, str, str, str, str, int, int, str]) -> IndexedImage:
    return IndexedImage(*row[:8], metadata=json.loads(row[8]))
