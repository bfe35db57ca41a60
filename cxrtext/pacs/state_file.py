"""A small SQLite file in which a process keeps how far it has come."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from cxrtext.errors import DataError, kind_of, line_of
from cxrtext.files.table_sums import guard, prepare


class StateFile:
    """The tables of a schema in a file, made when missing, for its owner alone; of one thread.

    Args:
        path: The file; None keeps it in memory.
        schema: SQL that makes the tables of a new file.
        version: Of the schema.
        mend: What to do about a file of another version.
        name: What the state in memory is called in messages.
        sync: Whether each change is on disk when it is made; else the last may be lost with the
            power, though not with the process.

    Raises:
        DataError: The file is something else, damaged, or of another version.
        WorkError: It cannot be read or written.
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
            if path is not None:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            where = ":memory:" if path is None else path.absolute().as_uri()
            self._db = sqlite3.connect(where, uri=True, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found not in (0, version):
                raise DataError(f"{path}: of another version of cxrtext; {mend}")
            if found == 0:
                self._db.executescript(f"BEGIN;{schema}PRAGMA user_version = {version};COMMIT;")
            if path is not None:
                prepare(self._db)
                guard(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise kind_of(error)(f"{self._where}: {line_of(error)}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter of its message
            said = f"is damaged ({line_of(error)}); {self._mend}"
            raise DataError(f"{self._where}: {said}") from None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep all changes of the block or none."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, sql: str, *values: str | int) -> list[tuple[str, ...]]:
        with self._told():
            return self._db.execute(sql, values).fetchall()

    def _change(self, sql: str, *values: str | int) -> None:
        with self._told():
            self._db.execute(sql, values)
