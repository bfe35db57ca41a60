"""Sums of the rows of SQLite tables, by which a flipped bit in any cell is noticed.

SQLite notices when its pages no longer hang together, and not when a letter or a digit in a cell
has changed.  Triggers keep one number a table, the sum of a digest of every row; it is compared
with the rows when the file is opened.
"""

import hashlib
import sqlite3
from collections.abc import Sequence

SUMS_TABLE = "row_sums"
SCHEMA = "sqlite_master"

_MASK = 2**48 - 1


def _digest(text: str | None) -> int:
    if text is None:
        return 0
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6)
    return int.from_bytes(digest.digest(), "big")


def strict_text(data: bytes) -> str:
    """A text of SQLite, for ``text_factory``: its own error would quote a text that is damaged."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise sqlite3.DatabaseError("a text is not UTF-8") from None


def prepare(database: sqlite3.Connection) -> None:
    """Give a connection what the sums need; for every connection that changes a table with sums."""
    database.text_factory = strict_text
    database.create_function("row_digest", 1, _digest, deterministic=True)
    # Else a row that INSERT OR REPLACE removes would stay in its table's sum.
    database.execute("PRAGMA recursive_triggers = ON")


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    if table == SCHEMA:
        return ["name", "sql"]  # not where a table begins, which VACUUM changes
    return [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]


def _expression(table: str, columns: Sequence[str], row: str) -> str:
    """SQL of a row's digest: of columns that are not NULL, so that later ones do not change it."""
    cells = " || ".join(
        f"iif({row}.\"{name}\" IS NULL, '', '{name}=' || quote({row}.\"{name}\") || ';')"
        for name in columns
    )
    return f"row_digest('{table}:' || {cells})"


def keep_sums(database: sqlite3.Connection, tables: Sequence[str]) -> None:
    """Keep a sum for each of some tables from now on, in the caller's transaction.

    To be called again when a table has got more columns; rows so far are added up where a table
    has no sum yet.  The connection is one that :func:`prepare` prepared.
    """
    database.execute(
        f"CREATE TABLE IF NOT EXISTS {SUMS_TABLE} (name TEXT PRIMARY KEY, sum INTEGER NOT NULL)"
    )
    for table in tables:
        columns = _columns(database, table)
        changes = {
            "insert": _expression(table, columns, "NEW"),
            "delete": f"-{_expression(table, columns, 'OLD')}",
            "update": f"{_expression(table, columns, 'NEW')} - "
            f"{_expression(table, columns, 'OLD')}",
        }
        for event, change in changes.items():
            database.execute(f"DROP TRIGGER IF EXISTS {SUMS_TABLE}_{table}_{event}")
            kept = f"UPDATE {SUMS_TABLE} SET sum = (sum + {change}) & {_MASK}"  # noqa: S608
            database.execute(
                f"CREATE TRIGGER {SUMS_TABLE}_{table}_{event} AFTER {event.upper()} ON {table} "
                f"BEGIN {kept} WHERE name = '{table}'; END"
            )
        database.execute(
            f"INSERT OR IGNORE INTO {SUMS_TABLE} VALUES (?, ?)",  # noqa: S608 - a constant
            (table, _sum_of(database, table)),
        )


def guard(database: sqlite3.Connection, *, keep: bool = True) -> None:
    """Compare the tables of a file with their sums; ``keep`` makes those of a file without any.

    For files whose tables stay as they are made: their definitions are compared, too
    (sqlite3.DatabaseError).  The connection is prepared, and in no transaction: others may write
    while rows are compared.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for begin in ("BEGIN", "BEGIN IMMEDIATE")[: 1 + keep]:
        with database:
            database.execute(begin)
            tables = {name for (name,) in database.execute(query)}
            if SUMS_TABLE in tables:
                _compare(database, sorted(tables - {SUMS_TABLE}))
                return
            if begin != "BEGIN":
                keep_sums(database, sorted(tables))
                sums = (SCHEMA, _sum_of(database, SCHEMA))
                database.execute(f"INSERT INTO {SUMS_TABLE} VALUES (?, ?)", sums)  # noqa: S608


def unguard(database: sqlite3.Connection) -> None:
    """Drop the sums, for tables that are about to change; `guard` makes them anew."""
    query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE ?"
    for (name,) in database.execute(query, (f"{SUMS_TABLE}%",)).fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute(f"DROP TABLE IF EXISTS {SUMS_TABLE}")


def _compare(database: sqlite3.Connection, tables: Sequence[str]) -> None:
    (state,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError(state)
    if damaged := damaged_tables(database, [SCHEMA, *tables]):
        raise sqlite3.DatabaseError(f"table {damaged[0]}: a row is damaged")


def _sum_of(database: sqlite3.Connection, table: str) -> int:
    expression = _expression(table, _columns(database, table), table)
    try:
        rows = database.execute(f"SELECT {expression} FROM {table}")  # noqa: S608 - our names
        return sum(int(row[0]) for row in rows) & _MASK
    except sqlite3.OperationalError as error:
        if "user-defined function" not in str(error):
            raise
        raise sqlite3.DatabaseError(f"table {table}: a text is not UTF-8") from None


def damaged_tables(database: sqlite3.Connection, tables: Sequence[str]) -> list[str]:
    """Tables with damaged rows; prepared, and in a transaction if another process may write."""
    kept = dict(database.execute(f"SELECT name, sum FROM {SUMS_TABLE}").fetchall())  # noqa: S608
    return [table for table in tables if kept.get(table) != _sum_of(database, table)]
