"""Every image that a query and its filters leave, best first, in pieces of bounded work.

A search finds its best hits and stops; a cohort has them all.  Each image is scored once, a block
at a time, so that whoever drives it decides what happens between two blocks; what is kept of an
image until its turn comes are three numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import WorkError
from cxrtext.index.hits import SAME_PICTURE, ImageHit, Unique
from cxrtext.index.query import Query
from cxrtext.index.ranking import scores_of
from cxrtext.index.selection import labels_of_several, select

if TYPE_CHECKING:
    from cxrtext.index.search import Index

BLOCK = 256
"""Images scored in one piece of work."""

PAGE = 500
"""Hits that are read from the catalogue in one piece of work."""

Places = NDArray[np.int64]


class Cohort:
    """Every hit of a query, best first; the order is that of an exact search.

    Args:
        parts: The indexes, of one model.
        query: What is looked for.
        where: A filter (see :mod:`cxrtext.index.where`).
        min_score: Leave out what scores less.
        unique: One hit a patient, a study or a picture: the best one.
        exclude_patients: Patients that are not looked for.

    It is made in steps: :meth:`select`, :meth:`score`, :meth:`rank`; then :meth:`hits` has them.
    """

    def __init__(
        self,
        parts: "Sequence[Index]",
        query: Query,
        *,
        where: str | None = None,
        min_score: float | None = None,
        unique: Unique | None = None,
        exclude_patients: Sequence[str] = (),
    ) -> None:
        self._parts = parts
        self._query = query
        self._min_score, self._unique = min_score, unique
        self._where, self._exclude_patients = where, exclude_patients
        self._states = [part.state for part in parts]
        self._places: list[Places] = []
        self.columns = list(
            dict.fromkeys(name for part in parts for name in part.catalogue.columns())
        )
        """Names of the manifests' other columns, and of the labels that are kept."""
        self._scores: list[NDArray[np.float32]] = []
        self._order: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
        self._ranked_scores = np.empty(0, dtype=np.float32)

    @property
    def matching(self) -> int:
        """Images that the filters leave."""
        return sum(len(places) for places in self._places)

    def select(self) -> Iterator[int]:
        """Find the images that the filters leave, a range of them at each step.

        Yields:
            How many there are in the indexes that are done.

        Raises:
            DataError: The filter is wrong.
        """
        for part, state in zip(self._parts, self._states, strict=True):
            work = select(part.catalogue, state, self._where, self._exclude_patients)
            while True:
                try:
                    next(work)
                except StopIteration as end:
                    self._places.append(end.value)
                    break
                yield self.matching
        self._scores = [np.empty(len(places), dtype=np.float32) for places in self._places]

    def score(self) -> Iterator[int]:
        """Score every selected image, a block at each step.

        Yields:
            How many are scored so far.
        """
        done = 0
        for part, state, places, scores in zip(
            self._parts, self._states, self._places, self._scores, strict=True
        ):
            for start in range(0, len(places), BLOCK):
                block = places[start : start + BLOCK]
                with torch.inference_mode():
                    scores[start : start + BLOCK] = scores_of(state, part.model, self._query, block)
                done += len(block)
                yield done

    def rank(self) -> Iterator[int]:
        """Put the scored images in order, and leave out what is not to be there.

        Yields:
            How many hits there are so far; the last is the number of all.
        """
        part = np.repeat(np.arange(len(self._places)), [len(places) for places in self._places])
        places, scores = np.concatenate(self._places), np.concatenate(self._scores)
        order = np.argsort(-scores, kind="stable")
        if self._min_score is not None:
            # As a search does it, in Python's numbers.
            order = order[: int((scores[order].astype(np.float64) >= self._min_score).sum())]
        ranked = np.stack([part[order], places[order]], axis=1)
        self._ranked_scores = scores[order]
        if self._unique is None:
            self._order = ranked
            yield len(ranked)
            return
        is_first = self._pictures() if self._unique == "picture" else self._owners(self._unique)
        kept: list[int] = []
        for start in range(0, len(ranked), PAGE):
            kept += [start + i for i in is_first(ranked[start : start + PAGE])]
            yield len(kept)
        self._order, self._ranked_scores = ranked[kept], self._ranked_scores[kept]

    def __len__(self) -> int:
        """Number of hits, once they are ranked."""
        return len(self._order)

    @property
    def pages(self) -> range:
        """Where each page of hits starts, once they are ranked."""
        return range(0, len(self), PAGE)

    def hits(self, start: int) -> list[ImageHit]:
        """A page of the ranked hits.

        Args:
            start: Its first hit; it has :data:`PAGE` at most.

        Raises:
            WorkError: One of its images was deleted or replaced since it was scored.
        """
        order = self._order[start : start + PAGE]
        found: list[ImageHit | None] = [None] * len(order)
        for which, part in enumerate(self._parts):
            rows = np.flatnonzero(order[:, 0] == which)
            numbers = self._states[which].numbers[order[rows, 1]].tolist()
            labels = labels_of_several(part.catalogue, numbers)
            for row, image in zip(rows.tolist(), part.catalogue.images(numbers), strict=True):
                if image is not None:
                    score = float(self._ranked_scores[start + row])
                    found[row] = ImageHit(image, score, labels.get(image.number, {}))
        hits = [hit for hit in found if hit is not None]
        if len(hits) < len(found):
            raise WorkError("images were deleted while the cohort was read; ask again")
        return hits

    def _owners(self, unique: str) -> Callable[[NDArray[np.int64]], list[int]]:
        """Tells which of the next hits are the first of their patient or study."""
        seen: set[str] = set()

        def is_first(order: NDArray[np.int64]) -> list[int]:
            owners: list[str | None] = [None] * len(order)
            for which, part in enumerate(self._parts):
                rows = np.flatnonzero(order[:, 0] == which)
                numbers = self._states[which].numbers[order[rows, 1]].tolist()
                for row, image in zip(rows.tolist(), part.catalogue.images(numbers), strict=True):
                    if image is not None:
                        owners[row] = image.patient_id if unique == "patient" else image.study_id
            chosen = []
            for i, owner in enumerate(owners):
                if owner is not None and owner not in seen:  # else it was deleted meanwhile
                    seen.add(owner)
                    chosen.append(i)
            return chosen

        return is_first

    def _pictures(self) -> Callable[[NDArray[np.int64]], list[int]]:
        """Tells which of the next hits show a picture that none before them shows."""
        kept: list[NDArray[np.float32]] = []

        def is_first(order: NDArray[np.int64]) -> list[int]:
            means = np.stack(
                [self._states[w].arrays["means"][place] for w, place in order.tolist()]
            )
            seen = np.zeros(len(order), dtype=bool)
            for block in kept:
                seen |= (means @ block.T >= SAME_PICTURE).any(axis=1)
            alike = means @ means.T >= SAME_PICTURE
            chosen: list[int] = []
            for i in range(len(order)):
                if not seen[i] and not alike[i, chosen].any():
                    chosen.append(i)
            if chosen:
                kept.append(means[chosen])
            return chosen

        return is_first
