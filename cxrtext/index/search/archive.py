"""An archive: one index or several of one model, looked at and searched as one.

Each part gives its own hits by falling score, and these are merged, so that an exact search of the
parts is an exact search of them all.
"""

import heapq
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import CheckpointError, NotFoundError
from cxrtext.files.sqlite import WAIT_S
from cxrtext.index.search.columns import Column, columns_of
from cxrtext.index.search.filter import parse, tests_of
from cxrtext.index.search.hits import Cohort, FoundImages, Ranked, SentenceHit, Unique, page
from cxrtext.index.search.index import Index, open_part
from cxrtext.index.search.query import Query
from cxrtext.index.search.ranking import Effort, exact_order, fast_order
from cxrtext.index.search.selection import View, select, views_of
from cxrtext.index.search.sentences import Usual, best_sentences, image_scores
from cxrtext.index.store.catalogue import IndexedImage
from cxrtext.index.store.snapshot import Snapshot
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing, finish

Mode = Literal["auto", "exact", "fast"]

EXACT_BYTES = 512 * 2**20
"""Sketches that a search reads in whole; where filters leave more it looks for candidates."""


class SearchOptions(TypedDict, total=False):
    where: str | None  # a filter (see :mod:`.filter`), whose columns every part must have
    offset: int  # hits to skip, for the next page
    min_score: float | None  # leave out what scores less
    unique: Unique | None  # one hit a patient, a study or a picture
    exclude_patients: Sequence[str]
    mode: Mode
    """"exact" proves that nothing else scores higher; "fast" scores candidates only; "auto" is
    exact unless what the filters leave is large."""


class SentenceOptions(TypedDict, total=False):
    where: str | None  # a filter of images (see :mod:`.filter`); sentences of their studies
    offset: int  # hits to skip, for the next page
    min_score: float  # leave out what scores less


