"""What a pull knows, in a small SQLite file that survives a kill: questions, studies, instances.

A row says that something was done only after it was done: after a kill the last few are done again,
to the same end.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal, Self

from cxrtext.errors import ConfigError, DataError
from cxrtext.files.sqlite import make_tables, open_database, sqlite_errors, transaction
from cxrtext.files.table_sums import guard

FILE = "pull.sqlite"
VERSION = 2

FetchState = Literal["found", "fetched", "left", "aside", "failed"]
"""An instance waits, is here, may not enter, waits for another try at the end, or failed."""

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE questions (
    kind TEXT NOT NULL, key TEXT NOT NULL, modality TEXT NOT NULL,
    studies INTEGER NOT NULL, cut INTEGER NOT NULL, whole INTEGER NOT NULL,
    PRIMARY KEY (kind, key, modality)
) WITHOUT ROWID;
CREATE TABLE studies (
    study TEXT PRIMARY KEY, day TEXT NOT NULL, counted TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'found', attempts INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '', unusable INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX studies_by_state ON studies (state);
CREATE TABLE instances (
    instance TEXT PRIMARY KEY, study TEXT NOT NULL, series TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0,
    file TEXT NOT NULL DEFAULT '', digest TEXT NOT NULL DEFAULT '',
    bytes INTEGER NOT NULL DEFAULT 0, header TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX instances_by_state ON instances (state);
CREATE INDEX instances_by_study ON instances (study);
"""


@dataclass(frozen=True, slots=True)
class Row:
    instance: str
    study: str
    series: str
    state: FetchState
    reason: str = ""
    file: str = ""
    header: str = ""  # fingerprint of what the peer says of it


