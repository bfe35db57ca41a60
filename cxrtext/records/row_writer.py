"""Tables written row by row, whole or not at all."""

import csv
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from cxrtext.errors import DataError
from cxrtext.files import replacing

Kind = Literal["text", "whole", "real"]
"""What a column holds."""

ROW_GROUP = 10_000
"""Rows that a Parquet file keeps together, and that its writer holds."""


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
