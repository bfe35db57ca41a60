"""Add single images to an index, and find out whose they are.

HTTP and hospital systems both use this: their rules differ, but not how they query and change the
index.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import HeldError
from cxrtext.index.changes import NewImage, NewReports
from cxrtext.index.search.filter import as_cell
from cxrtext.index.store.catalogue import Catalogue
from cxrtext.index.store.writer import keep_file, write_summary, writing
from cxrtext.records.manifest import INSTANCE

_INSTANCE = f"$.{INSTANCE}"


@contextmanager
def entering(folder: Path, generation: str, wait_s: float) -> Iterator[Catalogue]:
    """Open an index, as `writing` does, for vectors of a generation (HeldError: a newer one)."""
    with writing(folder, wait_s=wait_s) as catalogue:
        if catalogue.meta()["generation"] != generation:
            raise HeldError(f"{folder}: was rewritten meanwhile; try again")
        yield catalogue
        write_summary(folder, catalogue)


def keep_image(catalogue: Catalogue, root: Path, data: bytes, ending: str, **said: Any) -> NewImage:
    """Keep an image's file, named by its content; ``said`` are the other fields of `NewImage`."""
    root = root.resolve()
    file = keep_file(catalogue, root, data, hashlib.sha256(data).hexdigest(), ending)
    return NewImage(root=str(root), file=file, **said)


def others_say(
    catalogue: Catalogue, wanted: str, column: str, value: str, *, but: str = ""
) -> list[str]:
    """The values in the ``wanted`` column of images with this value, apart from ``but``."""
    query = f"SELECT DISTINCT {wanted} FROM images WHERE {column} = ? AND image <> ?"  # noqa: S608
    return [str(cell) for (cell,) in catalogue.database.execute(query, (value, but))]


def is_of_others(
    catalogue: Catalogue, column: str, value: str, key: str | None, *, but: str = ""
) -> bool:
    """Whether another key, or an import without a key, added images with this value.

    ``but`` is an image that does not count.
    """
    query = f"SELECT 1 FROM images WHERE {column} = ? AND image <> ? AND added_by IS NOT ? LIMIT 1"  # noqa: S608
    return catalogue.database.execute(query, (value, but, key)).fetchone() is not None


class Imported:
    """The names in an index of imported objects that hospital systems send, too."""

    def __init__(self) -> None:
        self._generation, self._last = "", -1
        self._images: dict[str, str] = {}

    def called(self, catalogue: Catalogue, instance: str) -> str:
        """The id of the image imported with a SOPInstanceUID or its hash, else the UID itself.

        Images that are new since the last call are read first.  Images added with a key do not
        count: their metadata may hold anything.
        """
        if (generation := catalogue.meta()["generation"]) != self._generation:
            self._generation, self._last, self._images = generation, -1, {}
        query = (
            "SELECT number, image, json_extract(metadata, ?) FROM images WHERE number > ? "
            "AND added_by IS NULL ORDER BY number"
        )
        for number, image, name in catalogue.database.execute(query, (_INSTANCE, self._last)):
            self._last = number
            if name:
                self._images[name] = image
        return self._images.get(instance, instance)


class Subject(NamedTuple):
    image: str
    study_id: str
    patient_id: str


def subjects(
    catalogue: Catalogue, images: Collection[str] = (), studies: Collection[str] = ()
) -> list[Subject]:
    """The images named directly or by their study, each once."""
    named: dict[Subject, None] = {}
    for column, values in (("image", images), ("study_id", studies)):
        query = f"SELECT image, study_id, patient_id FROM images WHERE {column} = ? ORDER BY image"  # noqa: S608
        for value in values:
            named |= {Subject(*row): None for row in catalogue.database.execute(query, (value,))}
    return list(named)


def of_study_or_accession(
    catalogue: Catalogue, studies: Sequence[str], accession: str
) -> list[tuple[str, str, str]]:
    """Study, patient and accession number of images with one of these studies, or this number."""
    select = "SELECT study_id, patient_id, metadata FROM images"
    marks = ", ".join("?" * len(studies))
    with catalogue.transaction() as database:
        rows = database.execute(f"{select} WHERE study_id IN ({marks})", list(studies)).fetchall()
        slot = catalogue.columns().get("accession")
        if slot is not None and accession:
            rows += database.execute(
                f"{select} JOIN attributes USING (number) WHERE c{int(slot)} = ?",
                (as_cell(accession),),
            ).fetchall()
    return [
        (study, patient, str(json.loads(metadata).get("accession", "")))
        for study, patient, metadata in rows
    ]


def reports_of(
    catalogue: Catalogue,
    vectors: Mapping[str, NDArray[Any]],
    said: Sequence[tuple[str, str, int, str]],
    silent: Sequence[str] = (),
) -> NewReports:
    """The sentences of studies; ``vectors``, by text, are needed for the new ones."""
    query = "SELECT 1 FROM sentences WHERE sentence = ?"
    texts = dict.fromkeys(text for *_, text in said)
    new = [text for text in texts if not catalogue.database.execute(query, (text,)).fetchone()]
    stack = np.stack([vectors[text] for text in new]) if new else np.empty(0)
    return NewReports(new, stack, said, silent)
