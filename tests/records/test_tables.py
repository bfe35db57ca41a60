import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Study, open_source, read_reports, read_table, write_table


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    rows = [{"a": "1", "b": 'He said "no", twice\nover.'}, {"a": "", "b": "é"}]
    write_table(path, ["a", "b"], rows)
    assert read_table(path).rows == rows
    assert list(tmp_path.iterdir()) == [path]


def test_missing_values_are_empty_text(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"x": [1.5, math.nan, None], "n": [1.0, 2.0, None], "i": [1, 2, 3]}),
        tmp_path / "t.parquet",
    )
    assert [list(row.values()) for row in read_table(tmp_path / "t.parquet").rows] == [
        ["1.5", "1", "1"],
        ["", "2", "2"],
        ["", "", "3"],
    ]
    (tmp_path / "t.csv").write_text("a,b\nnan,NaN\nx,\n")
    assert read_table(tmp_path / "t.csv").rows == [{"a": "", "b": ""}, {"a": "x", "b": ""}]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfstudy_id,x\n1,2\n")
    assert read_table(tmp_path / "t.csv", ["study_id"]).columns == ("study_id", "x")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.csv", None, "no such file"),
        ("t.xlsx", b"a", "ends in .csv or .parquet"),
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"study_id,b\n", "no rows"),
        ("lacks.csv", b"id,b\n1,2\n", "column 'study_id' is missing .columns found: id, b"),
        ("ragged.csv", b"study_id,b\n1,2\n3,4,5\n", "row 2: 3 cells where the header has 2"),
        ("latin.csv", b"study_id\n\xe9\n", "not UTF-8"),
        ("twice.csv", b"study_id,b,b\n1,2,3\n", "'b' occurs more than once"),
        ("bad.parquet", b"PAR1 not really", "not a readable Parquet file"),
        ("quote.csv", b'study_id\n"open\n', "row 1: a quote is not closed"),
    ],
)
def test_wrong_tables(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says) as error:
        read_table(tmp_path / name, ["study_id"])
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(path, ["a"], [{"a": "old"}])

    def rows() -> object:
        yield {"a": "new"}
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_table(path, ["a"], rows())  # type: ignore[arg-type]
    assert read_table(path).rows == [{"a": "old"}]
    assert list(tmp_path.iterdir()) == [path]


def test_rows_of_nothing_but_commas_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n , \n3,4\n")
    assert [row["a"] for row in read_table(tmp_path / "t.csv").rows] == ["1", "3"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_one_verdict_on_the_encoding_of_a_table(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("study_id,report\ns1,Größe normal.\n", encoding=encoding)
    (streamed,) = open_source(path)
    (read,) = read_reports(path)
    assert streamed == read == Study("s1", "Größe normal.", {}, 1)
    assert read_table(path).columns == ("study_id", "report")
    path.write_bytes("study_id,report\ns1,x.\n".encode("utf-16-le"))
    for reader in (open_source, read_reports, read_table):
        with pytest.raises(DataError, match="UTF-16 text without a byte order mark"):
            reader(path)


def test_a_row_that_is_read_past_is_named_by_those_that_need_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"study_id,report\ns1,Clear.\ns2,\xff\ns3,Clear.\n")
    rejected = [item for item in open_source(path) if isinstance(item, LeftOut)]
    assert [item.where for item in rejected] == ["row 2"]
    for reader in (read_reports, read_table):
        with pytest.raises(DataError, match=f"row 2: {rejected[0].why}"):
            reader(path)
