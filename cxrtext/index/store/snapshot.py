"""What a search looks at: one consistent view of an index, memory-mapped."""

import sqlite3
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.index.features.candidates import Rotation, read_structure
from cxrtext.index.features.language import Language
from cxrtext.index.store.catalogue import Catalogue, empty_index, structure_of
from cxrtext.index.store.vectors import OF_IMAGES, SCATTERED, SENTENCES, vector_files

Numbers = NDArray[np.int64]

NONE: Numbers = np.empty(0, dtype=np.int64)
ROWS_AT_ONCE = 50_000

ATTEMPTS = 20  # how often a view is taken again because a writer replaced its files meanwhile


@dataclass(frozen=True, slots=True)
class Structure:
    digest: str
    index: Any
    rotation: Rotation  # how profiles became its vectors
    places: int


@dataclass(frozen=True)
class Snapshot:
    meta: dict[str, str]  # what is noted of the index as a whole
    numbers: Numbers  # [places], the number of the image at each place, −1 where it was deleted
    arrays: dict[str, NDArray[Any]]  # mapped vectors of the images, one row a place, by file
    language: Language  # what the sketches and profiles were made by
    sentence_numbers: Numbers  # [s], numbers of the sentences
    texts: Tensor  # [s, D], their vectors
    structure: Structure | None  # the FAISS structure, if there is one

    @property
    def images(self) -> int:
        return len(self.live)

    @cached_property
    def live(self) -> Numbers:
        """Their places, in rising order."""
        return np.flatnonzero(self.numbers >= 0)

    @cached_property
    def _by_number(self) -> tuple[Numbers, Numbers]:
        numbers = self.numbers[self.live]
        # They rise with the places, unless a rebuild for a new model could not read one at first.
        if (np.diff(numbers) > 0).all():
            return numbers, self.live
        order = np.argsort(numbers, kind="stable")
        return numbers[order], self.live[order]

    def places_of(self, numbers: Numbers) -> Numbers:
        """Places of some numbers, in rising order; deleted ones are left out."""
        wanted, (known, places) = np.unique(numbers), self._by_number
        at = np.searchsorted(known, wanted)
        there = at < len(known)
        there[there] = known[at[there]] == wanted[there]
        found: Numbers = np.sort(places[at[there]])
        return found


def take_snapshot(folder: Path, catalogue: Catalogue, before: Snapshot | None = None) -> Snapshot:
    """Take a view, whatever a writer does meanwhile, by an older one (CheckpointError)."""
    for attempt in range(ATTEMPTS):
        with catalogue.transaction() as database:
            meta = catalogue.meta()
            if "model" not in meta:
                raise empty_index(folder)
            kept = NONE
            if before and all(before.meta[key] == meta[key] for key in ("generation", "deletions")):
                kept = before.numbers  # it has only grown
            numbers = _numbers(database, "images", int(meta["places"]), kept)
            sentences = _numbers(database, "sentences", int(meta["sentence_places"]), NONE)
        try:
            return _open(folder, meta, numbers, sentences, before)
        except (FileNotFoundError, CheckpointError):
            # A writer may have moved on to other files since; the same once more is damage.
            if attempt and catalogue.meta() == meta:
                if missing := _missing(folder, meta):
                    raise CheckpointError(
                        f"{missing}: is missing; restore the folder from a copy, or index into a "
                        "new one"
                    ) from None
                raise
    raise CheckpointError(f"{folder}: changes faster than it can be read; search again")


def _missing(folder: Path, meta: dict[str, str]) -> Path | None:
    files = vector_files(folder, meta).values()
    return next((file.path for file in files if not file.path.is_file()), None)


def _numbers(database: sqlite3.Connection, table: str, places: int, kept: Numbers) -> Numbers:
    """Numbers by place, −1 where there is none; those of the first places are known."""
    numbers = np.concatenate([kept, np.full(places - len(kept), -1, dtype=np.int64)])
    rows = database.execute(
        f"SELECT place, number FROM {table} WHERE place >= ?",  # noqa: S608
        (len(kept),),
    )
    while part := rows.fetchmany(ROWS_AT_ONCE):
        found = np.array(part, dtype=np.int64)
        numbers[found[:, 0]] = found[:, 1]
    return numbers


def _open(
    folder: Path,
    meta: dict[str, str],
    numbers: Numbers,
    sentences: Numbers,
    before: Snapshot | None,
) -> Snapshot:
    files = vector_files(folder, meta)
    there = np.flatnonzero(sentences >= 0)
    texts = np.asarray(files[SENTENCES].open(len(sentences))[there], dtype=np.float32)
    structure = None
    if (noted := structure_of(meta)) is not None:
        structure = None if before is None else before.structure
        digest, places = noted["digest"], noted["places"]
        if structure is None or structure.digest != digest:
            rotation = Rotation.of_dict(noted["rotation"])
            index = read_structure(folder / noted["file"], digest, places, rotation.dimension)
            structure = Structure(digest, index, rotation, places)
    same = before is not None and before.meta["basis"] == meta["basis"]
    return Snapshot(
        meta=meta,
        numbers=numbers,
        arrays={
            name: files[name].open(len(numbers), scattered=name in SCATTERED) for name in OF_IMAGES
        },
        language=before.language if before is not None and same else Language.of_meta(meta),
        sentence_numbers=sentences[there],
        texts=torch.from_numpy(texts),
        structure=structure,
    )
