"""The folder of results: their files, and in SQLite what each shows and where it was sent.

Only its owner may read it.  A file is complete before its row is written; if a row's file is
missing or changed, the result is made again under the same UIDs.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import DataError, DiskError
from cxrtext.files import replacing, sha256
from cxrtext.files.sqlite import (
    check_once,
    make_tables,
    open_database,
    sqlite_errors,
    transaction,
)
from cxrtext.pacs.identity import uid

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

FILE = "results.sqlite"
VERSION = 2
OBJECTS = "objects"

_TABLES = """
CREATE TABLE results (
  instance TEXT PRIMARY KEY,               -- its SOPInstanceUID
  series TEXT NOT NULL,
  study TEXT NOT NULL,                     -- StudyInstanceUID
  kind TEXT NOT NULL,                      -- sc, sr or reject
  source TEXT NOT NULL,                    -- SOPInstanceUID of the image
  study_id TEXT NOT NULL,                  -- the archive's ids of study and patient
  patient_id TEXT NOT NULL,
  sentence TEXT NOT NULL,
  model TEXT NOT NULL,
  file TEXT NOT NULL,                      -- below the folder
  digest TEXT NOT NULL,                    -- SHA-256 of the file
  made TEXT NOT NULL,                      -- UTC
  revoked TEXT                             -- when it was taken back, UTC
);
CREATE INDEX results_study ON results (study_id);
CREATE INDEX results_uid ON results (study);
CREATE TABLE sent (
  instance TEXT NOT NULL REFERENCES results (instance) ON DELETE CASCADE,
  peer TEXT NOT NULL,
  at TEXT NOT NULL,                        -- UTC; '' if sending began and may have succeeded
  PRIMARY KEY (instance, peer)
);
CREATE TABLE answered (
  rule TEXT NOT NULL,                      -- a digest of a peer's rule and a model
  image TEXT NOT NULL,                     -- its id in the index
  received TEXT NOT NULL,                  -- UTC
  fault TEXT NOT NULL,                     -- why it gave no results; '' if it did
  PRIMARY KEY (rule, image, received)
);
CREATE TABLE approved (rule TEXT PRIMARY KEY, at TEXT NOT NULL);  -- by somebody, after a preview
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A result in the folder; its fields are the columns."""

    instance: str
    series: str
    study: str
    kind: str
    source: str
    study_id: str
    patient_id: str
    sentence: str
    model: str
    file: str
    digest: str
    made: str
    revoked: str | None = None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class ResultsFolder:
    """The results in a folder, which is made if it is missing.

    Args:
        create: False only to read; then a folder without results is a DataError.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not create and not (path / FILE).is_file():
            raise DataError(f"{path}: holds no results ({FILE}); a peer's rule makes them")
        if create:
            with self._disk():
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                (path / OBJECTS).mkdir(mode=0o700, exist_ok=True)
        with self._opened(write=create) as database:
            told: Any = {"wrong": DataError, "mend": "name a new folder", "write": create}
            make_tables(database, path / FILE, _TABLES, VERSION, **told)
            check_once(database, path / FILE)

    @contextmanager
    def _opened(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        where = self.path / FILE
        with (
            sqlite_errors(where, DataError, "restore the folder from a copy"),
            closing(open_database(where, write=write)) as database,
        ):
            yield database

    @contextmanager
    def _database(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A consistent view of the rows; with ``write``, all changes of the block or none."""
        with self._opened(write=write) as database, transaction(database, write=write):
            yield database

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskError(
                f"{self.path}: {error.strerror}; make room on the disk, and see that it can be "
                "written"
            ) from None

    def find(self, instance: str) -> Kept | None:
        """The result with a UID, if it is here and its file is unchanged."""
        rows = self._rows("WHERE instance = ?", [instance])
        return rows[0] if rows and self.is_whole(rows[0]) else None

    def is_whole(self, kept: Kept) -> bool:
        path = self.path / kept.file
        return path.is_file() and sha256(path) == kept.digest

    def put(self, built: "Dataset", **facts: str) -> Kept:
        """Write an object, replacing one with its UID; ``facts`` are what it does not say."""
        instance = str(built.SOPInstanceUID)
        name = f"{OBJECTS}/{facts['kind']}-{uid(instance)[-24:]}.dcm"
        data = BytesIO()  # with a file, pydicom's errors would have many lines
        built.save_as(data, enforce_file_format=True)
        # One at a time, so that the row describes the file.
        with self._disk(), self._database(write=True) as database:
            with replacing(self.path / name) as temporary:
                temporary.write_bytes(data.getbuffer())
                os.chmod(temporary, 0o600)  # noqa: PTH101
                digest = sha256(temporary)
            kept = Kept(
                instance=instance,
                series=str(built.SeriesInstanceUID),
                study=str(built.StudyInstanceUID),
                file=name,
                digest=digest,
                made=now(),
                **facts,
            )
            values = {name: getattr(kept, name) for name in Kept.__slots__}
            # A replaced row keeps whether it was taken back and where it was sent.
            changed = [name for name in values if name not in ("instance", "revoked")]
            database.execute(
                f"INSERT INTO results VALUES ({','.join('?' * len(values))}) "  # noqa: S608
                "ON CONFLICT (instance) DO UPDATE SET "
                + ", ".join(f"{name} = excluded.{name}" for name in changed),
                list(values.values()),
            )
        return kept

    def _change(self, sql: str, *rows: Sequence[str]) -> int:
        """Run a statement for each row, all or none; gives how many rows changed."""
        with self._database(write=True) as database:
            return database.executemany(sql, rows).rowcount

    def _ask(self, sql: str, *values: str | bool) -> list[tuple[Any, ...]]:
        with self._database() as database:
            return database.execute(sql, values).fetchall()

    def all(self, **where: str) -> list[Kept]:
        """Results whose columns have these values, oldest first."""
        tests = " AND ".join(f"{name} = ?" for name in where)
        return self._rows(f"WHERE {tests}" if tests else "", list(where.values()))

    def sent_to(self, peer: str) -> frozenset[str]:
        return frozenset(result for result, peers in self.peers().items() if peer in peers)

    def peers(self, *, begun: bool = False) -> Mapping[str, list[str]]:
        """The peers that have each result, by its UID; ``begun`` adds those that may have it."""
        peers: dict[str, list[str]] = {}
        query = "SELECT instance, peer FROM sent WHERE at <> '' OR ? ORDER BY peer"
        for instance, peer in self._ask(query, begun):
            peers.setdefault(instance, []).append(peer)
        return peers

    def begin(self, result: Kept, peer: str) -> bool:
        """Note that a result is about to be sent; False if it was taken back."""
        query = (
            "INSERT INTO sent SELECT instance, ?, '' FROM results "
            "WHERE instance = ? AND revoked IS NULL ON CONFLICT DO UPDATE SET at = at"
        )
        return self._change(query, (peer, result.instance)) > 0

    def note_sent(self, instances: Sequence[str], peer: str) -> None:
        self._change(
            "INSERT INTO sent VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET at = excluded.at WHERE at = ''",
            *((instance, peer, now()) for instance in instances),
        )

    def note_revoked(self, instances: Sequence[str]) -> None:
        """Take results back, all at one time that no other call shares."""
        at = datetime.now(UTC).isoformat()
        self._change(
            "UPDATE results SET revoked = coalesce(revoked, ?) WHERE instance = ?",
            *((at, instance) for instance in instances),
        )

    def answered(self, rule: str, images: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Of these images, each with its time of receipt, those that a rule is done with."""
        with self._database() as database:
            return {
                key
                for key in images
                if database.execute(
                    "SELECT 1 FROM answered WHERE (rule, image, received) = (?, ?, ?)",
                    [rule, *key],
                ).fetchone()
            }

    def note_answered(self, rule: str, image: str, received: str, fault: str) -> None:
        self._change(
            "INSERT OR IGNORE INTO answered VALUES (?, ?, ?, ?)", (rule, image, received, fault)
        )

    def approve(self, rule: str) -> None:
        """Allow a rule to make and send results from now on."""
        self._change("INSERT OR IGNORE INTO approved VALUES (?, ?)", (rule, now()))

    def is_approved(self, rule: str) -> bool:
        return bool(self._ask("SELECT 1 FROM approved WHERE rule = ?", rule))

    def sent_since(self, peer: str, at: datetime) -> int:
        """How many results a peer was sent since a time, not counting rejection notes."""
        query = (
            "SELECT count(*) FROM sent JOIN results USING (instance) "
            "WHERE peer = ? AND at >= ? AND kind <> 'reject'"
        )
        ((count,),) = self._ask(query, peer, at.astimezone(UTC).isoformat(timespec="seconds"))
        return int(count)

    def tally(self) -> Mapping[tuple[str, str], int]:
        """How many results each peer was sent, by peer and kind."""
        rows = self._ask(
            "SELECT peer, kind, count(*) FROM sent JOIN results USING (instance) "
            "WHERE at <> '' GROUP BY 1, 2"
        )
        return {(peer, kind): count for peer, kind, count in rows}

    def _rows(self, where: str, values: Sequence[str]) -> list[Kept]:
        rows = self._ask(
            f"SELECT * FROM results {where} ORDER BY made, rowid",  # noqa: S608
            *values,
        )
        return [Kept(*row) for row in rows]
