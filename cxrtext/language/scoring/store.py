"""The sentences of a scoring run while it lasts, and the scores of one that was stopped."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError, WorkError, line_of
from cxrtext.language.class_probability import Words
from cxrtext.language.eta.fit import fit_class_probability
from cxrtext.language.eta.statistics import EtaReport
from cxrtext.language.scoring.cache import ScoreCache, digest_of
from cxrtext.language.scoring.score import Group, Pieces, Scores, groups_of, total
from cxrtext.language.scoring.settings import ScoreSettings
from cxrtext.records import Sentence

PAGE = 500  # sentences that are looked up at once

_SCHEMA = """
PRAGMA journal_mode = OFF;
CREATE TABLE text (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    length INTEGER NOT NULL,
    pieces BLOB NOT NULL,
    words INTEGER NOT NULL,
    unknown INTEGER NOT NULL,
    has_eta INTEGER NOT NULL,
    count INTEGER NOT NULL DEFAULT 1,
    cached INTEGER NOT NULL DEFAULT 0,
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
"""


class PartialScores(ScoreCache):
    """The scores of a run that is not at its end, readable by their owner alone."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        name = json.dumps(identity, sort_keys=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        try:
            super().__init__(path, name)
            whole = self._base.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
        except (DataError, sqlite3.DatabaseError):
            whole = False
        if not whole:  # a power cut, or another program, may have damaged what a kill cannot
            self.remove()
            path.touch(mode=0o600)
            super().__init__(path, name)

    def _unusable(self, error: sqlite3.Error) -> WorkError:
        return WorkError(
            f"{self.path}: the work file cannot be used ({line_of(error)}); make room on the disk "
            "and start again to go on, or remove the file to begin anew"
        )


class SentenceStore:
    """The sentences of a run in order, and the distinct ones among them with their scores."""

    def __init__(self) -> None:
        self.base = sqlite3.connect("", isolation_level=None)
        self.base.executescript(_SCHEMA)

    def add(self, sentence: Sentence, pieces: Pieces, words: Words) -> None:
        (number,) = self.base.execute(
            "INSERT INTO text (digest, length, pieces, words, unknown, has_eta) "
            "VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET count = count + 1 RETURNING id",
            [
                digest_of(pieces),
                len(pieces),
                np.asarray(pieces, "<i4").tobytes(),
                words.words,
                words.unknown,
                not words.mostly_unknown,
            ],
        ).fetchone()
        place = (sentence.study_id, sentence.section, sentence.position, sentence.sentence)
        insert = "INSERT INTO sentence (study_id, section, position, sentence, text) "
        self.base.execute(f"{insert}VALUES (?, ?, ?, ?, ?)", [*place, number])

    def numbers(self, query: str) -> tuple[int, ...]:
        """The one row of a query, as whole numbers."""
        return tuple(map(int, self.base.execute(query).fetchone()))

    def counts(self) -> dict[str, int]:
        """What a summary counts, by its names."""
        names = ("distinct_sentences", "sentences", "tokens", "words", "unknown_words")
        values = self.numbers(
            "SELECT count(*), total(count), total(length * count), total(words * count), "
            "total(unknown * count), total((NOT has_eta) * count), total(cached) FROM text"
        )
        return dict(zip((*names, "without_eta", "from_cache"), values, strict=True))

    def set_scores(self, scores: Scores) -> None:
        self.base.executemany(
            "UPDATE text SET tokens = ?, log_likelihood = ? WHERE digest = ?",
            [(np.asarray(v, "<f4").tobytes(), total(v), digest) for digest, v in scores.items()],
        )

    def look_up(self, partial: ScoreCache | None, cache: ScoreCache | None) -> int:
        """Take over the scores that are there; gives how many are a stopped run's.

        Only what the cache alone has is left out of the groups: they are those of the stopped run.
        """
        resumed = 0
        rows = self.base.execute("SELECT digest FROM text ORDER BY id")
        while page := [digest for (digest,) in rows.fetchmany(PAGE)]:
            ours = partial.find(page) if partial else {}
            cached = cache.find(page) if cache else {}
            if cache:
                cache.add({digest: ours[digest] for digest in ours.keys() - cached.keys()})
            self.set_scores({**cached, **ours})
            known = [[digest] for digest in cached.keys() - ours.keys()]
            self.base.executemany("UPDATE text SET cached = 1 WHERE digest = ?", known)
            resumed += len(ours)
        return resumed

    def groups(self, window: int, batch_tokens: int) -> Iterator[Group]:
        """Groups of one length with something left to score, shortest first."""
        rows = self.base.execute(
            "SELECT length, digest, pieces, tokens IS NULL FROM text WHERE cached = 0 "
            "ORDER BY length, id"
        )
        for group in groups_of(rows, lambda row: int(row[0]), window, batch_tokens):
            if any(missing for *_, missing in group):
                yield [
                    (digest, tuple(np.frombuffer(pieces, "<i4").tolist()))
                    for _, digest, pieces, _ in group
                ]

    def eta_report(self, settings: ScoreSettings, model: str) -> EtaReport:
        """The scored corpus with a and k, fitted where that is wanted."""
        rows = self.base.execute(
            "SELECT log_likelihood, count FROM text WHERE has_eta = 1 ORDER BY id"
        )
        table = np.fromiter(rows, dtype=[("log_likelihood", "f8"), ("count", "i8")])
        values, count = table["log_likelihood"].copy(), table["count"].copy()
        fit = fit_class_probability(values, count) if settings.fit else None
        a, k = (fit.a, fit.k) if fit else (settings.a, settings.k)
        return EtaReport(values, count, a, k, model, fit=fit)

    def results(self) -> Iterator[tuple[Sentence, Words, NDArray[np.int32], NDArray[np.float32]]]:
        """Every sentence in order, with its words, its word pieces and their log-likelihoods."""
        rows = self.base.execute(
            "SELECT study_id, section, position, sentence, length, log_likelihood, words, unknown, "
            "pieces, tokens FROM sentence JOIN text ON text.id = sentence.text ORDER BY sentence.id"
        )
        for study, section, place, text, length, value, words, unknown, pieces, tokens in rows:
            yield (
                Sentence(study, section, place, text, length, value, None, unknown),
                Words(words, unknown),
                np.frombuffer(pieces, "<i4"),
                np.frombuffer(tokens, "<f4"),
            )


@contextmanager
def open_store() -> Iterator[SentenceStore]:
    """Open a temporary database; it is gone at the end, and when the process is killed."""
    work = SentenceStore()
    try:
        yield work
    except sqlite3.Error as error:
        raise WorkError(
            f"the temporary folder has no room for the sentences ({error}); make room, or set "
            "SQLITE_TMPDIR to a folder that has some"
        ) from None
    finally:
        work.base.close()
