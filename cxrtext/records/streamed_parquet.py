"""Parquet tables of text read batch by batch."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files import sha256
from cxrtext.records.tables import cell_text
from cxrtext.records.text_rows import Row, choose_columns, read_items
from cxrtext.records.text_source import StreamedSource

BATCH_ROWS = 500
BUFFER_BYTES = 1 << 20  # without a buffer Arrow holds a whole column of a row group


def _damaged(path: Path) -> DataError:
    # Arrow's own words may quote what the file holds.
    return DataError(f"{path}: not a readable Parquet file: cut off or damaged; write it again")


def _columns(path: Path) -> tuple[list[str], dict[str, Any], int]:
    """The names of the columns, their types, and the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            return schema.names, {f.name: f.type for f in schema}, file.metadata.num_rows
    except (pa.ArrowException, OSError, ValueError):
        raise _damaged(path) from None


def _check_types(path: Path, types: dict[str, Any]) -> None:
    import pyarrow as pa

    for name, kind in types.items():
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_nested(value) or pa.types.is_temporal(value):
            raise DataError(f"{path}: column '{name}' holds {kind}; write it as text")


def _values(column: Any) -> list[str]:
    """The cells of a column as text; bytes that are not UTF-8 become lone surrogates."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        values = column.cast(pa.large_binary()).to_pylist()
    return [
        value.decode(errors="surrogateescape") if isinstance(value, bytes) else cell_text(value)
        for value in values
    ]


def _rows(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(
            path, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        ) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(wanted), use_threads=False):
                columns = [_values(batch.column(name)) for name in wanted]
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield row, dict(zip(wanted, cells, strict=True))
    except (pa.ArrowException, OSError, ValueError):
        raise _damaged(path) from None


def open_parquet(path: Path) -> StreamedSource:
    """Open a Parquet table of reports or sentences; ids may be whole numbers.

    Raises:
        DataError: The file is damaged or empty, or its columns are not those accepted.
    """
    names, types, rows = _columns(path)
    holds, wanted = choose_columns(str(path), names)
    _check_types(path, {name: types[name] for name in wanted})
    if not rows:
        raise DataError(f"{path}: the table has no rows")
    return StreamedSource(
        str(path),
        holds,
        digest=partial(sha256, path),
        items=lambda: read_items(holds, _rows(path, wanted)),
    )
