"""The child of :mod:`cxrtext.records.parquet_tables`: reads one Parquet file under a memory limit.

Run as a file with the table's path, the limit in bytes beyond what Python and Arrow take, and the
parent's ``sys.path`` as JSON.  It writes a `HEADER` to standard output, waits on standard input for
the columns wanted, and writes `ROWS` and `END`, or a `FAULT`.  Each frame is a `HEAD` and JSON.

It imports nothing of cxrtext, so that it starts quickly.
"""

import json
import math
import resource
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HEAD = struct.Struct("<BQ")  # of a frame: its kind, and the bytes of JSON that follow
HEADER, ROWS, END, FAULT = range(4)
CELL_LIMIT = 10_000_000  # longest cell that is read, in characters
DAMAGED = "cut off or damaged; write it again"

_BATCH_ROWS = 500
_BUFFER_BYTES = 1 << 20  # without a buffer Arrow holds a whole column of a row group
_FRAME_CHARACTERS = 1 << 18


def cell_text(value: Any) -> str:
    """Return a value of a table as text: "" where it is missing, whole floats without a point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def to_frame(kind: int, content: Any) -> bytes:
    """Pack a frame; lone surrogates stay what they are."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    data = text.encode("utf-8", "surrogatepass")
    return HEAD.pack(kind, len(data)) + data


def _texts(column: Any, asked: bool) -> list[str]:
    """The cells of a column as text; bytes that are not UTF-8 become lone surrogates.

    Those of a binary column that nobody asked for by name may be pictures: what is no UTF-8 there
    becomes Python's notation of bytes, so that it does not take its row along.
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
        if not asked:
            return [_text_or_notation(value) for value in values]
    except UnicodeDecodeError:
        values = column.cast(pa.large_binary()).to_pylist()
    return [
        value.decode(errors="surrogateescape") if isinstance(value, bytes) else cell_text(value)
        for value in values
    ]


def _text_or_notation(value: Any) -> str:
    # Spark and Impala write text into binary columns.
    try:
        return value.decode() if isinstance(value, bytes) else cell_text(value)
    except UnicodeDecodeError:
        return str(value)


def _frames(columns: list[list[str]], first: int) -> Iterator[bytes]:
    """Rows in frames of about `_FRAME_CHARACTERS`, and of one row at least."""
    count = len(columns[0]) if columns else 0
    size = sum(sum(map(len, column)) for column in columns)
    if count > 1 and size > _FRAME_CHARACTERS:
        half = count // 2
        yield from _frames([column[:half] for column in columns], first)
        yield from _frames([column[half:] for column in columns], first + half)
        return
    if size > CELL_LIMIT and max(map(len, (column[0] for column in columns))) > CELL_LIMIT:
        raise OverflowError(f"row {first} has a cell of more than {CELL_LIMIT:,} characters")
    yield to_frame(ROWS, columns)


def _read(path: str) -> Iterable[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(
        path, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
    ) as file:
        schema = file.schema_arrow
        kinds = [
            (kind, kind.value_type if pa.types.is_dictionary(kind) else kind)
            for kind in schema.types
        ]
        no_text = [
            str(kind) if pa.types.is_nested(value) or pa.types.is_temporal(value) else ""
            for kind, value in kinds
        ]
        yield to_frame(HEADER, [schema.names, no_text, file.metadata.num_rows])
        if not (asked := sys.stdin.readline()):
            return
        wanted: Sequence[str] | None = json.loads(asked)
        row = 1
        for batch in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
            columns = batch.columns if wanted is None else map(batch.column, wanted)
            yield from _frames([_texts(column, wanted is not None) for column in columns], row)
            row += batch.num_rows
    yield to_frame(END, None)


def _limit(memory_bytes: int) -> None:
    """Bound what is allocated from now on; where there is no procfs, the address space."""
    import pyarrow.parquet  # noqa: F401 - what it maps is not counted

    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    except OSError:
        pages = 0
    wanted = memory_bytes + pages * resource.getpagesize()
    for kind, value in ((resource.RLIMIT_AS, wanted), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (soft, hard))


def _out_of_memory(error: Exception) -> bool:
    # Arrow passes on some failed allocations of C++ and of decompressors as errors of its own.
    words = str(error).lower()
    return isinstance(error, MemoryError) or "bad_alloc" in words or "allocat" in words


def main(path: str, memory_bytes: int) -> None:
    """Answer the parent."""
    _limit(memory_bytes)
    out = sys.stdout.buffer
    try:
        for frame in _read(path):
            out.write(frame)
            out.flush()
    except BrokenPipeError:
        sys.exit(1)
    except OverflowError as error:
        reason = f"{error}; leave it out"
    except Exception as error:  # noqa: BLE001 - Arrow's own words may quote what the file holds
        reason = DAMAGED
        if _out_of_memory(error):
            reason = (
                f"a part of it needs more than {memory_bytes >> 20} MiB; write it again with "
                "smaller row groups"
            )
    else:
        return
    out.write(to_frame(FAULT, reason))
    out.flush()


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[3])
    main(sys.argv[1], int(sys.argv[2]))
