"""Marks of readers: what of a model's answers they found right or wrong, and boxes they drew.

A SQLite file beside an index, which no rebuild of the index touches.  Its one table only grows: a
later mark of the same reader on the same thing takes the place of the earlier one where marks are
read, and both stay.  Rows go by ``cxrtext forget`` alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Literal, get_args

from cxrtext.errors import DataError, InputError
from cxrtext.files.sqlite import make_tables, open_database, sqlite_errors, transaction
from cxrtext.files.table_sums import guard
from cxrtext.records.boxes import Corners

ENDING = ".marks.sqlite"
VERSION = 1
Kind = Literal["finding", "sentence", "hit", "box"]
Verdict = Literal["right", "wrong", "unclear"]
KINDS: tuple[str, ...] = get_args(Kind)
VERDICTS: tuple[str, ...] = get_args(Verdict)
MAX_TEXT = 500

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
CREATE TRIGGER marks_stay BEFORE UPDATE ON marks BEGIN SELECT RAISE(ABORT, 'marks stay'); END;
"""
_MEND = "put it back from a backup, or move it away to begin anew"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a reader says of one thing that was shown of an image.

    ``said``: whether the thing was said to be there, as a sentence does, and a finding above its
    threshold; the verdict is on that.
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
        """What it makes of the finding or sentence: 1 there, 0 absent, -1 uncertain."""
        return -1 if self.verdict == "unclear" else int(self.said == (self.verdict == "right"))


def marks_beside(index: Path) -> Path:
    """The file of an index's marks, which is there once something was marked."""
    return index.with_name(index.name + ENDING)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def add_mark(path: Path, mark: Mark) -> None:
    """Append a mark (InputError); the file is made where there is none."""
    if not mark.text.strip() or len(mark.text) > MAX_TEXT or not mark.text.isprintable():
        raise InputError(f"text: give 1 to {MAX_TEXT} printable characters on one line")
    if (mark.box is None) == (mark.kind == "box"):
        raise InputError("box: give one where the mark is of a box, and nowhere else")
    if mark.box is not None and not (min(mark.box[2:]) > 0 and max(map(abs, mark.box)) < 1e6):
        raise InputError("box: give x, y, w, h in pixels, with a width and a height above 0")
    row = (*astuple(mark)[:-1], *(mark.box or (None,) * 4))
    with _opened(path, write=True) as database, transaction(database):
        database.execute(f"INSERT INTO marks VALUES (NULL{', ?' * len(row)})", row)  # noqa: S608


def read_marks(path: Path, image: str | None = None) -> list[Mark]:
    """The marks that hold, the oldest first: of each reader the last on each thing.

    ``image``: of one alone.  Without a file there are none.
    """
    if not path.is_file():
        return []
    names = [field.name for field in fields(Mark)][:-1]
    with _opened(path, write=False) as database:
        rows = database.execute(
            f"SELECT {', '.join(names)}, x, y, w, h, max(mark) FROM marks "  # noqa: S608
            "WHERE ?1 IS NULL OR image = ?1 GROUP BY who, image, kind, text, x, y, w, h "
            "ORDER BY max(mark)",
            (image,),
        ).fetchall()
    told = [dict(zip(names, row, strict=False)) for row in rows]
    return [
        Mark(**{**one, "said": bool(one["said"])}, box=_box(row[len(names) :]))
        for one, row in zip(told, rows, strict=True)
    ]


def _box(cells: Sequence[float | None]) -> Corners | None:
    x, y, w, h, _ = cells
    return None if x is None or y is None or w is None or h is None else (x, y, w, h)


def copy_marks(path: Path, out: Path) -> None:
    """Copy a file of marks, as it is at one moment."""
    with _opened(path, write=False) as database, closing(open_database(out)) as copy:
        database.backup(copy)


@contextmanager
def _opened(path: Path, *, write: bool) -> Iterator[Connection]:
    told = {"wrong": DataError, "mend": _MEND}
    with (
        sqlite_errors(path, DataError, _MEND, "then mark it again"),
        closing(open_database(path, write=write)) as database,
    ):
        make_tables(database, path, _TABLES, VERSION, write=write, **told)  # type: ignore[arg-type]
        guard(database, keep=write)
        yield database
