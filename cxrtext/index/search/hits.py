"""Results of a search: a page of its best hits, or the cohort of all of them.

A search finds its best hits and stops.  A cohort has every image that a query and its filters
leave, best first.  Each image is scored once, a block at a time, so that the caller decides what
happens between two blocks.  Until a hit is read, only two numbers per image are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import WorkError
from cxrtext.index.search.index import Index
from cxrtext.index.search.query import Query
from cxrtext.index.search.ranking import Scored, scores_of
from cxrtext.index.search.selection import View, view_of
from cxrtext.index.store.catalogue import UNLIKE, IndexedImage
from cxrtext.pausing import Pausing
from cxrtext.records.manifest import LABEL

Unique = Literal["patient", "study", "picture"]
UNIQUE: tuple[str, ...] = get_args(Unique)

SAME_PICTURE = 0.9995  # cosine of mean regions at which two images count as one picture
BLOCK = 256  # images scored in one piece of work
PAGE = 500  # hits read from the catalogue in one piece of work


@dataclass(frozen=True, slots=True)
class ImageHit:
    image: IndexedImage
    score: float  # in [−1, 1]; in [−2, 2] if the query excludes something
    labels: Mapping[str, float] = field(default_factory=dict)  # kept probabilities, by finding
    # its distance from the training images over the limit; None if it is not kept
    unlike: float | None = None


@dataclass(frozen=True, slots=True)
class SentenceHit:
    sentence: str
    score: float  # in [−1, 1]
    studies: int  # that say it
    # how much better it fits than images at large, in nats; None if not asked, or with few images
    lift: float | None = None

    @property
    def rank(self) -> float:
        return self.score if self.lift is None else self.lift


@dataclass(frozen=True, slots=True)
class FoundImages:
    hits: list[ImageHit]  # best first
    searched: int  # images that the filters leave
    scored: int  # images that were scored exactly to find these
    exact: bool  # whether these are proven to be the best


def page(
    view: View,
    stream: Iterator[Scored],
    k: int,
    *,
    offset: int = 0,
    min_score: float | None = None,
    unique: Unique | None = None,
) -> Pausing[list[ImageHit]]:
    """Take a page from a stream of hits, and no more of the stream than needed; with pauses.

    Args:
        stream: By falling score.
        offset: Hits to skip; those left out by ``unique`` do not count.
        unique: One hit per patient, study or picture, the best one.
    """
    if k < 1 or offset < 0:
        raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
    first = FirstOf(unique)
    kept: list[tuple[Scored, IndexedImage]] = []
    while wanted := min(PAGE, offset + k - len(kept)):
        some: list[Scored] = []
        for ranked in stream:
            yield
            if min_score is not None and ranked[0] < min_score:
                break
            some.append(ranked)
            if len(some) == wanted:
                break
        images = _images(view, some)
        # Images that were deleted meanwhile are None.
        there = [(r, i) for r, i in zip(some, images, strict=True) if i]
        kept += [there[at] for at in _first(first, view, there)]
        if len(some) < wanted:
            break
    return hits_of(view, kept[offset:])


def _images(view: View, hits: Sequence[Scored]) -> list[IndexedImage | None]:
    numbers = view.snapshot.numbers[[place for _, place in hits]].tolist()
    return view.index.catalogue.images(numbers)


def hits_of(view: View, kept: Sequence[tuple[Scored, IndexedImage]]) -> list[ImageHit]:
    numbers = [image.number for _, image in kept]
    known = view.index.catalogue.labels(numbers, view.index.model.fingerprint)
    hits = []
    for (score, _), image in kept:
        columns = dict(known.get(image.number, {}))
        unlike = columns.pop(UNLIKE, None)
        labels = {name.removeprefix(LABEL): value for name, value in columns.items()}
        hits.append(ImageHit(image, score, labels, unlike))
    return hits


def _first(
    first: "FirstOf", view: View, hits: Sequence[tuple[Scored, IndexedImage | None]]
) -> list[int]:
    """Positions of the first hits of each kind; ``unique="picture"`` needs no images."""
    if first.unique != "picture":
        return first.of([image for _, image in hits])
    means = [view.snapshot.arrays["means"][place] for (_, place), _ in hits]
    return first.of_pictures(np.stack(means)) if means else []


class FirstOf:
    """Finds which of the next hits are the first for their patient, study or picture."""

    def __init__(self, unique: Unique | None) -> None:
        if unique is not None and unique not in UNIQUE:
            raise ValueError(f"unique must be one of {', '.join(UNIQUE)}, got {unique}")
        self.unique = unique
        self._owners: set[str] = set()
        self._pictures: list[NDArray[np.float32]] = []

    def of(self, images: Sequence[IndexedImage | None]) -> list[int]:
        """Positions in hits, by their patients or studies."""
        if self.unique is None:
            return list(range(len(images)))
        chosen = []
        for i, image in enumerate(images):
            if image is None:
                continue
            owner = image.patient_id if self.unique == "patient" else image.study_id
            if owner not in self._owners:
                self._owners.add(owner)
                chosen.append(i)
        return chosen

    def of_pictures(self, means: NDArray[np.float32]) -> list[int]:
        """Positions in hits, by their mean regions [n, D]."""
        seen = np.zeros(len(means), dtype=bool)
        for block in self._pictures:
            seen |= (means @ block.T >= SAME_PICTURE).any(axis=1)
        alike = means @ means.T >= SAME_PICTURE
        chosen: list[int] = []
        for i in range(len(means)):
            if not seen[i] and not alike[i, chosen].any():
                chosen.append(i)
        if chosen and self._pictures and len(self._pictures[-1]) < PAGE:
            self._pictures[-1] = np.concatenate([self._pictures[-1], means[chosen]])
        elif chosen:
            self._pictures.append(means[chosen])
        return chosen


class Cohort:
    """Every hit of a query, best first, in the order of an exact search.

    :meth:`find` makes it; then :meth:`hits` gives them.
    """

    def __init__(
        self,
        index: Index,
        query: Query,
        *,
        where: str | None = None,
        min_score: float | None = None,
        unique: Unique | None = None,
        exclude_patients: Sequence[str] = (),
    ) -> None:
        self._query, self._min_score, self._unique = query, min_score, unique
        self._choosing = view_of(index, where, exclude_patients)
        self.columns = list(index.catalogue.columns())
        """Names of the manifests' other columns, and of the kept labels."""
        self._view: View
        self._scores = np.empty(0, dtype=np.float32)
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def find(self) -> Pausing[None]:
        """Select images, score them a block at a time, and sort them, with pauses (DataError)."""
        self._view = view = yield from self._choosing
        self._scores = np.empty(len(view.places), dtype=np.float32)
        for start in range(0, len(view.places), BLOCK):
            block = view.places[start : start + BLOCK]
            with torch.inference_mode():
                scores = scores_of(view.snapshot, view.index.model, self._query, block)
            self._scores[start : start + BLOCK] = scores
            yield
        scores, order = self._scores, np.argsort(-self._scores, kind="stable")
        if self._min_score is not None:
            # In Python's numbers, as a search does.
            order = order[: int((scores[order].astype(np.float64) >= self._min_score).sum())]
        self._order, self._scores = view.places[order], scores[order]
        if self._unique is None:
            return
        first = FirstOf(self._unique)
        kept: list[int] = []
        for start in self.pages:
            ranked = self._page(start)
            nobody: list[IndexedImage | None] = [None] * len(ranked)
            images = _images(view, ranked) if self._unique != "picture" else nobody
            hits = list(zip(ranked, images, strict=True))
            kept += [start + i for i in _first(first, view, hits)]
            yield
        self._order, self._scores = self._order[kept], self._scores[kept]

    def __len__(self) -> int:
        """Number of hits, once they are ranked."""
        return len(self._order)

    @property
    def pages(self) -> range:
        """Where each page of ranked hits starts; a page has at most :data:`PAGE`."""
        return range(0, len(self), PAGE)

    def hits(self, start: int) -> list[ImageHit]:
        """The page of ranked hits that starts at ``start`` (WorkError)."""
        ranked = self._page(start)
        kept = [(h, i) for h, i in zip(ranked, _images(self._view, ranked), strict=True) if i]
        if len(kept) < len(ranked):
            raise WorkError("images were deleted while the cohort was read; ask again")
        return hits_of(self._view, kept)

    def _page(self, start: int) -> list[Scored]:
        some = slice(start, start + PAGE)
        return list(zip(self._scores[some].tolist(), self._order[some].tolist(), strict=True))
