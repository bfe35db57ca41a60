"""Changes of an index: add images and sentences, delete images and studies."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.index.search.filter import Cell, as_cell
from cxrtext.index.store.catalogue import Catalogue, set_meta
from cxrtext.index.store.writer import append_rows, leave_files

MAX_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to add, or to replace the one with its name."""

    image: str
    root: str  # the folder that its name is relative to
    study_id: str
    patient_id: str
    split: str
    height: int  # of the original, in pixels
    width: int
    metadata: Mapping[str, str]
    labels: Mapping[str, float]  # what the model says about it, by column
    file: str | None = None  # name of the file kept for it, below root; None: the image's name
    added_by: str | None = None  # name of the key that added it over HTTP


@dataclass(frozen=True, slots=True)
class NewReports:
    """The sentences of studies, which replace their earlier ones."""

    sentences: Sequence[str]  # distinct sentences that are not in the index yet
    vectors: NDArray[Any]  # [len(sentences), D]
    said: Sequence[tuple[str, str, int, str]]  # study, section, position, text; new or known
    silent: Sequence[str] = ()  # studies that now have no sentences


def make_room(database: Connection, names: Iterable[str], spare: int = 0) -> None:
    """Make sure that there is room for columns, in the caller's transaction (DataError).

    If there is not, drop the columns in which no image has a value; ``spare`` columns must be free
    afterwards.
    """
    known = {name for (name,) in database.execute("SELECT name FROM columns")}
    new = [name for name in dict.fromkeys(names) if name not in known]
    over = len(known) + len(new) + spare - MAX_COLUMNS
    if new and over > 0 and over > _give_up_empty(database):
        raise DataError(
            f"column '{new[-1]}': an index keeps {MAX_COLUMNS} columns at most; leave some "
            "out of the manifest"
        )


def _give_up_empty(database: Connection) -> int:
    empty = [
        name
        for name, slot in database.execute("SELECT name, slot FROM columns").fetchall()
        if not database.execute(
            f"SELECT 1 FROM attributes WHERE c{int(slot)} IS NOT NULL LIMIT 1"  # noqa: S608
        ).fetchone()
    ]
    database.executemany("DELETE FROM columns WHERE name = ?", [(name,) for name in empty])
    return len(empty)


def _slots(database: Connection, names: Iterable[str]) -> dict[str, int]:
    names = list(names)
    make_room(database, names)
    known = dict(database.execute("SELECT name, slot FROM columns"))
    made = {row[1] for row in database.execute("PRAGMA table_info(attributes)")}
    free = (slot for slot in range(MAX_COLUMNS) if slot not in set(known.values()))
    for name in names:
        if name not in known:
            known[name] = next(free)
            database.execute("INSERT INTO columns VALUES (?, ?)", (name, known[name]))
            if f"c{known[name]}" not in made:
                database.execute(f"ALTER TABLE attributes ADD COLUMN c{known[name]}")
    return known


def set_attributes(database: Connection, cells: Iterable[tuple[int, Mapping[str, Cell]]]) -> None:
    """Note the cells of images, by their numbers, for filters."""
    groups: dict[tuple[str, ...], list[tuple[Cell, ...]]] = {}
    for number, of_image in cells:
        groups.setdefault(tuple(of_image), []).append((*of_image.values(), number))
    for names, rows in groups.items():
        slots = _slots(database, names)
        database.executemany(
            "INSERT OR IGNORE INTO attributes (number) VALUES (?)", [row[-1:] for row in rows]
        )
        if names:
            assignments = ", ".join(f"c{int(slots[name])} = ?" for name in names)
            database.executemany(
                f"UPDATE attributes SET {assignments} WHERE number = ?",  # noqa: S608 - numbers
                rows,
            )


def add_images(
    folder: Path,
    catalogue: Catalogue,
    images: Sequence[NewImage],
    arrays: Mapping[str, NDArray[Any]],
    reports: NewReports | None = None,
) -> None:
    """Add images with their vectors; when this returns, they survive any kill.

    Args:
        images: One with a known name replaces that image.  If a study loses its last image this
            way, its report is deleted, too.
        arrays: For each vector file of images, one row per image.
        reports: The sentences of their studies, kept together with them or not at all.
    """
    meta = catalogue.meta()
    place, number = int(meta["places"]), int(meta["next_number"])
    sums = append_rows(folder, meta, place, arrays)
    if reports is not None:
        sums |= _append_sentences(folder, meta, reports)
    with catalogue.transaction(write=True) as database:
        _, emptied = _delete_rows(database, "image", [image.image for image in images])
        roots = [(image.root,) for image in images]
        database.executemany("INSERT OR IGNORE INTO roots (path) VALUES (?)", roots)
        database.executemany(
            "INSERT INTO images SELECT ?, ?, ?, root, ?, ?, ?, ?, ?, ?, ?, ? FROM roots "
            "WHERE path = ?",
            [
                (number + i, place + i, one.image, one.study_id, one.patient_id, one.split,
                 one.height, one.width, json.dumps(dict(one.metadata), ensure_ascii=False),
                 one.file, one.added_by, one.root)
                for i, one in enumerate(images)
            ],
        )  # fmt: skip
        cells = [{k: as_cell(v) for k, v in i.metadata.items()} | dict(i.labels) for i in images]
        set_attributes(database, enumerate(cells, number))
        counts = {"places": place + len(images), "next_number": number + len(images)}
        set_meta(database, {**counts, **sums})
        if reports is not None:
            _put_reports(database, meta, reports)
        _forget_emptied(database, emptied)


