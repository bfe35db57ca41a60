"""Parquet files of a few kilobytes that stand for much more."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.records import open_source, parquet_tables, read_table
from cxrtext.records.parquet_tables import ParquetError, ParquetTable

READERS: list[Callable[[Path], Iterable[object]]] = [
    open_source,
    lambda path: read_table(path).rows,
]
PAGE = 96 << 20


@pytest.fixture
def one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parquet_tables, "MEMORY_BYTES", 64 << 20)
    path = tmp_path / "page.parquet"
    table = pa.table({"study_id": ["1"], "report": ["a" * PAGE]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 20_000
    return path


def varint(number: int) -> bytes:
    """As Thrift's compact protocol writes a positive number."""
    number *= 2
    groups = [number >> shift & 127 for shift in range(0, number.bit_length(), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


@pytest.mark.parametrize("read", READERS)
def test_one_text_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Iterable[object]]
) -> None:
    monkeypatch.setattr(parquet_tables, "TEXT_BYTES", 4 << 20)
    path, count = tmp_path / "r.parquet", 75
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["a " * 100_000])
    ids = [str(row) for row in range(count)]
    pq.write_table(pa.table({"study_id": ids, "report": texts}), path)
    with pytest.raises(DataError, match=r"r\.parquet: .* more than 100 times its size plus 4 M"):
        list(read(path))


def test_rows_without_content_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_tables, "TEXT_BYTES", 1 << 20)
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"a": pa.nulls(100_000)}), path)
    with pytest.raises(DataError, match="more than 100 times its size plus 1 MiB"):
        read_table(path)


@pytest.mark.parametrize("read", READERS)
def test_one_large_page(one_page: Path, read: Callable[[Path], Iterable[object]]) -> None:
    with pytest.raises(DataError, match="a part of it needs more than 64 MiB; write it again"):
        list(read(one_page))


def test_a_footer_that_lies(one_page: Path) -> None:
    content = one_page.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    group = pq.read_metadata(one_page).row_group(0)
    for size in (group.column(1).total_uncompressed_size, group.total_byte_size):
        true, lie = varint(size), varint(1000)
        padded = lie[:-1] + bytes([lie[-1] | 128]) + b"\x80" * (len(true) - len(lie) - 1) + b"\0"
        assert true in footer
        footer = footer.replace(true, padded)
    one_page.write_bytes(content[:start] + footer)
    assert pq.read_metadata(one_page).row_group(0).column(1).total_uncompressed_size == 1000
    with pytest.raises(DataError, match="a part of it needs more than 64 MiB; write it again"):
        read_table(one_page)


def test_too_long_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    texts = ["a", "b" * 10_000_001]
    pq.write_table(pa.table({"study_id": ["1", "2"], "report": texts}), path)
    with pytest.raises(DataError, match="row 2 has a cell of more than 10,000,000 characters"):
        read_table(path)


def test_text_that_is_not_utf8_names_its_row(tmp_path: Path) -> None:
    good = pa.array([b"Clear.", b"\xc9p."], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 2, good.buffers())
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"report": broken}), path)
    with pytest.raises(DataError, match="row 2: report: not UTF-8 text"):
        read_table(path)


def test_the_process_ends_with_its_table(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"a": [str(row) for row in range(2000)]}), path)
    with ParquetTable(path) as table:
        assert next(table.rows()) == ("0",)
    assert table._child.returncode is not None
    with ParquetTable(path) as table, pytest.raises(ParquetError, match="signal 9 ended"):
        table._child.kill()
        table._child.wait()
        list(table.rows())
