"""Marks: the last of a reader on a thing holds, all stay, and damage is noticed."""

import sqlite3
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest

from cxrtext.errors import DataError, InputError
from cxrtext.integrity import check_files
from cxrtext.records import marks
from cxrtext.records.boxes import Corners
from cxrtext.records.marks import (
    Mark,
    add_mark,
    check_mark,
    copy_marks,
    marks_beside,
    page_of_marks,
)


def read_marks(path: Path, image: str | None = None) -> list[Mark]:
    return page_of_marks(path, image)[0]


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


def test_nobody_changes_a_mark_and_damage_is_noticed(tmp_path: Path) -> None:
    path = marks_beside(tmp_path / "index")
    add_mark(path, MARK)
    with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(path) as database:
        database.execute("UPDATE marks SET verdict = 'wrong'")
    assert check_files(tmp_path).problems == []
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[4096 * 2 : 4096 * 3] = bytes(4096)
    path.write_bytes(damaged)
    (problem,) = check_files(tmp_path).problems
    assert path.name in problem
    other = tmp_path / "other"  # which this process has not opened yet
    other.write_bytes(damaged)
    for look in (read_marks, lambda one: add_mark(one, MARK)):
        with pytest.raises(DataError, match="damaged"):
            look(other)


def test_marks_come_in_pages(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    some = [replace(MARK, text=f"finding {n % 5}", image=f"{n % 2}.png") for n in range(20)]
    for one in some:
        add_mark(path, one)
    for image in (None, "1.png"):
        found = list[Mark]()
        after: int | None = 0
        while after is not None:
            page, after = page_of_marks(path, image, after, 3)
            assert len(page) <= 3
            found += page
        assert (
            found == read_marks(path, image) == [m for m in some[10:] if image in (None, m.image)]
        )


def test_a_reader_has_so_many_marks_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MAX_MARKS", 2)
    path = tmp_path / "marks"
    assert [add_mark(path, MARK) for _ in range(3)] == [True, True, False]
    assert add_mark(path, replace(MARK, who="night"))
    assert rows(path) == 3


@pytest.mark.parametrize(
    "wrong",
    [replace(MARK, text=" "), replace(MARK, text="a\nb"), replace(MARK, text="x" * 501),
     replace(MARK, box=(0, 0, 1, 1)), replace(BOX, box=None)]
    + [replace(BOX, box=box) for box in [
        (1, nan, 1, 1), (0, 0, 1, inf), (0, 0, 1, 1e9), (0, -1, 5, 5), (0, 0, 0.5, 1),
        (80, 0, 5, 5), (0, 88, 5, 3), (-inf, 0, 5, 5),
    ]],
)  # fmt: skip
def test_what_is_no_mark_is_refused(wrong: Mark) -> None:
    with pytest.raises(InputError):
        check_mark(wrong, 80, 90)


@pytest.mark.parametrize(
    "box", [(0, 0, 80, 90), (0.1, 0, 80.1, 1), (79, 89, 1, 1), (-0.2, 0, 2, 2)]
)
def test_a_box_of_the_whole_image_is_a_mark(box: Corners) -> None:
    check_mark(replace(BOX, box=box), 80, 90)
