"""The work file of a scoring run: what was read, what is to be scored, and what is done.

It lets the memory stay the same whatever the corpus, and a killed run continue.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import WorkError
from cxrtext.files.table_sums import damaged_tables, keep_sums, prepare
from cxrtext.language.class_probability import Words
from cxrtext.language.scoring.cache import ScoreCache, digest_of
from cxrtext.records import Sentence

FORMAT = 2
"""Version of the file."""

TABLES = ("fact", "text", "sentence", "rejected")
"""The tables whose rows are checked when a run continues."""

PAGE = 2000
"""Rows that are held in memory at once."""

_SCHEMA = """
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE text (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    length INTEGER NOT NULL,
    pieces BLOB NOT NULL,
    words INTEGER NOT NULL,
    unknown INTEGER NOT NULL,
    has_eta INTEGER NOT NULL,
    count INTEGER NOT NULL,
    was_known INTEGER NOT NULL DEFAULT 0,
    log_likelihood REAL,
    tokens BLOB
);
CREATE TABLE sentence (
    id INTEGER PRIMARY KEY,
    study_id TEXT NOT NULL,
    section TEXT NOT NULL,
    position INTEGER NOT NULL,
    sentence TEXT NOT NULL,
    text INTEGER NOT NULL REFERENCES text (id)
);
CREATE TABLE rejected (item TEXT NOT NULL, reason TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class WorkText:
    """A distinct sentence to score.

    Args:
        id: Its number in the file.
        pieces: Its word pieces.
        scored: Whether it has its score.
    """

    id: int
    pieces: tuple[int, ...]
    scored: bool


class ScoreWork:
    """A SQLite file beside the output, readable by its owner alone, removed when the run is done.

    Args:
        path: The file.
        identity: What the work depends on; a file of other work, or a damaged one, is thrown away.

    Raises:
        WorkError: The file cannot be used: most likely the disk is full.  Raised at the end of a
            ``with`` statement too, for what happened within.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self._identity = json.dumps({"format": FORMAT, **identity}, sort_keys=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._base = self._opened() or self._begun()
        except sqlite3.DatabaseError as error:
            raise self._failed(error) from None

    def _failed(self, error: sqlite3.DatabaseError) -> WorkError:
        return WorkError(
            f"{self.path}: the work file cannot be used ({error}); make room on the disk and "
            "start again to go on, or remove the file to begin anew"
        )

    @staticmethod
    def _without_waiting(base: sqlite3.Connection) -> sqlite3.Connection:
        # A kill loses nothing that was handed to the system; after a power cut work starts anew.
        base.execute("PRAGMA synchronous = OFF")
        return base

    def _opened(self) -> sqlite3.Connection | None:
        if not self.path.is_file():
            return None
        base = sqlite3.connect(self.path)
        try:
            prepare(base)
            row = base.execute("SELECT value FROM fact WHERE name = 'identity'").fetchone()
            same = row is not None and row[0] == self._identity
            # A power cut, or another program, may have damaged what a kill cannot.
            whole = same and base.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            if whole and not damaged_tables(base, TABLES):
                return self._without_waiting(base)
        except sqlite3.DatabaseError:
            pass
        base.close()
        return None

    def _begun(self) -> sqlite3.Connection:
        self._unlink()
        self.path.touch(mode=0o600)
        base = self._without_waiting(sqlite3.connect(self.path))
        prepare(base)
        base.executescript(_SCHEMA)
        with base:
            keep_sums(base, TABLES)
            base.execute("INSERT INTO fact VALUES ('identity', ?)", [self._identity])
        return base

    def _unlink(self) -> None:
        for path in (self.path, self.path.with_name(self.path.name + "-journal")):
            path.unlink(missing_ok=True)

    def fact(self, name: str) -> int:
        """A number that the run keeps; 0 when it was never set."""
        row = self._base.execute("SELECT value FROM fact WHERE name = ?", [name]).fetchone()
        return 0 if row is None else int(row[0])

    def set_facts(self, facts: Mapping[str, int]) -> None:
        """Keep numbers; in the file at the next ``commit``."""
        self._base.executemany(
            "INSERT OR REPLACE INTO fact VALUES (?, ?)",
            [(name, str(value)) for name, value in facts.items()],
        )

    def commit(self) -> None:
        """Put everything since the last time into the file."""
        self._base.commit()

    def add_sentences(self, sentences: Iterable[tuple[Sentence, Sequence[int], Words]]) -> None:
        """Add sentences with their word pieces and words, in order."""
        for sentence, pieces, words in sentences:
            row = self._base.execute(
                "INSERT INTO text (digest, length, pieces, words, unknown, has_eta, count) "
                "VALUES (?, ?, ?, ?, ?, ?, 1) "
                "ON CONFLICT (digest) DO UPDATE SET count = count + 1 RETURNING id",
                [
                    digest_of(pieces),
                    len(pieces),
                    np.asarray(pieces, dtype="<i4").tobytes(),
                    words.words,
                    words.unknown,
                    not words.mostly_unknown,
                ],
            ).fetchone()
            self._base.execute(
                "INSERT INTO sentence (study_id, section, position, sentence, text) "
                "VALUES (?, ?, ?, ?, ?)",
                [sentence.study_id, sentence.section, sentence.position, sentence.sentence, row[0]],
            )

    def reject(self, item: str, reason: str) -> int:
        """Set an item aside.

        Returns:
            How many have been.
        """
        self._base.execute("INSERT INTO rejected VALUES (?, ?)", [item, reason])
        return self.count("rejected")

    def rejected(self) -> list[tuple[str, str]]:
        """What was set aside: item and reason."""
        return self._base.execute("SELECT item, reason FROM rejected ORDER BY rowid").fetchall()

    def count(self, table: str) -> int:
        """Number of rows of a table."""
        return int(self._base.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608

    def plan(self, cache: ScoreCache | None) -> None:
        """Take over what a cache knows; only the rest is ever scored for this output.

        What is to be scored is then fixed, so that a killed run makes the same batches again.
        """
        self._base.execute("CREATE INDEX IF NOT EXISTS by_length ON text (was_known, length, id)")
        last = 0
        while rows := self._page("SELECT id, digest FROM text WHERE id > ?", [last]):
            found = {} if cache is None else cache.find([digest for _, digest in rows])
            known = [(number, found[digest]) for number, digest in rows if digest in found]
            self.add_scores(dict(known))
            self._base.executemany(
                "UPDATE text SET was_known = 1 WHERE id = ?", [[number] for number, _ in known]
            )
            last = rows[-1][0]
        self._base.commit()

    def _page(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        order = "" if "ORDER BY" in query else " ORDER BY id"
        return self._base.execute(f"{query}{order} LIMIT {PAGE}", values).fetchall()

    def to_score(self) -> Iterator[WorkText]:
        """The distinct sentences that were not in the cache, shortest first."""
        last = (0, 0)
        while rows := self._page(
            "SELECT id, length, pieces, tokens IS NOT NULL FROM text "
            "WHERE was_known = 0 AND (length, id) > (?, ?) ORDER BY length, id",
            last,
        ):
            for number, _, pieces, scored in rows:
                yield WorkText(number, tuple(np.frombuffer(pieces, "<i4").tolist()), bool(scored))
            last = (rows[-1][1], rows[-1][0])

    def add_scores(self, scores: Mapping[int, NDArray[np.float32]]) -> None:
        """Keep word pieces' log-likelihoods by number of the text."""
        self._base.executemany(
            "UPDATE text SET tokens = ?, log_likelihood = ? WHERE id = ?",
            [
                (np.asarray(value, "<f4").tobytes(), float(value.sum(dtype=np.float64)), number)
                for number, value in scores.items()
            ],
        )

    def digests(self, numbers: Sequence[int]) -> list[bytes]:
        """Digests of some texts."""
        query = "SELECT digest FROM text WHERE id = ?"
        return [self._base.execute(query, [number]).fetchone()[0] for number in numbers]

    def scored(self) -> int:
        """How many distinct sentences have their score."""
        query = "SELECT count(*) FROM text WHERE tokens IS NOT NULL"
        return int(self._base.execute(query).fetchone()[0])

    def known(self) -> int:
        """How many distinct sentences a cache knew when the work was planned."""
        query = "SELECT count(*) FROM text WHERE was_known = 1"
        return int(self._base.execute(query).fetchone()[0])

    def values(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Log-likelihood and number of occurrences of every distinct sentence with η, in order."""
        rows = self._base.execute(
            "SELECT log_likelihood, count FROM text WHERE has_eta = 1 ORDER BY id"
        )
        table = np.fromiter(rows, dtype=[("log_likelihood", "f8"), ("count", "i8")])
        return table["log_likelihood"].copy(), table["count"].copy()

    def example(self, number: int) -> str:
        """A sentence as written, by its place among the distinct ones with η, from 0."""
        query = (
            "SELECT sentence FROM sentence WHERE text = "
            "(SELECT id FROM text WHERE has_eta = 1 ORDER BY id LIMIT 1 OFFSET ?) LIMIT 1"
        )
        return str(self._base.execute(query, [number]).fetchone()[0])

    def results(self) -> Iterator[tuple[Sentence, tuple[int, ...], NDArray[np.float32]]]:
        """Every sentence in order, with its word pieces and their log-likelihoods."""
        last = 0
        while rows := self._page(
            "SELECT sentence.id, study_id, section, position, sentence, length, log_likelihood, "
            "pieces, tokens FROM sentence JOIN text ON text.id = sentence.text "
            "WHERE sentence.id > ? ORDER BY sentence.id",
            [last],
        ):
            for _, study, section, position, text, length, value, pieces, tokens in rows:
                yield (
                    Sentence(study, section, position, text, length, value),
                    tuple(np.frombuffer(pieces, "<i4").tolist()),
                    np.frombuffer(tokens, "<f4"),
                )
            last = rows[-1][0]

    def tokens(self) -> int:
        """Word pieces of all sentences, repeated ones counted."""
        return int(self._base.execute("SELECT total(length * count) FROM text").fetchone()[0])

    def words(self) -> Words:
        """The words of all sentences, repeated ones counted."""
        row = self._base.execute(
            "SELECT total(words * count), total(unknown * count) FROM text"
        ).fetchone()
        return Words(*map(int, row))

    def without_eta(self) -> int:
        """Sentences that are mostly unknown, repeated ones counted."""
        query = "SELECT total(count) FROM text WHERE has_eta = 0"
        return int(self._base.execute(query).fetchone()[0])

    def remove(self) -> None:
        """Remove the file: the output it served is written."""
        self._base.close()
        self._unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._base.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise self._failed(error) from None
