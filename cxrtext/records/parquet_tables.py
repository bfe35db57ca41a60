"""Parquet tables and Excel workbooks as rows of text, a few at a time.

A file of a few kilobytes may unpack to gigabytes, so what is unpacked at once is bounded.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, time
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files import open_regular
from cxrtext.records.columns import HEADER_WITHIN, header_place

MEMORY_BYTES = 512 << 20
"""Most bytes unpacked from a Parquet row group or a workbook, plus `TIMES` the file's size."""
TIMES = 100
ROW_BYTES = 200  # least size counted for a row: about what Python needs for an empty one

_BATCH_ROWS = 500
_BUFFER_BYTES = 1 << 20  # without a buffer Arrow holds a whole column of a row group
_DAMAGED = "cut off or damaged; write it again"
_PADDED = re.compile("0+")


def cell_text(value: Any) -> str:
    """A table value as text: "" if it is missing, whole floats without a point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ") if value.time() != time() else str(value.date())
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class ParquetTable:
    """A Parquet table; its errors are DataErrors that name it.

    ``columns`` are its column names, ``no_text`` the Arrow types of columns with lists, structs or
    dates, by name, and ``count`` the number of rows in its footer.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._path = path
        with _errors(path), self._open() as file:
            schema, footer = file.schema_arrow, file.metadata
            self.columns: tuple[str, ...] = tuple(schema.names)
            self.no_text: dict[str, str] = {}
            for name, kind in zip(schema.names, schema.types, strict=True):
                value = kind.value_type if pa.types.is_dictionary(kind) else kind
                if pa.types.is_nested(value) or pa.types.is_temporal(value):
                    self.no_text[name] = str(kind)
            self.count: int = footer.num_rows
            groups = map(footer.row_group, range(footer.num_row_groups))
            self._largest = max((group.total_byte_size for group in groups), default=0)

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            self._path, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        )

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[tuple[str, ...]]:
        """Give the rows, each cell made text by `cell_text`.

        Text that is not UTF-8 comes with lone surrogates; a binary column counts as text if it is
        in ``columns``.
        """
        most = MEMORY_BYTES + TIMES * self._path.stat().st_size
        if max(self._largest, self.count * ROW_BYTES) > most:
            raise _refused(
                self._path,
                f"a part of it, or all its rows, need more than {MEMORY_BYTES >> 20} MiB; write it "
                "again with smaller row groups, or as several files",
            )
        with _errors(self._path), self._open() as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                arrays = batch.columns if columns is None else map(batch.column, columns)
                cells = [_texts(array, columns is not None) for array in arrays]
                yield from zip(*cells, strict=True)


def _refused(path: Path, why: str) -> DataError:
    kind = "workbook" if path.suffix.lower() in WORKBOOKS else "Parquet file"
    return DataError(f"{path}: not a readable {kind}: {why}")


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Replace a library's errors, which may quote the file's content, by our own."""
    try:
        with open_regular(path):
            yield
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - Arrow and openpyxl have many
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        raise _refused(path, _DAMAGED) from None


def _texts(column: Any, asked: bool) -> list[str]:
    """The cells of a column as text; bytes that are not UTF-8 become lone surrogates.

    A binary column that was not ``asked`` for may hold pictures: there such bytes become Python's
    bytes notation, so that the row is not rejected.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        words = _texts(column.dictionary, asked)
        return ["" if i is None else words[i] for i in column.indices.to_pylist()]
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    try:
        if text:
            return column.fill_null("").to_pylist()  # type: ignore[no-any-return]
        values = column.to_pylist()
    except UnicodeDecodeError:
        asked, values = True, column.cast(pa.large_binary()).to_pylist()
    return [
        _text(value, asked) if isinstance(value, bytes) else cell_text(value) for value in values
    ]


def _text(value: bytes, asked: bool) -> str:
    try:  # Spark and Impala write text into binary columns
        return value.decode(errors="surrogateescape" if asked else "strict")
    except UnicodeDecodeError:
        return str(value)


WORKBOOKS = (".xlsx", ".xlsm")


def workbook_rows(
    path: Path, given: Sequence[str] = (), names: list[str] | None = None
) -> Iterator[tuple[str, ...]]:
    """The rows from the header on of the sheet with most known columns; hidden sheets come last.

    A number formatted as "0000" gets as many digits.  ``names`` receives the titles of the sheet
    that is read and of others with known columns.
    """
    from openpyxl import load_workbook

    with _errors(path):
        most = MEMORY_BYTES + TIMES * path.stat().st_size
        with zipfile.ZipFile(path) as packed:
            if sum(part.file_size for part in packed.infolist()) > most:
                raise _refused(path, "it unpacks to far more than its size; save it as CSV")
        book = load_workbook(path, read_only=True, data_only=True, keep_links=False)
        try:
            sheets = []
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # the file's own dimensions may be wrong
                rows = sheet.iter_rows(max_row=HEADER_WITHIN)
                sheets.append((sheet, *header_place([[*map(_shown, row)] for row in rows], given)))
            best = max(sheets, key=lambda s: (s[2] > 0, s[0].sheet_state == "visible", s[2]))
            if names is not None:
                others = (s[0].title for s in sheets if s[2] > 1 and s is not best)
                names += [best[0].title, *others]
            for row in best[0].iter_rows(min_row=best[1] + 1):
                yield tuple(map(_shown, row))
        finally:
            book.close()


def _shown(cell: Any) -> str:
    text = cell_text(cell.value)
    if isinstance(cell.value, int) and _PADDED.fullmatch(str(cell.number_format)):
        return text.zfill(len(cell.number_format))
    return text