class Archive:
    """Open indexes of one model, at least one; a context manager.  Open one with `open_index`."""

    def __init__(self, parts: Sequence[Index]) -> None:
        self.parts = list(parts)
        self.model = self.parts[0].model
        self._usual = Usual()
        self._columns: tuple[list[Snapshot], list[Column]] | None = None

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def snapshots(self) -> list[Snapshot]:
        """Every index as it is now (HeldError)."""
        return [part.snapshot for part in self.parts]

    @property
    def images(self) -> int:
        return sum(snapshot.images for snapshot in self.snapshots())

    @property
    def sentences(self) -> int:
        """Number of distinct sentences; one that two indexes hold counts twice."""
        return sum(len(snapshot.sentence_numbers) for snapshot in self.snapshots())

    def find(self, image_id: str) -> tuple[Index, IndexedImage]:
        """The image of an id, and the index that holds it (NotFoundError)."""
        for part in self.parts:
            found = part.catalogue.image(image_id)
            if found is not None:
                return part, found
        raise NotFoundError("the index holds no image of that id")

    def page(
        self, offset: int, limit: int, where: str | None = None
    ) -> Pausing[tuple[list[IndexedImage], int]]:
        """Some images in the order in which they were indexed, and how many there are in all."""
        total, found = 0, list[IndexedImage]()
        for part in self.parts:
            snapshot = part.snapshot
            numbers = snapshot.numbers[(yield from select(part.catalogue, snapshot, where))]
            start = max(0, offset - total)
            wanted = numbers[start : start + limit - len(found)].tolist()
            found += [image for image in part.catalogue.images(wanted) if image is not None]
            total += len(numbers)
        return found, total

    def report(self, study_id: str) -> list[tuple[str, str]]:
        """Section and text of each sentence of a study, in order."""
        reports = (part.catalogue.report(study_id) for part in self.parts)
        return next((report for report in reports if report), [])

    def columns(self) -> list[Column]:
        """The columns that filters can name; remembered until the archive changes."""
        snapshots = self.snapshots()
        if self._columns is None or any(
            now is not then for now, then in zip(snapshots, self._columns[0], strict=True)
        ):
            self._columns = snapshots, columns_of(self.parts, snapshots)
        return self._columns[1]

    def why_nothing(self, where: str) -> str | None:
        """What a column holds of which a filter that leaves no image asks something else, or None.

        Work of a moment, or, where the archive has changed, of a look at all its columns.
        """
        if finish(self.page(0, 1, where))[1]:
            return None
        columns = {column.name: column for column in self.columns()}
        for test in tests_of(parse(where, self.parts[0].catalogue.columns()).tree):
            column = columns.get(test.column)
            if column is not None and (held := column.instead_of(test)):
                return f"{column.name} holds {held}"
        return None

    def is_unlike(self, regions: Tensor) -> bool:
        """Whether an image with regions [N, D] is less like any than they are like each other."""
        return all(part.is_unlike(regions) for part in self.parts)

    def search(self, query: Query, k: int = 10, **options: Unpack[SearchOptions]) -> FoundImages:
        """The images that fit a query best, k of them whenever there are as many."""
        return finish(self.search_pausing(query, k, **options))

    def search_pausing(
        self, query: Query, k: int = 10, **options: Unpack[SearchOptions]
    ) -> Pausing[FoundImages]:
        where, patients = options.pop("where", None), options.pop("exclude_patients", ())
        mode = options.pop("mode", "auto")
        views: list[View] = []
        yield from views_of(self.parts, where, patients, views)
        efforts = [Effort() for _ in views]
        streams = [
            _ranked(view, which, query, mode, effort)
            for which, (view, effort) in enumerate(zip(views, efforts, strict=True))
        ]
        merged = heapq.merge(*_begun(streams), key=lambda ranked: -ranked[0])
        hits = yield from page(views, merged, k, **options)  # type: ignore[misc]
        return FoundImages(
            hits,
            sum(len(view.places) for view in views),
            sum(effort.scored for effort in efforts),
            all(effort.exact for effort in efforts),
        )

    def cohort(self, query: Query, **options: Any) -> Cohort:
        return Cohort(self.parts, query, **options)

    def search_sentences(
        self,
        k: int = 10,
        *,
        image: Tensor | None = None,
        text: Tensor | None = None,
        **options: Unpack[SentenceOptions],
    ) -> list[SentenceHit]:
        """The k indexed sentences that fit an image best, or are most alike to a sentence.

        An image is given by its regions [N, D], and fits by its lift (see :mod:`.sentences`), in
        an archive of few images by the model's own score; a sentence by its embedding [D], and is
        alike by cosine.
        """
        return finish(self.search_sentences_pausing(k, image=image, text=text, **options))

    def search_sentences_pausing(
        self,
        k: int = 10,
        *,
        image: Tensor | None = None,
        text: Tensor | None = None,
        **options: Unpack[SentenceOptions],
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`search_sentences`, with pauses; studies of several parts are added up."""
        offset = options.pop("offset", 0)
        if k < 1 or offset < 0:
            raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
        if not self.sentences:
            raise NotFoundError("the index holds no sentences; index with --reports to add them")
        snapshots = self.snapshots()
        lifts = None if image is None else (yield from self._usual.of(self.parts, snapshots))
        hits: dict[str, SentenceHit] = {}
        for which, (part, snapshot) in enumerate(zip(self.parts, snapshots, strict=True)):
            if image is not None:
                scores = yield from image_scores(part, snapshot, image)
            else:
                assert text is not None  # noqa: S101 - one of the two is given
                scores = snapshot.texts @ text.cpu().float()
            own = None if lifts is None else lifts[which]
            best = yield from best_sentences(part, snapshot, scores, own, offset + k, **options)  # type: ignore[misc]
            for hit in best:
                before = hits.get(hit.sentence)
                studies = hit.studies + (before.studies if before else 0)
                hits[hit.sentence] = replace(hit, studies=studies)
        return sorted(hits.values(), key=lambda hit: -hit.rank)[offset : offset + k]


def _ranked(view: View, which: int, query: Query, mode: Mode, effort: Effort) -> Iterator[Ranked]:
    order = fast_order if _is_fast(view, query, mode) else exact_order
    for score, place in order(view.snapshot, view.part.model, query, view.places, effort):
        yield score, which, place


def _begun(streams: Sequence[Iterator[Ranked]]) -> Sequence[Iterator[Ranked]]:
    """Streams of which each has found its first hit, those of several indexes at the same time.

    Bounds, candidates and reading the disk, which is nearly all the work, come before it.
    """
    workers = min(len(streams), torch.get_num_threads())
    if workers < 2:
        return streams
    with ThreadPoolExecutor(workers) as pool:
        firsts = list(pool.map(lambda stream: list(islice(stream, 1)), streams))
    return [chain(first, stream) for first, stream in zip(firsts, streams, strict=True)]


def _is_fast(view: View, query: Query, mode: Mode) -> bool:
    if view.snapshot.structure is None or query.texts is None or mode == "exact":
        return False
    sketches = view.snapshot.arrays["sketch"]
    row_bytes = sketches.dtype.itemsize * int(np.prod(sketches.shape[1:]))
    return mode == "fast" or len(view.places) * row_bytes > EXACT_BYTES


def open_index(
    folders: str | Path | Sequence[str | Path],
    model: ImageTextModel | str | Path | None = None,
    *,
    wait_s: float = WAIT_S,
) -> Archive:
    """Open an index for searching, or several that are searched as one.

    A folder need not be writable.  The model is by default the one noted in the index.
    """
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    if len({Path(folder).resolve() for folder in given}) < len(given) or not given:
        raise CheckpointError("name each index once, and at least one")
    with ExitStack() as opened:
        parts: list[Index] = []
        for folder in given:
            parts.append(open_part(Path(folder), parts[0].model if parts else model, wait_s))
            opened.callback(parts[-1].close)
        opened.pop_all()
    return Archive(parts)
