"""Images that enter an index or leave it one by one: whose they are, and the lock that they need.

Over HTTP and from hospital systems alike: what these two may do differs, what the index is asked
and how it is changed does not.
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
    """Open an index for vectors of a generation (HeldError: written anew), as `writing` does."""
    with writing(folder, wait_s=wait_s) as catalogue:
        if catalogue.meta()["generation"] != generation:
            raise HeldError(f"{folder}: was written anew meanwhile; try again")
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
    """What images, beside one, have in one column where another has a value."""
    query = f"SELECT DISTINCT {wanted} FROM images WHERE {column} = ? AND image <> ?"  # noqa: S608
    return [str(found) for (found,) in catalogue.database.execute(query, (value, but))]


def is_of_others(
    catalogue: Catalogue, column: str, value: str, key: str | None, *, but: str = ""
) -> bool:
    """Whether images of a value, beside one, came by another key, or by none, as an import's do."""
    query = f"SELECT 1 FROM images WHERE {column} = ? AND image <> ? AND added_by IS NOT ? LIMIT 1"  # noqa: S608
    return catalogue.database.execute(query, (value, but, key)).fetchone() is not None


class Imported:
    """What an index calls the objects that came by an import, which hospital systems name, too."""

    def __init__(self) -> None:
        self._generation, self._last = "", -1
        self._images: dict[str, str] = {}

    def called(self, catalogue: Catalogue, instance: str) -> str:
        """The id of the image of a SOPInstanceUID, or of its hash; itself where none was imported.

        Those that are new since it was asked last are read first; who adds images by a key may
        write what he likes into their metadata.
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
    """The images that are named, by themselves or by their study, each once."""
    found: dict[Subject, None] = {}
    for column, values in (("image", images), ("study_id", studies)):
        query = f"SELECT image, study_id, patient_id FROM images WHERE {column} = ? ORDER BY image"  # noqa: S608
        for value in values:
            found |= {Subject(*row): None for row in catalogue.database.execute(query, (value,))}
    return list(found)


def of_study_or_accession(
    catalogue: Catalogue, studies: Sequence[str], accession: str
) -> list[tuple[str, str, str]]:
    """Study, patient and accession number of the images of some studies, or of this number."""
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
    """What studies say, with the vectors, given by text, of the sentences that are new."""
    query = "SELECT 1 FROM sentences WHERE sentence = ?"
    texts = dict.fromkeys(text for *_, text in said)
    new = [one for one in texts if not catalogue.database.execute(query, (one,)).fetchone()]
    stack = np.stack([vectors[text] for text in new]) if new else np.empty(0)
    return NewReports(new, stack, said, silent)
