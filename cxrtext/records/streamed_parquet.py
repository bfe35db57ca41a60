"""Parquet tables of text read batch by batch."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records.parquet_tables import ParquetTable
from cxrtext.records.text_rows import Row, choose_columns, read_items
from cxrtext.records.text_source import StreamedSource


def _rows(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    with ParquetTable(path) as table:
        for row, cells in enumerate(table.rows(wanted), 1):
            yield row, dict(zip(wanted, cells, strict=True))


def open_parquet(path: Path) -> StreamedSource:
    """Open a Parquet table of reports or sentences; ids may be whole numbers.

    Raises:
        DataError: The file is damaged or empty, or its columns are not those accepted.
    """
    with ParquetTable(path) as table:
        holds, wanted = choose_columns(str(path), table.columns)
        for name in wanted:
            if name in table.no_text:
                raise DataError(
                    f"{path}: column '{name}' holds {table.no_text[name]}; write it as text"
                )
        if not table.count:
            raise DataError(f"{path}: the table has no rows")
    return StreamedSource(
        str(path),
        holds,
        digest=partial(sha256, path),
        items=lambda: read_items(holds, _rows(path, wanted)),
    )