def add_reports(folder: Path, catalogue: Catalogue, reports: NewReports) -> None:
    meta = catalogue.meta()
    sums = _append_sentences(folder, meta, reports)
    with catalogue.transaction(write=True) as database:
        set_meta(database, sums)
        _put_reports(database, meta, reports)


def _append_sentences(folder: Path, meta: Mapping[str, str], reports: NewReports) -> dict[str, int]:
    if not len(reports.sentences):
        return {}
    return append_rows(folder, meta, int(meta["sentence_places"]), {"sentences": reports.vectors})


def _put_reports(database: Connection, meta: Mapping[str, str], reports: NewReports) -> None:
    place, number = int(meta["sentence_places"]), int(meta["next_sentence"])
    database.executemany(
        "INSERT INTO sentences VALUES (?, ?, ?)",
        [(number + i, place + i, text) for i, text in enumerate(reports.sentences)],
    )
    _forget_reports(database, {*reports.silent, *(study for study, *_ in reports.said)})
    database.executemany(
        "INSERT OR REPLACE INTO said SELECT ?, ?, ?, number FROM sentences WHERE sentence = ?",
        reports.said,
    )
    _drop_unsaid(database)
    count = len(reports.sentences)
    set_meta(database, {"sentence_places": place + count, "next_sentence": number + count})


def move_patient(database: Connection, old: str, new: str) -> int:
    """Give a patient's images to another patient, who keeps their split; gives how many."""
    (split,) = database.execute(
        "SELECT min(split) FROM images WHERE patient_id = ?", (new,)
    ).fetchone()
    return database.execute(
        "UPDATE images SET patient_id = ?, split = coalesce(?, split) WHERE patient_id = ?",
        (new, split, old),
    ).rowcount


def delete_images(database: Connection, column: str, values: Iterable[str]) -> int:
    """Delete images by ``image`` or ``study_id``, in the caller's transaction; gives how many.

    A study's report goes with its last image; kept files are removed when the lock is released.
    """
    count, emptied = _delete_rows(database, column, values)
    _forget_emptied(database, emptied)
    return count


def _delete_rows(database: Connection, column: str, values: Iterable[str]) -> tuple[int, set[str]]:
    """Delete images; gives how many, and their studies."""
    if column not in ("image", "study_id"):
        raise ValueError(f"column must be image or study_id, got {column}")
    condition = f"{column} = ?"
    count, studies = 0, set[str]()
    for value in values:
        query = f"SELECT DISTINCT study_id FROM images WHERE {condition}"  # noqa: S608
        studies |= {study for (study,) in database.execute(query, (value,))}
        leave_files(database, condition, value)
        query = f"DELETE FROM images WHERE {condition}"  # noqa: S608 - one of two names
        count += database.execute(query, (value,)).rowcount
    if count:
        row = database.execute("SELECT value FROM meta WHERE key = 'deletions'").fetchone()
        set_meta(database, {"deletions": int(row[0]) + 1})
    return count, studies


def delete_studies(catalogue: Catalogue, studies: Sequence[str]) -> int:
    """Delete studies with their images and sentences, all or none; gives the number of images."""
    with catalogue.transaction(write=True) as database:
        for study in studies:
            if not database.execute("SELECT 1 FROM images WHERE study_id = ?", (study,)).fetchone():
                raise DataError(
                    f"{catalogue.path.parent}: holds no study '{study}'; nothing was deleted"
                )
        return delete_images(database, "study_id", studies)


def _forget_reports(database: Connection, studies: Iterable[str]) -> None:
    database.executemany("DELETE FROM said WHERE study_id = ?", [(study,) for study in studies])


def _forget_emptied(database: Connection, studies: Iterable[str]) -> None:
    for study in studies:
        if not database.execute("SELECT 1 FROM images WHERE study_id = ?", (study,)).fetchone():
            _forget_reports(database, [study])
    _drop_unsaid(database)


def _drop_unsaid(database: Connection) -> None:
    database.execute("DELETE FROM sentences WHERE number NOT IN (SELECT sentence FROM said)")
