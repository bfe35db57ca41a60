"""A file of log-likelihoods by model and sentence, kept between runs."""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.files.sqlite import make_tables, open_database, sqlite_errors, transaction

FORMAT = 2  # version of the file
BUSY_SECONDS = 120.0  # how long to wait for another process to finish writing

_SCHEMA = """
CREATE TABLE model (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);
CREATE TABLE score (
  model INTEGER NOT NULL, sentence BLOB NOT NULL, tokens BLOB NOT NULL, checksum BLOB NOT NULL,
  PRIMARY KEY (model, sentence)
) WITHOUT ROWID;
"""
_MEND = "if it is a cache of scores, remove it; else name another file"

Scores = dict[bytes, NDArray[np.float32]]  # word pieces' log-likelihoods by sentence digest


def digest_of(pieces: Sequence[int]) -> bytes:
    """A digest of a sentence's word pieces, so that a cache holds no report text."""
    return hashlib.blake2b(
        np.asarray(pieces, dtype="<i4").tobytes(), digest_size=16, person=b"cxrtext pieces"
    ).digest()


def _checksum(identity: str, sentence: bytes, tokens: bytes) -> bytes:
    """The checksum of a row, which reveals flipped bits."""
    return hashlib.blake2b(identity.encode() + sentence + tokens, digest_size=8).digest()


def _row_is_whole(identity: object, sentence: object, tokens: object, checksum: object) -> bool:
    if not (isinstance(identity, str) and isinstance(sentence, bytes)):
        return False
    return isinstance(tokens, bytes) and checksum == _checksum(identity, sentence, tokens)


class ScoreCache:
    """A SQLite file of word pieces' log-likelihoods, by ``identity`` and sentence digest.

    Several processes may use one file at once: SQLite locks it for each read and write.  Each row
    has a checksum; a damaged row counts as unknown, and its sentence is scored again.
    ``identity`` is everything that a score depends on except the sentence.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = identity
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{path}: the cache of scores cannot be made there ({error.strerror}); name "
                "another file"
            ) from None
        with self._errors():
            self._base = open_database(path, wait_s=BUSY_SECONDS)
            try:
                make_tables(self._base, path, _SCHEMA, FORMAT, wrong=DataError, mend=_MEND)
                with transaction(self._base):
                    self._base.execute(
                        "INSERT OR IGNORE INTO model (identity) VALUES (?)", [identity]
                    )
                row = self._base.execute("SELECT id FROM model WHERE identity = ?", [identity])
                self._model = int(row.fetchone()[0])
            except BaseException:
                self._base.close()
                raise

    def _errors(self) -> AbstractContextManager[None]:
        return sqlite_errors(self.path, DataError, _MEND)

    def find(self, sentences: Sequence[bytes]) -> Scores:
        """The log-likelihoods of those sentences that the cache has."""
        scores: Scores = {}
        with self._errors():
            for start in range(0, len(sentences), 500):
                some = sentences[start : start + 500]
                places = ",".join("?" * len(some))
                query = "SELECT sentence, tokens, checksum FROM score WHERE model = ? AND sentence "
                rows = self._base.execute(f"{query}IN ({places})", [self._model, *some])
                scores.update(
                    (key, np.frombuffer(value, dtype="<f4"))
                    for key, value, checksum in rows
                    if _row_is_whole(self._identity, key, value, checksum)
                )
        return scores

    def add(self, scores: Scores) -> None:
        """Save scores; they are in the file when this returns."""
        tokens = {key: np.asarray(value, "<f4").tobytes() for key, value in scores.items()}
        rows = [
            (self._model, key, value, _checksum(self._identity, key, value))
            for key, value in tokens.items()
        ]
        with self._errors(), transaction(self._base):
            self._base.executemany("INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?)", rows)

    def remove(self) -> None:
        """Close the file and remove it."""
        self._base.close()
        for name in (self.path.name, f"{self.path.name}-journal"):
            self.path.with_name(name).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()
