"""Tables and manifests, and Parquet files of a few kilobytes that stand for much more."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.records import (
    checked_manifest,
    open_source,
    parquet_tables,
    read_manifest,
    read_table,
)


def test_missing_values_are_empty_text_and_rows_of_nothing_but_commas_none(tmp_path: Path) -> None:
    table = pa.table({"x": [1.5, math.nan, None], "n": [1.0, 2.0, None], "i": [1, 2, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    rows = [list(row.values()) for row in read_table(tmp_path / "t.parquet").rows]
    assert rows == [["1.5", "1", "1"], ["", "2", "2"], ["", "", "3"]]
    (tmp_path / "t.csv").write_text("a,b\nnan,NaN\n , \nx,\n")
    assert read_table(tmp_path / "t.csv").rows == [{"a": "", "b": ""}, {"a": "x", "b": ""}]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.csv", None, "no such file"),
        ("t.xlsx", b"a", "not a readable workbook: cut off or damaged"),
        ("t.xls", b"a", "ends in .csv, .xlsx or .parquet, not in .xls; save the table as"),
        ("header.csv", b"study_id,b\n", "no rows"),
        ("lacks.csv", b"id,b\n1,2\n", "column 'study_id' is missing .columns found: id, b"),
        ("ragged.csv", b"study_id,b\n1,2\n3,4,5\n", "row 2: 3 cells where the header has 2"),
        ("twice.csv", b"study_id,study_id\n1,2\n", "'study_id' occurs more than once"),
        ("bad.parquet", b"PAR1 not really", "not a readable Parquet file"),
    ],
)
def test_wrong_tables(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says) as error:
        read_table(tmp_path / name, ["study_id"])
    assert name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parquet_tables, "MEMORY_BYTES", 64 << 20)
    path = tmp_path / "page.parquet"
    table = pa.table({"study_id": ["1"], "report": ["a" * (96 << 20)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 20_000
    return path


def test_rows_without_content_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_tables, "MEMORY_BYTES", 1 << 20)
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"a": pa.nulls(100_000)}), path)
    with pytest.raises(DataError, match="all its rows, need more than 1 MiB"):
        read_table(path)


def test_one_large_page(one_page: Path) -> None:
    with pytest.raises(DataError, match="all its rows, need more than 64 MiB; write it again"):
        list(open_source(one_page))


def write_manifest(folder: Path, text: str) -> Path:
    path = folder / "manifest.csv"
    path.write_text(text)
    return path


def test_columns_and_their_defaults(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, "image,study_id,age\nimages/a.png,s1,54\n")
    (record,) = read_manifest(path)
    assert record.path == (tmp_path / "images/a.png").resolve()
    assert (record.name, record.study_id, record.patient_id) == ("images/a.png", "s1", "s1")
    assert (record.split, record.metadata, record.row) == ("train", {"age": "54"}, 1)


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "a/../../b.png"])
def test_a_path_may_leave_the_folder_only_when_allowed(tmp_path: Path, name: str) -> None:
    path = write_manifest(tmp_path, f"image,study_id\n{name},s1\n")
    with pytest.raises(DataError, match="row 1.*outside the manifest's folder.*--allow-outside"):
        read_manifest(path)
    assert len(read_manifest(path, allow_outside=True)) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("picture_no,study\na.png,s1\n", "'image' is missing"),
        ("image,study_id\n,s1\n", "row 1: it has an empty image"),
        ("image,study_id\na.png,\n", "row 1: it has an empty study_id"),
        ("image,study_id,split\na.png,s1,valid\n", "row 1: split 'valid' is not one of train"),
        ("image,study_id\na.png,s1\na.png,s2\n", "'a.png' occurs in rows 1 and 2"),
        (
            "image,study_id,patient_id,split\na,1,p,train\nb,2,p,test\n",
            "patient 'p' is in two splits, test .row 2. and train .row 1.|train .row 1. and test",
        ),
    ],
)
def test_wrong_manifests(tmp_path: Path, text: str, says: str) -> None:
    path = write_manifest(tmp_path, text)
    with pytest.raises(DataError, match=says) as whole:
        read_manifest(path)
    with pytest.raises(DataError, match=says) as streamed:
        list(checked_manifest(path))
    assert str(streamed.value) == str(whole.value)


def test_links_are_followed_and_may_not_lead_out(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    (outside / "x.png").touch()
    (inside / "a" / "up").symlink_to("..")
    (inside / "a" / "b" / "far.png").symlink_to(outside / "x.png")
    (inside / "a" / "b" / "near.png").symlink_to("c.png")
    (inside / "away").symlink_to(outside)
    names = ["a/b/c.png", "a/up/d.png", "a/b/../e.png", "a/b/near.png", "./f.png", "a//g.png"]
    path = write_manifest(inside, "image,study_id\n" + "".join(f"{name},s\n" for name in names))
    assert [r.path for r in read_manifest(path)] == [(inside / n).resolve() for n in names]
    for name in ("a/b/far.png", "a/up/../out/x.png", "a/up/../../out/x.png", "away/new.png", ".."):
        path = write_manifest(inside, f"image,study_id\n{name},s\n")
        (record,) = read_manifest(path, allow_outside=True)
        assert record.path == (inside / name).resolve()
        if not record.path.is_relative_to(inside):
            with pytest.raises(DataError, match="outside the manifest's folder"):
                read_manifest(path)