class StateFile:
    """The tables of a schema in a file, made when missing, for its owner alone; of one thread.

    Args:
        path: The file; None keeps it while it is open.
        mend: What to do about a file that is damaged, or of another version.
        name: What a state without a file is called in messages.
        sync: Whether each change is on disk when it is made; else the last may be lost with the
            power, though not with the process.
    """

    def __init__(
        self,
        path: Path | None,
        schema: str,
        version: int,
        *,
        mend: str,
        name: str = "",
        sync: bool = True,
    ) -> None:
        self._where, self._mend = name if path is None else str(path), mend
        with self._told():
            self._db = open_database(path, journal="WAL", sync="FULL" if sync else "NORMAL")
            make_tables(self._db, path, schema, version, wrong=DataError, mend=mend)
            if path is not None:
                guard(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def _told(self) -> AbstractContextManager[None]:
        return sqlite_errors(self._where, DataError, self._mend)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep all changes of the block or none."""
        with self._told(), transaction(self._db):
            yield

    def _rows(self, sql: str, *values: str | int) -> list[tuple[str, ...]]:
        with self._told():
            return self._db.execute(sql, values).fetchall()

    def _change(self, sql: str, *values: str | int) -> None:
        with self._told():
            self._db.execute(sql, values)


class State(StateFile):
    def __init__(self, path: Path | None) -> None:
        super().__init__(
            path,
            _SCHEMA,
            VERSION,
            mend="name a new folder",
            name="the state of the pull",
            sync=False,
        )

    def belongs_to(self, peer: str) -> None:
        """Note whose archive this is (ConfigError where it is another peer's)."""
        known = self._rows("SELECT value FROM facts WHERE name = 'peer'")
        if known and known[0][0] != peer:
            raise ConfigError(
                f"{self._where}: was pulled from {known[0][0]!r}; name a folder for {peer!r}"
            )
        self._change("INSERT OR IGNORE INTO facts VALUES ('peer', ?)", peer)

    def answered(self, kind: str, key: str, modality: str) -> bool:
        """Whether a question was asked when its day was over, so that its answer stays."""
        query = "SELECT 1 FROM questions WHERE kind = ? AND key = ? AND modality = ? AND whole"
        return bool(self._rows(query, kind, key, modality))

    def answer(
        self,
        asked: tuple[str, str, str],
        studies: Mapping[str, tuple[str, str]],
        cut: bool,
        whole: bool,
    ) -> None:
        """Note the studies that a question found: the day of each, and its number of objects."""
        with self.together():
            self._db.executemany(
                "INSERT INTO studies (study, day, counted) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
                "SET counted = excluded.counted, "
                "state = iif(? = 0, 'found', state)",  # a day that is not over: look again
                [(study, *said, int(whole)) for study, said in studies.items()],
            )
            self._db.execute(
                "INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?, ?)",
                (*asked, len(studies), int(cut), int(whole)),
            )

    def cut_questions(self) -> int:
        """How many questions the peer may have more answers to than it gave."""
        return int(self._rows("SELECT count(*) FROM questions WHERE cut")[0][0])

    def studies_found(self, limit: int) -> list[tuple[str, str]]:
        """Studies that are not listed yet: UID, and how many objects the peer counts in each."""
        sql = "SELECT study, counted FROM studies WHERE state = 'found' ORDER BY day, study LIMIT ?"
        return [(study, counted) for study, counted in self._rows(sql, limit)]

    def list_study(self, study: str, rows: Iterable[Row], unusable: int, fault: str = "") -> None:
        """Note a study's instances, but for known ones; with ``fault`` it waits for another try."""
        with self.together():
            self._db.executemany(
                "INSERT INTO instances (instance, study, series, state, reason, file, header) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                map(astuple, rows),
            )
            self._db.execute(
                "UPDATE studies SET state = ?, reason = ?, unusable = ? WHERE study = ?",
                ("aside" if fault else "listed", fault, unusable, study),
            )

    def set_aside(self, study: str, reason: str) -> None:
        self._change(
            "UPDATE studies SET state = 'aside', attempts = attempts + 1, reason = ? "
            "WHERE study = ?",
            *(reason, study),
        )

    def retry(self, *states: FetchState) -> int:
        """Let what was set aside or failed be asked for again; gives how many."""
        again = 0
        with self.together():
            for table in ("studies", "instances"):
                for state in states:
                    query = f"UPDATE {table} SET state = 'found' WHERE state = ?"  # noqa: S608
                    again += self._db.execute(query, (state,)).rowcount
        return again

    def give_up(self, table: Literal["studies", "instances"]) -> None:
        self._change(f"UPDATE {table} SET state = 'failed' WHERE state = 'aside'")  # noqa: S608

    def instances_found(self, limit: int) -> list[Row]:
        rows = self._rows(
            "SELECT i.instance, i.study, i.series, i.state, i.reason, i.file, i.header "
            "FROM instances i JOIN studies s USING (study) "
            "WHERE i.state = 'found' ORDER BY s.day, i.study, i.series, i.instance LIMIT ?",
            limit,
        )
        return [Row(*row) for row in rows]  # type: ignore[arg-type]

    def settle(
        self, instance: str, state: FetchState, *, reason: str = "", digest: str = "", size: int = 0
    ) -> None:
        self._change(
            "UPDATE instances SET state = ?, reason = ?, digest = ?, bytes = ?, "
            "attempts = attempts + 1 WHERE instance = ?",
            *(state, reason, digest, size, instance),
        )

    def counts(self, table: Literal["studies", "instances"]) -> dict[tuple[str, str], int]:
        """How many rows are in each state, for each reason."""
        query = f"SELECT state, reason, count(*) FROM {table} GROUP BY 1, 2"  # noqa: S608
        return {(state, reason): int(count) for state, reason, count in self._rows(query)}

    def unusable(self) -> int:
        """How many instances were said to be there under no UID that can be asked for."""
        return int(self._rows("SELECT coalesce(sum(unusable), 0) FROM studies")[0][0])

    def waiting(self, table: Literal["studies", "instances"]) -> int:
        """How many studies wait to be listed, or instances to be fetched."""
        query = f"SELECT count(*) FROM {table} WHERE state IN ('found', 'aside')"  # noqa: S608
        return int(self._rows(query)[0][0])

    def fetched_bytes(self) -> int:
        query = "SELECT coalesce(sum(bytes), 0) FROM instances WHERE state = 'fetched'"
        return int(self._rows(query)[0][0])
