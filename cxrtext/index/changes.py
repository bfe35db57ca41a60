"""What can change in an index: images and sentences come, images and studies go."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.files.table_sums import keep_sums
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.where import Cell, as_cell
from cxrtext.index.writer import append_rows, note_segments, set_meta

MAX_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to be added, or to take the place of the one of its name.

    Args:
        image: Its name.
        root: The folder that its name is relative to.
        study_id: Its study.
        patient_id: Its patient.
        split: Its split.
        height: Height of the original, in pixels.
        width: Width of the original, in pixels.
        metadata: The other cells of its row.
        labels: Probabilities, by column of labels.
    """

    image: str
    root: str
    study_id: str
    patient_id: str
    split: str
    height: int
    width: int
    metadata: Mapping[str, str]
    labels: Mapping[str, float]


def _slots(database: Connection, names: Iterable[str]) -> dict[str, int]:
    """Slots of columns, made where they are missing."""
    known = dict(database.execute("SELECT name, slot FROM columns"))
    is_new = False
    for name in names:
        if name not in known:
            if len(known) >= MAX_COLUMNS:
                raise DataError(
                    f"column '{name}': an index keeps {MAX_COLUMNS} columns at most; leave some "
                    "out of the manifest"
                )
            known[name] = len(known)
            database.execute("INSERT INTO columns VALUES (?, ?)", (name, known[name]))
            database.execute(f"ALTER TABLE attributes ADD COLUMN c{known[name]}")
            is_new = True
    if is_new:
        keep_sums(database, ["attributes"])
    return known


def set_attributes(database: Connection, cells: Iterable[tuple[int, Mapping[str, Cell]]]) -> None:
    """Note the cells of images, by their numbers, that filters look at."""
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
) -> None:
    """Add images with their vectors; when this returns they are kept, whatever is killed.

    Args:
        folder: The index's folder.
        catalogue: Open for writing.
        images: The images; one whose name is known replaces it.
        arrays: One row an image for each of the vector files of images.
    """
    meta = catalogue.meta()
    place, number = int(meta["places"]), int(meta["next_number"])
    segments = append_rows(folder, meta, place, arrays)
    with catalogue.transaction(write=True) as database:
        note_segments(database, segments)
        delete_images(database, "image", [image.image for image in images])
        for offset, image in enumerate(images):
            database.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (image.root,))
            database.execute(
                "INSERT INTO images SELECT ?, ?, ?, root, ?, ?, ?, ?, ?, ? FROM roots "
                "WHERE path = ?",
                (
                    number + offset,
                    place + offset,
                    image.image,
                    image.study_id,
                    image.patient_id,
                    image.split,
                    image.height,
                    image.width,
                    json.dumps(dict(image.metadata), ensure_ascii=False),
                    image.root,
                ),
            )
        cells = [{k: as_cell(v) for k, v in i.metadata.items()} | dict(i.labels) for i in images]
        set_attributes(database, enumerate(cells, number))
        added = {"places": place + len(images), "next_number": number + len(images)}
        set_meta(database, added)


def add_sentences(
    folder: Path,
    catalogue: Catalogue,
    sentences: Sequence[str],
    vectors: NDArray[Any],
    said: Iterable[tuple[str, str, int, str]],
) -> None:
    """Add distinct sentences that are not known, and who said them.

    Args:
        folder: The index's folder.
        catalogue: Open for writing.
        sentences: New sentences.
        vectors: [len(sentences), D].
        said: (study, section, position, text) of every sentence, new or known; the sentences
            that these studies said before are forgotten.
    """
    said = list(said)
    meta = catalogue.meta()
    place, number = int(meta["sentence_places"]), int(meta["next_sentence"])
    segments = append_rows(folder, meta, place, {"sentences": vectors}) if len(sentences) else []
    with catalogue.transaction(write=True) as database:
        note_segments(database, segments)
        database.executemany(
            "INSERT INTO sentences VALUES (?, ?, ?)",
            [(number + i, place + i, text) for i, text in enumerate(sentences)],
        )
        _forget_reports(database, {study for study, *_ in said})
        database.executemany(
            "INSERT OR REPLACE INTO said SELECT ?, ?, ?, number FROM sentences WHERE sentence = ?",
            said,
        )
        _drop_unsaid(database)
        set_meta(
            database,
            {"sentence_places": place + len(sentences), "next_sentence": number + len(sentences)},
        )


def delete_images(database: Connection, column: str, values: Iterable[str]) -> int:
    """Delete images by ``image`` or ``study_id``, in the caller's transaction; counts them."""
    if column not in ("image", "study_id"):
        raise ValueError(f"column must be image or study_id, got {column}")
    count = database.executemany(
        f"DELETE FROM images WHERE {column} = ?",  # noqa: S608 - one of two names
        [(value,) for value in values],
    ).rowcount
    if count:
        found = database.execute("SELECT value FROM meta WHERE key = 'deletions'").fetchone()
        set_meta(database, {"deletions": int(found[0]) + 1})
    return count


def delete_studies(catalogue: Catalogue, studies: Sequence[str]) -> int:
    """Delete studies, with their images and sentences, all of them or none.

    Returns:
        The number of images deleted.

    Raises:
        DataError: One of them is not in the index.
    """
    with catalogue.transaction(write=True) as database:
        for study in studies:
            if not database.execute("SELECT 1 FROM images WHERE study_id = ?", (study,)).fetchone():
                raise DataError(
                    f"{catalogue.path.parent}: holds no study '{study}'; nothing was deleted"
                )
        count = delete_images(database, "study_id", studies)
        _forget_reports(database, studies)
        _drop_unsaid(database)
    return count


def _forget_reports(database: Connection, studies: Iterable[str]) -> None:
    database.executemany("DELETE FROM said WHERE study_id = ?", [(study,) for study in studies])


def _drop_unsaid(database: Connection) -> None:
    database.execute("DELETE FROM sentences WHERE number NOT IN (SELECT sentence FROM said)")
