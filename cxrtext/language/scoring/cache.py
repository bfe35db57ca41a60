"""Log-likelihoods that outlive a run: a file of scores by model and sentence."""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError, line_of
from cxrtext.files.sqlite import strict_text

FORMAT = 2  # version of the file
BUSY_SECONDS = 120.0  # how long to wait for another process that is writing

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS model (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS score (model INTEGER NOT NULL, sentence BLOB NOT NULL, "
    "tokens BLOB NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (model, sentence)) WITHOUT ROWID",
)

_TABLES = frozenset({"model", "score"})

Scores = dict[bytes, NDArray[np.float32]]  # word pieces' log-likelihoods by digest of the sentence


def digest_of(pieces: Sequence[int]) -> bytes:
    """A digest of a sentence's word pieces: no report text is kept in a cache."""
    return hashlib.blake2b(
        np.asarray(pieces, dtype="<i4").tobytes(), digest_size=16, person=b"cxrtext pieces"
    ).digest()


def _checksum(identity: str, sentence: bytes, tokens: bytes) -> bytes:
    """Of a row: by it a score is known that a flipped bit has changed."""
    return hashlib.blake2b(identity.encode() + sentence + tokens, digest_size=8).digest()


def _row_is_whole(identity: object, sentence: object, tokens: object, checksum: object) -> bool:
    if not (isinstance(identity, str) and isinstance(sentence, bytes)):
        return False
    return isinstance(tokens, bytes) and checksum == _checksum(identity, sentence, tokens)


class ScoreCache:
    """A SQLite file of word pieces' log-likelihoods, by what gave them and the sentence's digest.

    Several processes may use one file at once: SQLite locks it for each look and each addition.
    Each row has a checksum; one that is not what was written counts as unknown, and the sentence is
    scored again.  ``identity`` is what a score depends on beside the sentence.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = identity
        with self._sqlite_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=BUSY_SECONDS)
            self._base.text_factory = strict_text
        try:
            with self._sqlite_errors():
                self._model = self._opened(identity)
        except BaseException:
            self._base.close()
            raise

    def _opened(self, identity: str) -> int:
        base = self._base
        # At once, so that a process that starts beside this one sees all of it or nothing.
        base.execute("BEGIN IMMEDIATE")
        version = base.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
        if version != (FORMAT if tables else 0) or (tables and not tables >= _TABLES):
            raise DataError(f"{self.path}: no cache of scores of this version; name another file")
        for statement in _SCHEMA:
            base.execute(statement)
        base.execute(f"PRAGMA user_version = {FORMAT}")
        base.execute("INSERT OR IGNORE INTO model (identity) VALUES (?)", [identity])
        base.commit()
        row = base.execute("SELECT id FROM model WHERE identity = ?", [identity]).fetchone()
        return int(row[0])

    def find(self, sentences: Sequence[bytes]) -> Scores:
        """The log-likelihoods that are there."""
        found: Scores = {}
        with self._sqlite_errors():
            for start in range(0, len(sentences), 500):
                some = sentences[start : start + 500]
                places = ",".join("?" * len(some))
                query = "SELECT sentence, tokens, checksum FROM score WHERE model = ? AND sentence "
                rows = self._base.execute(f"{query}IN ({places})", [self._model, *some])
                found.update(
                    (key, np.frombuffer(value, dtype="<f4"))
                    for key, value, checksum in rows
                    if _row_is_whole(self._identity, key, value, checksum)
                )
        return found

    def add(self, scores: Scores) -> None:
        """Keep some scores; they are in the file when this returns."""
        tokens = {key: np.asarray(value, "<f4").tobytes() for key, value in scores.items()}
        rows = [
            (self._model, key, value, _checksum(self._identity, key, value))
            for key, value in tokens.items()
        ]
        with self._sqlite_errors(), self._base:
            self._base.executemany("INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"{self.path}: the cache of scores cannot be made there ({error.strerror}); name "
                "another file"
            ) from None
        except sqlite3.OperationalError as error:
            raise DataError(
                f"{self.path}: the cache of scores cannot be used ({line_of(error)}); make "
                "room, or name another file"
            ) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # the latter of SQLite's own message
            raise DataError(
                f"{self.path}: the cache of scores is damaged, or no cache; remove it or name "
                "another file"
            ) from None

    def remove(self) -> None:
        """Close the file and remove it."""
        self._base.close()
        for name in (self.path.name, f"{self.path.name}-journal"):
            self.path.with_name(name).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()
