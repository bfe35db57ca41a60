"""A consistent, memory-mapped view of an index for searches."""

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

ATTEMPTS = 20  # how often to take a view again after a writer replaced its files


@dataclass(frozen=True, slots=True)
class Structure:
    digest: str
    index: Any
    rotation: Rotation  # turns profiles into its vectors
    places: int


@dataclass(frozen=True)
class Snapshot:
    meta: dict[str, str]  # notes about the index as a whole
    numbers: Numbers  # [places], the number of the image at each place, −1 if it was deleted
    arrays: dict[str, NDArray[Any]]  # mapped vectors of the images by file, one row per place
    language: Language  # of the sketches and profiles
    sentence_numbers: Numbers  # [s], numbers of the sentences
    texts: Tensor  # [s, D], their vectors
    structure: Structure | None  # the FAISS structure, if there is one

    @property
    def images(self) -> int:
        return len(self.live)

    @cached_property
    def live(self) -> Numbers:
        """The places of the images, in rising order."""
        return np.flatnonzero(self.numbers >= 0)

    @cached_property
    def _by_number(self) -> tuple[Numbers, Numbers]:
        numbers = self.numbers[self.live]
        # Numbers rise with places, unless a rebuild for a new model could not read one at first.
        if (np.diff(numbers) > 0).all():
            return numbers, self.live
        order = np.argsort(numbers, kind="stable")
        return numbers[order], self.live[order]

    def places_of(self, numbers: Numbers) -> Numbers:
        """Places of images by their numbers, in rising order, without deleted ones."""
        wanted, (known, places) = np.unique(numbers), self._by_number
        at = np.searchsorted(known, wanted)
        there = at < len(known)
        there[there] = known[at[there]] == wanted[there]
        sorted_places: Numbers = np.sort(places[at[there]])
        return sorted_places


def take_snapshot(folder: Path, catalogue: Catalogue, before: Snapshot | None = None) -> Snapshot:
    """Take a view, even while a writer works; ``before`` saves time (CheckpointError)."""
    for attempt in range(ATTEMPTS):
        with catalogue.transaction() as database:
            meta = catalogue.meta()
            if "model" not in meta:
                raise empty_index(folder)
            kept = NONE
            if before and all(before.meta[key] == meta[key] for key in ("generation", "deletions")):
                kept = before.numbers  # images were only added
            numbers = _numbers(database, "images", int(meta["places"]), kept)
            sentences = _numbers(database, "sentences", int(meta["sentence_places"]), NONE)
        try:
            return _open(folder, meta, numbers, sentences, before)
        except (FileNotFoundError, CheckpointError):
            # A writer may have switched to new files; if nothing changed, it is damage.
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
    """Numbers by place, −1 for an empty one; ``kept`` has those of the first places."""
    numbers = np.concatenate([kept, np.full(places - len(kept), -1, dtype=np.int64)])
    rows = database.execute(
        f"SELECT place, number FROM {table} WHERE place >= ?",  # noqa: S608
        (len(kept),),
    )
    while part := rows.fetchmany(ROWS_AT_ONCE):
        block = np.array(part, dtype=np.int64)
        numbers[block[:, 0]] = block[:, 1]
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
