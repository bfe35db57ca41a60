"""Cells that a spreadsheet would run: made plain in every CSV, and read back as they were."""

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cxrtext
import cxrtext_api
import cxrtext_cli
from cxrtext.evaluation.rows import Rows
from cxrtext.records import read_table, write_table
from cxrtext.records.rows import as_written
from cxrtext.records.tables import Rejects, RowWriter, plain
from cxrtext.service.forget.tables import rows_of
from cxrtext.service.tables import csv_lines

HOSTILE = [
    '=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "  =1",
    "'=1", "''-x", "-", "=",
]  # fmt: skip
NUMBERS = ["-1", "+5", "-0.5", "-1e-5", "1", "'1", "'", "''", "it's"]
RUNS = re.compile(r" *[=+\-@\t\r\n]")


def runs(cell: str) -> bool:
    """Whether a spreadsheet takes a cell for a formula."""
    try:
        float(cell)
    except ValueError:
        return RUNS.match(cell) is not None
    return False


def cells_of(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


def check(path: Path) -> None:
    assert not any(map(runs, cells_of(path.read_bytes().decode()))), path


@given(st.text("'=+-@ \t\r\n1.e5a") | st.sampled_from(HOSTILE + NUMBERS))
def test_what_is_made_plain_is_read_as_it_was(cell: str) -> None:
    assert as_written(plain(cell)) == cell
    assert not runs(plain(cell))
    if cell in NUMBERS:
        assert plain(cell) == cell


def test_every_writer(tmp_path: Path) -> None:
    rows = [
        {"study_id": one, "=name": other}
        for one, other in zip(HOSTILE, [*NUMBERS, "", ""], strict=True)
    ]
    columns = list(rows[0])
    write_table(tmp_path / "one.csv", columns, rows)
    with RowWriter(tmp_path / "two.csv", dict.fromkeys(columns, "text")) as writer:
        for row in rows:
            writer.write(row)
    lines = csv_lines([dict(zip(columns, columns, strict=True)), *rows], columns)
    (tmp_path / "three.csv").write_bytes(lines.encode())
    for name in ("one", "two", "three"):
        path = tmp_path / f"{name}.csv"
        check(path)
        table = read_table(path)
        assert table.columns == tuple(columns)
        assert table.rows == rows
        assert [row["study_id"] for row in rows_of(path)] == HOSTILE  # as `forget` looks them up
    write_table(tmp_path / "four.parquet", columns, rows)
    assert read_table(tmp_path / "four.parquet").rows == rows
    figures = Rows()
    for one in HOSTILE:
        figures.add("part", one, one, -0.5, 3)
    figures.write(tmp_path / "results.csv")
    rejects = Rejects()
    for one in HOSTILE:
        rejects.add(one, one)
    rejects.write(tmp_path / "out.csv")
    for name in ("results.csv", "out.csv.rejected.csv"):
        check(tmp_path / name)


@pytest.mark.parametrize("package", [cxrtext, cxrtext_cli, cxrtext_api])
def test_no_other_writer_of_csv(package: object) -> None:
    (root,) = package.__path__  # type: ignore[attr-defined]
    own = [
        path.name
        for path in Path(root).rglob("*.py")
        if re.search(r"csv\.(Dict)?[wW]riter\(", path.read_text())
    ]
    assert own == (["tables.py"] if package is cxrtext else [])
