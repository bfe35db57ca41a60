"""CSV and Parquet tables, read whole, and written whole or not at all; and lists of rejects."""

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from cxrtext.errors import DataError
from cxrtext.files import replacing
from cxrtext.records.rows import TableRows
from cxrtext.records.study import Rejected


@dataclass(frozen=True, slots=True)
class Table:
    """A table in memory; a missing value is ""."""

    path: Path
    columns: tuple[str, ...]
    rows: list[dict[str, str]]


def require_match(
    path: Path, what: str, keys: Collection[str], owners: Collection[str], column: str, to: Path
) -> None:
    """Refuse a table of which no row belongs to any of what it is joined to.

    One that belongs in part is taken: tables are larger than what they are joined to, and images
    come before their reports.

    Args:
        path: The table.
        what: What its rows are, such as "reports".
        keys: The values that they are joined by; without any there is nothing to join.
        owners: The values that they may have.
        column: The column of these.
        to: What it is joined to.

    Raises:
        DataError: Naming both, and the column, and none of the values.
    """
    if keys and set(owners).isdisjoint(keys):
        raise DataError(
            f"{path}: none of its {what} belongs to {to}: {len(set(keys))} values of {column} "
            f"here and {len(set(owners))} there have none in common; give the {what} of this data "
            "set"
        )


def read_table(path: Path, required: Iterable[str] = ()) -> Table:
    """Read a CSV or Parquet table; every cell comes as text.

    ``NaN`` as pandas writes it into Parquet is a missing value; in CSV so are "nan" and "NaN".

    Args:
        path: A file ending in ``.csv`` or ``.parquet``.
        required: Columns that must be there.

    Returns:
        The table, with at least one row.

    Raises:
        DataError: The file is missing, unreadable, empty, has a column twice, lacks one, has a row
            that cannot be read, or is not what its folder's list of digests says.
    """
    table = TableRows(path)
    table.require(*required)
    rows = []
    for entry in table:
        if isinstance(entry, Rejected):
            raise DataError(f"{path}: {entry.item}: {entry.reason}")
        rows.append(entry[1])
    if not rows:
        raise DataError(f"{path}: the table has no rows")
    return Table(path, table.columns, rows)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV or Parquet table, whole or not at all.

    ``None`` and missing keys become empty cells.

    Raises:
        DataError: The ending is neither.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: a table ends in .csv or .parquet")
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
            writer = csv.DictWriter(handle, columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


Kind = Literal["text", "whole", "real"]  # what a column holds
ROW_GROUP = 10_000  # rows that a Parquet file keeps together, and that its writer holds


def _csv_rows(stream: TextIO, columns: Mapping[str, Kind]) -> Callable[[Mapping[str, Any]], None]:
    """Write the header, and return what writes a row."""
    writer = csv.DictWriter(stream, list(columns))
    writer.writeheader()

    def write(row: Mapping[str, Any]) -> None:
        writer.writerow(row)

    return write


class _ParquetRows:
    """Writes rows in groups."""

    def __init__(self, path: Path, columns: Mapping[str, Kind], closing: ExitStack) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64()}
        self._schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
        self._rows: list[Mapping[str, Any]] = []
        self._writer = closing.enter_context(pq.ParquetWriter(path, self._schema))
        closing.callback(self.flush)

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write the rows held as one group."""
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
            self._rows.clear()


class RowWriter:
    """Writes rows one by one; a file appears whole at the end or not at all.

    Args:
        target: A path ending in ``.csv`` or ``.parquet``, or an open text stream, which gets CSV.
        columns: The columns in order, and what each holds.

    Raises:
        DataError: The path ends in something else.
    """

    def __init__(self, target: Path | TextIO, columns: Mapping[str, Kind]) -> None:
        if isinstance(target, Path) and target.suffix.lower() not in (".csv", ".parquet"):
            raise DataError(f"{target}: a table ends in .csv or .parquet")
        self._target, self._columns = target, columns
        self._closing = ExitStack()
        self._write: Callable[[Mapping[str, Any]], None] | None = None

    def __enter__(self) -> Self:
        target = self._target
        with ExitStack() as closing:
            if not isinstance(target, Path):
                self._write = _csv_rows(target, self._columns)
                closing.callback(target.flush)
            else:
                temporary = closing.enter_context(replacing(target))
                if target.suffix.lower() == ".parquet":
                    self._write = _ParquetRows(temporary, self._columns, closing).add
                else:
                    stream = temporary.open("w", encoding="utf-8", newline="")
                    self._write = _csv_rows(closing.enter_context(stream), self._columns)
            self._closing = closing.pop_all()
        return self

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row, by column.

        Raises:
            ValueError: The writer is not open: use it in a ``with`` statement.
        """
        if self._write is None:
            raise ValueError("the writer is not open")
        self._write(row)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write = None
        self._closing.__exit__(kind, error, trace)


@dataclass(slots=True)
class Rejects:
    """Collects what was rejected, up to a limit.

    Args:
        limit: How many are borne; one more raises.
        rows: ``(item, reason)`` pairs: a row number, file name or study id, and why.
        name: What the user sets the limit with.
        where: What the items are of, for the message.
    """

    limit: int = 100
    rows: list[tuple[str, str]] = field(default_factory=list)
    name: str = "--max-rejected"
    where: str = ""

    def add(self, item: str, reason: str) -> None:
        """Reject one item.

        Raises:
            DataError: More than ``limit`` items have been rejected.
        """
        self.rows.append((item, reason))
        if len(self.rows) > self.limit:
            where = f"{self.where}: " if self.where else ""
            raise DataError(
                f"{where}{len(self.rows)} bad items, more than {self.name} {self.limit}; "
                f"the last: {item}: {reason}"
            )

    def write(self, output: Path) -> Path | None:
        """Write ``<output>.rejected.csv``; without rejects remove an old one.

        Returns:
            The file written, or None.
        """
        path = output.with_name(output.name + ".rejected.csv")
        if not self.rows:
            path.unlink(missing_ok=True)
            return None
        write_table(
            path, ["item", "reason"], [{"item": item, "reason": why} for item, why in self.rows]
        )
        return path
