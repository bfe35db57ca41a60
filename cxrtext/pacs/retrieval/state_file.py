"""A small SQLite file in which a process keeps how far it has come."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from cxrtext.errors import DataError
from cxrtext.files.sqlite import make_tables, open_database, sqlite_errors, transaction
from cxrtext.files.table_sums import guard


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
