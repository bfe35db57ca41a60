"""Marks: the last of a reader on a thing holds, all stay, and a changed row is noticed."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from cxrtext.errors import DataError, InputError
from cxrtext.records.marks import Mark, add_mark, copy_marks, marks_beside, read_marks

MARK = Mark(
    "ward", "2026-11-28T06:00:00+00:00", "f" * 64, "a.png", "s1", "p1", "finding", "Edema", True,
    "right",
)  # fmt: skip
BOX = replace(MARK, kind="box", text="nodule", box=(1.0, 2.0, 3.0, 4.5))


def rows(path: Path) -> int:
    (count,) = sqlite3.connect(path).execute("SELECT count(*) FROM marks").fetchone()
    return int(count)


def test_the_last_mark_of_a_reader_holds_and_the_former_stays(tmp_path: Path) -> None:
    path = marks_beside(tmp_path / "index")
    assert path.parent == tmp_path
    assert read_marks(path) == []
    wrong = replace(MARK, verdict="wrong")
    other = replace(MARK, who="night")
    for one in (MARK, BOX, other, wrong, replace(MARK, image="b.png")):
        add_mark(path, one)
    assert read_marks(path, "a.png") == [BOX, other, wrong]
    assert len(read_marks(path)) == 4
    assert rows(path) == 5
    assert path.stat().st_mode & 0o077 == 0
    copy_marks(path, tmp_path / "copy")
    assert read_marks(tmp_path / "copy") == read_marks(path)


@pytest.mark.parametrize(
    ("said", "verdict", "value"),
    [(True, "right", 1), (True, "wrong", 0), (False, "right", 0), (False, "wrong", 1),
     (False, "unclear", -1)],
)  # fmt: skip
def test_a_verdict_is_on_what_was_said(said: bool, verdict: str, value: int) -> None:
    assert replace(MARK, said=said, verdict=verdict).value == value  # type: ignore[arg-type]


def test_nobody_changes_a_mark_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    add_mark(path, MARK)
    with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(path) as database:
        database.execute("UPDATE marks SET verdict = 'wrong'")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"a.pngs1", b"b.pngs1"))
    with pytest.raises(DataError, match="damaged"):
        read_marks(path)


@pytest.mark.parametrize(
    "wrong",
    [replace(MARK, text=" "), replace(MARK, text="a\nb"), replace(MARK, text="x" * 501),
     replace(MARK, box=(0, 0, 1, 1)), replace(BOX, box=None), replace(BOX, box=(0, 0, 0, 1)),
     replace(BOX, box=(0, 0, float("nan"), 1)), replace(BOX, box=(0, 0, 1, 1e9))],
)  # fmt: skip
def test_what_is_no_mark_is_refused(tmp_path: Path, wrong: Mark) -> None:
    with pytest.raises(InputError):
        add_mark(tmp_path / "marks", wrong)
