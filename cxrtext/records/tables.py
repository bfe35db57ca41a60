"""Reads whole CSV and Parquet tables, writes them whole or not at all, and lists rejects."""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TextIO

from cxrtext.errors import DataError
from cxrtext.files import replacing
from cxrtext.records.rows import FORMULA, TableRows
from cxrtext.records.study import none_left_out


def plain(value: Any) -> Any:
    """A cell that no spreadsheet runs: a formula gets an apostrophe, which our readers remove."""
    if not isinstance(value, str) or not FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_writer(stream: TextIO) -> Callable[[Iterable[Any]], object]:
    """A function that writes a row of `plain` cells; all our CSV is written by it."""
    writer = csv.writer(stream)
    return lambda cells: writer.writerow(map(plain, cells))


@dataclass(frozen=True, slots=True)
class Table:
    """A table in memory; a missing value is ""."""

    columns: tuple[str, ...]
    rows: list[dict[str, str]]


def require_match(
    path: Path, what: str, keys: Collection[str], owners: Collection[str], column: str, to: Path
) -> None:
    """Refuse a table if none of its rows can be joined.

    A partial match is fine: tables may have more rows, and images come before their reports.

    Args:
        what: What the rows of the table are, such as "reports".
        keys: The table's values of ``column``; if empty, nothing is refused.
        owners: The values in ``to``, which the table is joined to.
    """
    if keys and set(owners).isdisjoint(keys):
        raise DataError(
            f"{path}: none of its {what} belongs to {to}: {len(set(keys))} values of {column} "
            f"here and {len(set(owners))} there have none in common; give the {what} of this data "
            "set"
        )


def read_table(path: Path | TableRows, required: Iterable[str] = ()) -> Table:
    """Read a whole table; every cell comes as text.

    pandas' ``NaN`` in Parquet, and "nan" and "NaN" in CSV, are missing values.
    """
    rows = list(stream_table(path, required))
    return Table(tuple(rows[0]), rows)


def stream_table(path: Path | TableRows, required: Iterable[str] = ()) -> Iterator[dict[str, str]]:
    """The rows of :func:`read_table` one at a time; errors are raised when they are reached."""
    table = TableRows(path) if isinstance(path, Path) else path
    table.require(*required)
    empty = True
    for _, cells in none_left_out(table.path, table):
        empty = False
        yield cells
    if empty:
        raise DataError(f"{table.path}: the table has no rows")


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV or Parquet table, whole or not at all; ``None`` and missing keys become empty."""
    _check_ending(path)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            data = list(rows)
            pq.write_table(
                pa.table({name: [row.get(name) for row in data] for name in columns}), temporary
            )
            return
        with temporary.open("w", encoding="utf-8", newline="") as handle:
            write = _csv_rows(handle, columns)
            for row in rows:
                write(row)


Kind = Literal["text", "whole", "real"]  # what a column holds
ROW_GROUP = 10_000  # rows per Parquet row group, held in memory by the writer


def _check_ending(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: a table ends in .csv or .parquet")


@contextmanager
def _writing(
    target: Path | TextIO, columns: Mapping[str, Kind]
) -> Iterator[Callable[[Mapping[str, Any]], object]]:
    """Give a function that writes a row; a file is put in place at the end."""
    if not isinstance(target, Path):
        try:
            yield _csv_rows(target, columns)
        finally:
            target.flush()
        return
    with replacing(target) as temporary:
        if target.suffix.lower() == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                yield _csv_rows(stream, columns)
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
        rows: list[Mapping[str, Any]] = []
        with pq.ParquetWriter(temporary, schema) as writer:

            def flush() -> None:
                if rows:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    rows.clear()

            def add(row: Mapping[str, Any]) -> None:
                rows.append(row)
                if len(rows) >= ROW_GROUP:
                    flush()

            yield add
            flush()


def _csv_rows(stream: TextIO, columns: Iterable[str]) -> Callable[[Mapping[str, Any]], object]:
    names, write = list(columns), csv_writer(stream)
    write(names)
    return lambda row: write(row.get(name, "") for name in names)


class RowWriter:
    """Writes rows; a file appears whole at the end or not at all.  A text stream gets CSV."""

    def __init__(self, target: Path | TextIO, columns: Mapping[str, Kind]) -> None:
        if isinstance(target, Path):
            _check_ending(target)
        self._writing = _writing(target, columns)
        self._write: Callable[[Mapping[str, Any]], object] | None = None

    def __enter__(self) -> Self:
        self._write = self._writing.__enter__()
        return self

    def write(self, row: Mapping[str, Any]) -> None:
        if self._write is None:
            raise ValueError("the writer is not open")
        self._write(row)

    def __exit__(self, *error: Any) -> None:
        self._write = None
        self._writing.__exit__(*error)


@dataclass(slots=True)
class Rejects:
    """Collects rejected items, up to a limit."""

    limit: int = 100  # how many may be rejected; one more raises
    # the item (a row number, file name or study id), and why.
    rows: list[tuple[str, str]] = field(default_factory=list)
    name: str = "--max-rejected"  # the option that sets the limit
    where: str = ""  # the items' source, for the message

    def add(self, item: str, reason: str) -> None:
        """Reject one item; more than ``limit`` raise a DataError."""
        self.rows.append((item, reason))
        if len(self.rows) > self.limit:
            where = f"{self.where}: " if self.where else ""
            raise DataError(
                f"{where}{len(self.rows)} bad items, more than {self.name} {self.limit}; "
                f"the last: {item}: {reason}"
            )

    def write(self, output: Path) -> Path | None:
        """Write ``<output>.rejected.csv`` and return its path; without rejects, remove it."""
        path = output.with_name(output.name + ".rejected.csv")
        if not self.rows:
            path.unlink(missing_ok=True)
            return None
        write_table(
            path, ["item", "reason"], [{"item": item, "reason": why} for item, why in self.rows]
        )
        return path
