"""What a search looks at: one consistent view of an index, memory-mapped."""

import json
import sqlite3
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.index.features.candidates import Rotation, Tuning, read_structure
from cxrtext.index.features.language import Language
from cxrtext.index.store.catalogue import Catalogue, empty_index
from cxrtext.index.store.vectors import OF_IMAGES, SCATTERED, SENTENCES, vector_files

Numbers = NDArray[np.int64]

ATTEMPTS = 20  # how often a view is taken again because a writer replaced its files meanwhile


@dataclass(frozen=True, slots=True)
class Structure:
    """An open FAISS structure."""

    digest: str
    index: Any
    rotation: Rotation  # how profiles became its vectors
    tuning: Tuning  # how it is searched
    places: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent view of an index."""

    meta: dict[str, str]  # what is noted of the index as a whole
    numbers: Numbers  # [places], the number of the image at each place, −1 where it was deleted
    arrays: dict[str, NDArray[Any]]  # mapped vectors of the images, one row a place, by file
    language: Language  # what the sketches and profiles were made by
    sentence_numbers: Numbers  # [s], numbers of the sentences
    texts: Tensor  # [s, D], their vectors
    structure: Structure | None  # the FAISS structure, if there is one

    @property
    def images(self) -> int:
        """Images that are there."""
        return int((self.numbers >= 0).sum())

    @property
    def live(self) -> Numbers:
        """Their places, in rising order."""
        return np.flatnonzero(self.numbers >= 0)

    @property
    def candidates(self) -> dict[str, Any]:
        """How the fast search finds candidates, as ``index.json`` has it."""
        return {} if self.structure is None else asdict(self.structure.tuning)

    def places_of(self, numbers: Numbers) -> Numbers:
        """Places of some numbers, in rising order; deleted ones are left out."""
        live = self.live
        places: Numbers = live[np.isin(self.numbers[live], numbers)]
        return places


def take_snapshot(folder: Path, catalogue: Catalogue, before: Snapshot | None = None) -> Snapshot:
    """Take a view of an index, whatever a writer does meanwhile (CheckpointError).

    Args:
        before: An older view, of which what did not change is kept.
    """
    for attempt in range(ATTEMPTS):
        with catalogue.transaction() as database:
            meta = catalogue.meta()
            if "model" not in meta:
                raise empty_index(folder)
            numbers = _numbers(database, "images", int(meta["places"]))
            sentences = _numbers(database, "sentences", int(meta["sentence_places"]))
            named = database.execute(
                "SELECT file, digest, places, detail FROM structures WHERE name = 'profiles'"
            ).fetchone()
        try:
            return _open(folder, meta, numbers, sentences, named, before)
        except (FileNotFoundError, CheckpointError):
            # A writer may have moved on to other files since; the same once more is damage.
            if attempt and catalogue.meta() == meta:
                if isinstance(_missing(folder, meta), Path):
                    raise CheckpointError(
                        f"{_missing(folder, meta)}: is missing; restore the folder from a copy, "
                        "or index into a new one"
                    ) from None
                raise
    raise CheckpointError(f"{folder}: changes faster than it can be read; search again")


def _missing(folder: Path, meta: dict[str, str]) -> Path | None:
    files = vector_files(folder, meta).values()
    return next((file.path for file in files if not file.path.is_file()), None)


def _numbers(database: sqlite3.Connection, table: str, places: int) -> Numbers:
    rows = database.execute(f"SELECT place, number FROM {table}").fetchall()  # noqa: S608
    numbers = np.full(places, -1, dtype=np.int64)
    if rows:
        found = np.array(rows, dtype=np.int64)
        numbers[found[:, 0]] = found[:, 1]
    return numbers


def _open(
    folder: Path,
    meta: dict[str, str],
    numbers: Numbers,
    sentences: Numbers,
    named: tuple[str, str, int, str] | None,
    before: Snapshot | None,
) -> Snapshot:
    files = vector_files(folder, meta)
    there = np.flatnonzero(sentences >= 0)
    texts = np.asarray(files[SENTENCES].open(len(sentences))[there], dtype=np.float32)
    structure = None
    if named is not None:
        file, digest, places, detail = named
        noted = json.loads(detail)
        rotation = Rotation.of_dict(noted.pop("turn"))
        tuning = Tuning(**noted)
        if before is not None and before.structure and before.structure.digest == digest:
            structure = replace(before.structure, tuning=tuning)
        else:
            index = read_structure(folder / file, digest, places, rotation.dimension)
            structure = Structure(digest, index, rotation, tuning, places)
    language = None if before is None else before.language
    if language is None or before is None or before.meta["basis"] != meta["basis"]:
        language = Language.of_meta(meta)
    return Snapshot(
        meta=meta,
        numbers=numbers,
        arrays={
            name: files[name].open(len(numbers), scattered=name in SCATTERED) for name in OF_IMAGES
        },
        language=language,
        sentence_numbers=sentences[there],
        texts=torch.from_numpy(texts),
        structure=structure,
    )
