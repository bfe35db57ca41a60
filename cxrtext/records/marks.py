"""Readers' marks: which of a model's answers they found right or wrong, and boxes they drew.

A SQLite file beside an index; rebuilding the index does not touch it.  Its one table only grows: if
a reader marks the same thing again, both rows stay, but only the later one counts.  Only
``cxrtext forget`` removes rows.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Literal

from cxrtext.errors import DataError, InputError
from cxrtext.files.sqlite import check_once, make_tables, open_database, sqlite_errors, transaction
from cxrtext.records.boxes import SMALLEST, Corners
from cxrtext.records.numbers import read_number

ENDING = ".marks.sqlite"
VERSION = 1
Kind = Literal["finding", "sentence", "hit", "box"]
Verdict = Literal["right", "wrong", "unclear"]
MAX_TEXT = 500
MAX_MARKS = 100_000  # per reader, with those that no longer count
EDGE = 0.5  # pixels by which a box may cross the edge of its image after rounding

_TABLES = """
CREATE TABLE marks (
  mark INTEGER PRIMARY KEY AUTOINCREMENT,
  who TEXT NOT NULL,                       -- the name of the key that marked it
  made TEXT NOT NULL,                      -- UTC, as ISO 8601
  model TEXT NOT NULL,                     -- the fingerprint of the model that had answered
  image TEXT NOT NULL,
  study_id TEXT NOT NULL,
  patient_id TEXT NOT NULL,
  kind TEXT NOT NULL,                      -- finding, sentence, hit or box
  text TEXT NOT NULL,                      -- the finding, the sentence, or the word of a box
  said INTEGER NOT NULL,                   -- 1: it was said to be there, 0: to be absent
  verdict TEXT NOT NULL,                   -- right, wrong or unclear
  x REAL, y REAL, w REAL, h REAL           -- of a box, in pixels of the original
);
CREATE INDEX marks_image ON marks (image);
CREATE INDEX marks_thing ON marks (who, image, kind, text, x);
CREATE TRIGGER marks_stay BEFORE UPDATE ON marks BEGIN SELECT RAISE(ABORT, 'marks stay'); END;
"""
_MEND = "put it back from a backup, or move it away to begin anew"


@dataclass(frozen=True, slots=True)
class Mark:
    """A reader's verdict on one thing that was shown for an image.

    ``said``: whether the thing was said to be present, as by a sentence or by a finding above its
    threshold; the verdict is about that.
    """

    who: str
    made: str
    model: str
    image: str
    study_id: str
    patient_id: str
    kind: Kind
    text: str
    said: bool
    verdict: Verdict
    box: Corners | None = None

    @property
    def value(self) -> int:
        """The label it gives the finding or sentence: 1 present, 0 absent, -1 uncertain."""
        return -1 if self.verdict == "unclear" else int(self.said == (self.verdict == "right"))


def marks_beside(index: Path) -> Path:
    """The file of an index's marks; it exists once something was marked."""
    return index.with_name(index.name + ENDING)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_mark(mark: Mark, width: float, height: float) -> None:
    """Refuse a mark with wrong text, or with a box missing or outside its image (InputError)."""
    if not mark.text.strip() or len(mark.text) > MAX_TEXT or not mark.text.isprintable():
        raise InputError(f"text: give 1 to {MAX_TEXT} printable characters on one line")
    if (mark.box is None) == (mark.kind == "box"):
        raise InputError("box: give one for a mark of kind box, and for no other")
    if mark.box is None:
        return
    x, y, w, h = mark.box
    try:
        for begin, length, most in ((x, w, width), (y, h, height)):
            read_number(begin, -EDGE, most)
            read_number(length, SMALLEST, most - begin + EDGE)
    except ValueError:
        raise InputError(
            f"box: give x, y, w, h in pixels, inside the image of {width:g} x {height:g} pixels, "
            f"and at least {SMALLEST:g} wide and high"
        ) from None


def add_mark(path: Path, mark: Mark) -> bool:
    """Append a checked mark, making the file if needed; False if its reader has ``MAX_MARKS``."""
    row = (*astuple(mark)[:-1], *(mark.box or (None,) * 4))
    with _opened(path, write=True) as database, transaction(database):
        count = "SELECT count(*) FROM marks WHERE who = ?"
        if database.execute(count, (mark.who,)).fetchone() >= (MAX_MARKS,):
            return False
        database.execute(f"INSERT INTO marks VALUES (NULL{', ?' * len(row)})", row)  # noqa: S608
    return True


def page_of_marks(
    path: Path, image: str | None = None, after: int = 0, limit: int = -1
) -> tuple[list[Mark], int | None]:
    """A page of the marks that count, and ``after`` for the next page; None on the last.

    ``after`` is 0 for the first page.  A negative ``limit`` means all.
    """
    if not path.is_file():
        return [], None
    names = [field.name for field in fields(Mark)][:-1]
    of_image = "" if image is None else "AND image = :image"
    with _opened(path, write=False) as database:
        rows = database.execute(
            f"SELECT {', '.join(names)}, x, y, w, h, mark FROM marks AS one "  # noqa: S608
            f"WHERE mark > :after {of_image} AND NOT EXISTS (SELECT 1 FROM marks AS later WHERE "
            "(later.who, later.image, later.kind, later.text) "
            "= (one.who, one.image, one.kind, one.text) AND later.x IS one.x AND later.y IS one.y "
            "AND later.w IS one.w AND later.h IS one.h AND later.mark > one.mark) "
            "ORDER BY mark LIMIT :limit",
            {"image": image, "after": after, "limit": limit},
        ).fetchall()
    marks = []
    for *cells, x, y, w, h, _ in rows:
        named = dict(zip(names, cells, strict=True))
        box = None if x is None else (x, y, w, h)
        marks.append(Mark(**{**named, "said": bool(named["said"])}, box=box))
    return marks, rows[-1][-1] if len(rows) == limit else None


def copy_marks(path: Path, out: Path) -> None:
    """Copy a file of marks as it is at one moment."""
    with _opened(path, write=False) as database, closing(open_database(out)) as copy:
        database.backup(copy)


@contextmanager
def _opened(path: Path, *, write: bool) -> Iterator[Connection]:
    with (
        sqlite_errors(path, DataError, _MEND, "then mark it again"),
        closing(open_database(path, write=write)) as database,
    ):
        make_tables(database, path, _TABLES, VERSION, write=write, wrong=DataError, mend=_MEND)
        check_once(database, path)
        yield database
