"""What we know about a followed peer, in a small SQLite file that survives a kill.

It notes how far the peer's changes and days were read, its studies, and every object seen there.
Something is noted as done only after it was done: after a kill the last few steps are repeated,
with the same result.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from cxrtext.errors import DataError
from cxrtext.files.sqlite import (
    check_pages,
    make_tables,
    open_database,
    sqlite_errors,
    transaction,
)

VERSION = 3
MEND = "restore it from a backup, or move it away: everything is then asked for again"

SeenState = Literal["entered", "left", "gone"]

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE studies (
    study TEXT PRIMARY KEY, day TEXT NOT NULL, objects TEXT NOT NULL, looked REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX studies_by_day ON studies (day);
CREATE TABLE pending (
    study TEXT PRIMARY KEY, attempts INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE renewed (
    number INTEGER PRIMARY KEY, instance TEXT NOT NULL, copy TEXT NOT NULL,
    UNIQUE (instance, copy)
);
CREATE TABLE instances (
    instance TEXT PRIMARY KEY, study TEXT NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL, header TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX instances_by_study ON instances (study);
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as it was when it was last looked at."""

    instance: str
    study: str
    state: SeenState
    reason: str
    header: str  # fingerprint of what the peer said about it


class FollowState:
    """The tables in a file, made if missing and private to its owner; threads may share one."""

    def __init__(self, path: Path) -> None:
        self._where, self._lock = path, threading.RLock()
        with self._told():
            self._db = open_database(path, threads=True, journal="WAL")
            make_tables(self._db, path, _SCHEMA, VERSION, wrong=DataError, mend=MEND)
            check_pages(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        with self._lock, sqlite_errors(self._where, DataError, MEND):
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._told(), transaction(self._db):
            yield

    def _rows(self, sql: str, *values: str | float) -> list[tuple[str, ...]]:
        with self._told():
            return self._db.execute(sql, values).fetchall()

    def _change(self, sql: str, *values: str | float) -> None:
        with self._told():
            self._db.execute(sql, values)

    def fact(self, name: str) -> str:
        """The value noted under a name, or ""."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return rows[0][0] if rows else ""

    def note(self, name: str, value: str) -> None:
        self._change("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

    def pend(self, studies: Iterable[str], renewed: Iterable[Sequence[str]] = ()) -> None:
        """Let studies wait; ``renewed``: objects that came again, each with its number there."""
        with self._told():
            self._db.executemany(
                "INSERT OR IGNORE INTO pending (study) VALUES (?)", [(one,) for one in studies]
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO renewed (instance, copy) VALUES (?, ?)", list(renewed)
            )

    def pending(self, tries: int) -> list[str]:
        """Studies to look at, except those that failed this often."""
        rows = self._rows(
            "SELECT study FROM pending WHERE attempts < ? ORDER BY attempts, study", tries
        )
        return [study for (study,) in rows]

    def fail(self, study: str, reason: str) -> int:
        """Let a study wait for another try; gives the number of tries so far."""
        self._change(
            "INSERT INTO pending VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET "
            "attempts = attempts + 1, reason = excluded.reason",
            *(study, reason),
        )
        return int(self._rows("SELECT attempts FROM pending WHERE study = ?", study)[0][0])

    def try_again(self) -> None:
        self._change("UPDATE pending SET attempts = 0")

    def looked_at(self, study: str, when: float) -> None:
        with self.together():
            self._db.execute(
                "DELETE FROM renewed WHERE instance IN "
                "(SELECT instance FROM instances WHERE study = ?)",
                (study,),
            )
            self._db.execute("DELETE FROM pending WHERE study = ?", (study,))
            self._db.execute("UPDATE studies SET looked = ? WHERE study = ?", (when, study))

    def renewed(self, study: str) -> dict[str, list[str]]:
        """Objects of a study that came again since the last look, and new ones of any study.

        Each with the numbers of its copies, oldest first: some systems keep one copy per patient.
        """
        rows = self._rows(
            "SELECT instance, copy FROM renewed LEFT JOIN instances USING (instance) "
            "WHERE coalesce(study, ?) = ? ORDER BY number",
            *(study, study),
        )
        copies: dict[str, list[str]] = {}
        for instance, copy in rows:
            copies.setdefault(instance, []).append(copy)
        return copies

    def know_study(self, study: str, day: str, objects: str) -> bool:
        """Note a study; True if it is new or has another number of objects than before."""
        known = self._rows("SELECT objects FROM studies WHERE study = ?", study)
        self._change(
            "INSERT INTO studies (study, day, objects) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
            "SET day = excluded.day, objects = excluded.objects",
            *(study, day, objects),
        )
        return not known or known[0][0] != objects

    def counted(self, study: str) -> str:
        """How many objects the peer counts in a study; "" if it does not say."""
        rows = self._rows("SELECT objects FROM studies WHERE study = ?", study)
        return rows[0][0] if rows else ""

    def place_study(self, study: str, day: str) -> None:
        """Note the day of a study if it is given; what is known about its objects stays."""
        self._change(
            "INSERT INTO studies (study, day, objects) VALUES (?, ?, '') ON CONFLICT DO UPDATE SET "
            "day = iif(excluded.day = '', day, excluded.day)",
            *(study, day),
        )

    def here(self, first: str, last: str) -> set[str]:
        """The studies of some days with objects here; ("", "") gives those without a day."""
        rows = self._rows(
            "SELECT study FROM studies WHERE day BETWEEN ? AND ? AND EXISTS (SELECT 1 FROM "
            "instances i WHERE i.study = studies.study AND i.state <> 'gone')",
            *(first, last),
        )
        return {study for (study,) in rows}

    def looked_longest_ago(self, before: str, share: float) -> list[str]:
        """The share of the studies before a day that was looked at longest ago."""
        (count,) = self._rows("SELECT count(*) FROM studies WHERE day < ?", before)[0]
        rows = self._rows(
            "SELECT study FROM studies WHERE day < ? ORDER BY looked, study LIMIT ?",
            *(before, -(-int(count) * share // 1)),
        )
        return [study for (study,) in rows]

    def objects_of(self, study: str) -> dict[str, Seen]:
        rows = self._rows(
            "SELECT instance, study, state, reason, header FROM instances WHERE study = ?", study
        )
        return {row[0]: Seen(*row) for row in rows}  # type: ignore[arg-type]

    def know(self, seen: Seen) -> None:
        self._change(
            "INSERT OR REPLACE INTO instances VALUES (?, ?, ?, ?, ?)",
            *(seen.instance, seen.study, seen.state, seen.reason, seen.header),
        )

    def counts(self) -> dict[tuple[str, str], int]:
        rows = self._rows("SELECT state, reason, count(*) FROM instances GROUP BY 1, 2")
        return {(state, reason): int(count) for state, reason, count in rows}
