"""CSV and Parquet tables, read as rows of text and written whole or not at all."""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files import check_listed, replacing
from cxrtext.records.parquet_process import CELL_LIMIT, cell_text
from cxrtext.records.parquet_tables import ParquetTable
from cxrtext.records.text_files import NOT_UTF8, undecoded

__all__ = ["CELL_LIMIT", "Table", "cell_text", "read_table", "require_match", "write_table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table in memory.

    Args:
        path: Where it was read from.
        columns: Its column names, in order.
        rows: One mapping of column to text a row; a missing value is "".
    """

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


def _read_csv(path: Path) -> Table:
    csv.field_size_limit(CELL_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, strict=True)
            columns = tuple(next(reader, ()))
            rows: list[dict[str, str]] = []
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(columns):
                    raise DataError(
                        f"{path}: row {len(rows) + 1} has {len(cells)} cells, the header has "
                        f"{len(columns)}; quote cells that hold a comma or a line break"
                    )
                rows.append(dict(zip(columns, cells, strict=True)))
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 text at byte {error.start}; save the table as UTF-8"
        ) from None
    except csv.Error as error:
        raise DataError(f"{path}: not a readable CSV file ({error})") from None
    return Table(path, columns, rows)


def _read_parquet(path: Path) -> Table:
    with ParquetTable(path) as table:
        columns = table.columns
        rows: list[dict[str, str]] = []
        for cells in table.rows():
            if any(map(undecoded, cells)):
                raise DataError(f"{path}: row {len(rows) + 1}: {NOT_UTF8}")
            rows.append(dict(zip(columns, cells, strict=True)))
    return Table(path, columns, rows)


def read_table(path: Path, required: Iterable[str] = ()) -> Table:
    """Read a CSV or Parquet table; every cell comes as text.

    ``NaN`` as pandas writes it into Parquet is a missing value; in CSV so are "nan" and "NaN".

    Args:
        path: A file ending in ``.csv`` or ``.parquet``.
        required: Columns that must be there.

    Returns:
        The table, with at least one row.

    Raises:
        DataError: The file is missing, unreadable, empty, has a column twice, lacks one, or is not
            what its folder's list of digests says.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    check_listed(path, DataError)
    match path.suffix.lower():
        case ".csv":
            table = _read_csv(path)
        case ".parquet":
            table = _read_parquet(path)
        case other:
            raise DataError(
                f"{path}: a table ends in .csv or .parquet, not in {other or 'nothing'}"
            )
    for name in required:
        if name not in table.columns:
            found = ", ".join(table.columns) or "none"
            raise DataError(f"{path}: column '{name}' is missing (columns found: {found})")
    twice = {name for name in table.columns if table.columns.count(name) > 1}
    if twice:
        raise DataError(f"{path}: column '{min(twice)}' occurs more than once")
    if not table.rows:
        raise DataError(f"{path}: the table has no rows")
    for row in table.rows:
        for name, value in row.items():
            if value in ("nan", "NaN"):
                row[name] = ""
    return table


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV or Parquet table, whole or not at all.

    Args:
        path: A file ending in ``.csv`` or ``.parquet``.
        columns: The columns, in order.
        rows: One mapping a row; ``None`` and missing keys become empty cells.

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
