"""What a search looks at: one consistent view of an index, memory-mapped."""

import json
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.index.candidates import Tuning, read_structure
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.language import Language
from cxrtext.index.layout import OF_IMAGES, SCATTERED, SENTENCES, vector_files
from cxrtext.index.turned import Turn

Numbers = NDArray[np.int64]

ATTEMPTS = 20
"""How often a view is taken again because a writer replaced its files meanwhile."""


@dataclass(frozen=True, slots=True)
class Structure:
    """An open FAISS structure.

    Args:
        digest: Of its file.
        index: It.
        turn: How profiles became its vectors.
        tuning: How it is searched.
        places: It knows the places below.
    """

    digest: str
    index: Any
    turn: Turn
    tuning: Tuning
    places: int


@dataclass(frozen=True, slots=True)
class State:
    """One consistent view of an index.

    Args:
        meta: What is noted of the index as a whole.
        numbers: [places], the number of the image at each place, −1 where it was deleted.
        arrays: Mapped vectors of the images, one row a place, by file.
        language: What the sketches and profiles were made by.
        sentence_numbers: [s], numbers of the sentences.
        texts: [s, D], their vectors.
        structure: The FAISS structure, if there is one.
    """

    meta: dict[str, str]
    numbers: Numbers
    arrays: dict[str, NDArray[Any]]
    language: Language
    sentence_numbers: Numbers
    texts: Tensor
    structure: Structure | None

    @property
    def images(self) -> int:
        """Images that are there."""
        return int((self.numbers >= 0).sum())

    def places_of(self, numbers: Numbers) -> Numbers:
        """Places of some numbers, in rising order; deleted ones are left out."""
        live = np.flatnonzero(self.numbers >= 0)
        places: Numbers = live[np.isin(self.numbers[live], numbers)]
        return places


def read_state(folder: Path, catalogue: Catalogue, before: State | None = None) -> State:
    """Take a view of an index, whatever a writer does meanwhile.

    Args:
        folder: The index's folder.
        catalogue: Open.
        before: An older view, of which what did not change is kept.

    Raises:
        CheckpointError: A file is damaged or missing.
    """
    for attempt in range(ATTEMPTS):
        with catalogue.transaction() as database:
            meta = catalogue.meta()
            if "model" not in meta:
                raise CheckpointError(
                    f"{folder}: the index is empty; run 'cxrtext index MANIFEST' to fill it"
                )
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
    before: State | None,
) -> State:
    files = vector_files(folder, meta)
    there = np.flatnonzero(sentences >= 0)
    texts = np.asarray(files[SENTENCES].open(len(sentences))[there], dtype=np.float32)
    structure = None
    if named is not None:
        file, digest, places, detail = named
        noted = json.loads(detail)
        turn = Turn.of_dict(noted.pop("turn"))
        tuning = Tuning(**noted)
        if before is not None and before.structure and before.structure.digest == digest:
            structure = replace(before.structure, tuning=tuning)
        else:
            index = read_structure(folder / file, digest, places, turn.dimension)
            structure = Structure(digest, index, turn, tuning, places)
    language = None if before is None else before.language
    if language is None or before is None or before.meta["basis"] != meta["basis"]:
        language = Language.of_meta(meta)
    return State(
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
