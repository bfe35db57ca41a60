"""SQLite files: opened in one way, changed whole or not at all, their faults said in one line."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cxrtext.errors import CxrTextError, DiskError, HeldError, kind_of, line_of

WAIT_S = 30.0  # how long to wait while another process commits


def open_database(
    path: Path | None,
    *,
    write: bool = True,
    wait_s: float = WAIT_S,
    threads: bool = False,
    journal: str | None = None,
) -> sqlite3.Connection:
    """Open a file; with ``write``, a missing one is made for its owner alone.

    Deleted data are overwritten, and texts are UTF-8.  Each statement is a transaction unless
    :func:`transaction` begins one.  Use :func:`sqlite_errors` around it for errors.

    Args:
        path: The file; None for a temporary one, which is gone when it is closed.
        threads: Whether other threads than this one may use the connection.
        journal: SQLite's ``journal_mode``; None leaves the file's own.
    """
    where, mode = "", ""
    if path is not None:
        # A reader rolls back the changes of a killed writer, and needs the right to write.
        may_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        mode = "?mode=rwc" if write else "?mode=rw" if may_write else "?mode=ro"
        where = path.resolve().as_uri()
        if write:
            with suppress(OSError):  # SQLite says what is wrong
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(
        f"{where}{mode}", uri=True, check_same_thread=not threads, timeout=wait_s,
        isolation_level=None,
    )  # fmt: skip
    try:
        database.text_factory = strict_text
        database.execute("PRAGMA foreign_keys = ON")
        if write:
            database.execute("PRAGMA secure_delete = ON")
            if journal is not None:
                database.execute(f"PRAGMA journal_mode = {journal}")
            database.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
            _drop_row_sums(database)
        else:
            database.execute("PRAGMA query_only = ON")
    except BaseException:
        database.close()
        raise
    return database


def strict_text(data: bytes) -> str:
    """A text of SQLite, for ``text_factory``: SQLite's own error would quote damaged text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise sqlite3.DatabaseError("a text is not UTF-8") from None


def _drop_row_sums(database: sqlite3.Connection) -> None:
    """Drop the row sums that earlier versions kept with triggers."""
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'row_sums'").fetchone() is None:
        return
    triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'row_sums_%'"
    with transaction(database):
        for (name,) in database.execute(triggers).fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DROP TABLE IF EXISTS row_sums")


@contextmanager
def transaction(
    database: sqlite3.Connection, *, write: bool = True
) -> Iterator[sqlite3.Connection]:
    """One consistent view of a file; with ``write``, all changes of the block or none."""
    database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def make_tables(
    database: sqlite3.Connection,
    path: Path | None,
    schema: str,
    version: int,
    *,
    wrong: type[CxrTextError],
    mend: str,
    write: bool = True,
) -> None:
    """Make the tables of an empty file; refuse one that has others or another version.

    Args:
        schema: SQL of the tables; each statement ends with its line.
        version: Of the schema, kept as SQLite's ``user_version``.
        wrong: Raised if the file has another version; its message ends with ``mend``.
        write: False only checks the version.
    """
    version_of = "PRAGMA user_version"
    if write:
        with transaction(database):
            (old,) = database.execute(version_of).fetchone()
            if database.execute("SELECT 1 FROM sqlite_master").fetchone() is None and old == 0:
                for statement in schema.split(";\n"):
                    database.execute(statement)
                database.execute(f"{version_of} = {version}")
    (present,) = database.execute(version_of).fetchone()
    if present != version:
        raise wrong(
            f"{path}: is of another version of cxrtext ({present}, this one has {version}), or "
            f"something else; {mend}"
        )


_sound: set[tuple[Path, int]] = set()  # files, by path and inode, that this process has checked


def check_once(database: sqlite3.Connection, path: Path) -> None:
    """Check a file's pages when this process first opens it (sqlite3.DatabaseError).

    Use it for files opened for every request; ``check-files`` checks them at any time.
    """
    file = path, path.stat().st_ino
    if file not in _sound:
        check_pages(database)
        _sound.add(file)


def check_pages(database: sqlite3.Connection) -> None:
    """Check that a file's pages are consistent (sqlite3.DatabaseError)."""
    (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError(state)


@contextmanager
def sqlite_errors(
    where: Path | str,
    wrong: type[CxrTextError],
    mend: str,
    again: str = "then run the same command again: what was there is kept",
) -> Iterator[None]:
    """Turn SQLite's errors into one line (HeldError, DiskError, WorkError).

    Args:
        where: The file, or its name.
        wrong: Raised if the file is damaged; its message ends with ``mend``.
        again: What to do after a disk was full, or another process held the file.
    """
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from SQLite's own message
        if is_damage(error):
            raise wrong(f"{where}: is damaged ({line_of(error)}); {mend}") from None
        kind = kind_of(error)
        advice = {
            HeldError: "another process has it open: stop that, or try again in a moment",
            DiskError: "make room on the disk, and check the right to write",
        }.get(kind, "check the free space, the right to write, and that no other process holds it")
        raise kind(f"{where}: {line_of(error)}; {advice}, {again}") from None


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether SQLite complains about the file, not about the disk or another process."""
    if isinstance(error, sqlite3.OperationalError):
        # Our own SQL fits a whole file.
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError)
