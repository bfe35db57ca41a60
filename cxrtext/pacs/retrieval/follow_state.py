"""What is known of a followed peer: how far its changes were read, and every object seen there."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cxrtext.errors import ConfigError
from cxrtext.pacs.retrieval.pull_state import State, StateFile

VERSION = 1

SeenState = Literal["entered", "left", "gone"]

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE studies (
    study TEXT PRIMARY KEY, day TEXT NOT NULL, objects TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX studies_by_day ON studies (day);
CREATE TABLE pending (
    study TEXT PRIMARY KEY, attempts INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE renewed (instance TEXT PRIMARY KEY) WITHOUT ROWID;
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
    header: str  # fingerprint of what the peer said of it


class FollowState(StateFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA, VERSION, mend="move it away")

    def fact(self, name: str) -> str:
        """Something noted by name; "" where it was not."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return rows[0][0] if rows else ""

    def note(self, name: str, value: str) -> None:
        self._change("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

    def pend(self, studies: Iterable[str], renewed: Iterable[str] = ()) -> None:
        with self._told():
            self._db.executemany(
                "INSERT OR IGNORE INTO pending (study) VALUES (?)", [(one,) for one in studies]
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO renewed VALUES (?)", [(one,) for one in renewed]
            )

    def pending(self, tries: int) -> list[str]:
        """Studies that are to be looked at, without those that were tried so often in vain."""
        rows = self._rows(
            "SELECT study FROM pending WHERE attempts < ? ORDER BY attempts, study", tries
        )
        return [study for (study,) in rows]

    def waiting(self) -> int:
        return int(self._rows("SELECT count(*) FROM pending")[0][0])

    def fail(self, study: str, reason: str) -> None:
        self._change(
            "UPDATE pending SET attempts = attempts + 1, reason = ? WHERE study = ?", reason, study
        )

    def try_again(self) -> None:
        self._change("UPDATE pending SET attempts = 0")

    def looked_at(self, study: str) -> None:
        with self.together():
            self._db.execute(
                "DELETE FROM renewed WHERE instance IN "
                "(SELECT instance FROM instances WHERE study = ?)",
                (study,),
            )
            self._db.execute("DELETE FROM pending WHERE study = ?", (study,))

    def is_renewed(self, instance: str) -> bool:
        """Whether an object came anew since it was looked at."""
        return bool(self._rows("SELECT 1 FROM renewed WHERE instance = ?", instance))

    def know_study(self, study: str, day: str, objects: str) -> bool:
        """Note a study; whether it is new, or has another number of objects than before."""
        known = self._rows("SELECT day, objects FROM studies WHERE study = ?", study)
        self._change("INSERT OR REPLACE INTO studies VALUES (?, ?, ?)", study, day, objects)
        return not known or known[0][1] != objects

    def place_study(self, study: str, day: str) -> None:
        """Note the day of a study, where it is said; what is known of its objects stays."""
        self._change(
            "INSERT INTO studies VALUES (?, ?, '') ON CONFLICT DO UPDATE SET "
            "day = iif(excluded.day = '', day, excluded.day)",
            *(study, day),
        )

    def studies_of(self, day: str) -> list[str]:
        """The studies of a day of which objects are here."""
        rows = self._rows(
            "SELECT study FROM studies WHERE day = ? AND EXISTS (SELECT 1 FROM instances i "
            "WHERE i.study = studies.study AND i.state <> 'gone')",
            day,
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

    def counts(self) -> dict[str, int]:
        rows = self._rows("SELECT state, count(*) FROM instances GROUP BY 1")
        return {state: int(count) for state, count in rows}

    def learn_pull(self, path: Path) -> int:
        """Take over what a pull knows (`pull.sqlite`), so that its objects are known; how many."""
        if not path.is_file():
            raise ConfigError(f"{path}: no such file; --pulled names the folder of a pull")
        State(path).__exit__()  # which compares it
        with self._told():
            self._db.execute("ATTACH ? AS pull", (f"{path.absolute().as_uri()}?mode=ro",))
            try:
                before = sum(self.counts().values())
                with self.together():
                    self._db.execute(
                        "INSERT OR IGNORE INTO studies "
                        "SELECT study, day, '' FROM pull.studies WHERE state = 'listed'"
                    )
                    self._db.execute(
                        "INSERT OR IGNORE INTO instances SELECT instance, study, "
                        "iif(state = 'fetched', 'entered', 'left'), reason, header "
                        "FROM pull.instances WHERE state IN ('fetched', 'left')"
                    )
                return sum(self.counts().values()) - before
            finally:
                self._db.execute("DETACH pull")
