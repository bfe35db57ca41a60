"""Every image that a query leaves in all shards, best first.

Each shard ranks its own images and sends two numbers of each; what else is said of them is asked
for a page at a time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import WorkError
from cxrtext.index import ImageHit, Query
from cxrtext.index.search.hits import PAGE, Cohort, FirstOf, Unique
from cxrtext.pausing import Pausing, finish
from cxrtext.shards import protocol as p
from cxrtext.shards.asking import Asking
from cxrtext.shards.forms import hit_of, vectors_of

CHANGED = "images of a shard were changed while the cohort was read; ask again"


class ShardsCohort(Cohort):
    """A cohort of shards, in the same steps as one of an archive."""

    def __init__(
        self,
        asking: Asking,
        query: Query,
        *,
        where: str | None = None,
        min_score: float | None = None,
        unique: Unique | None = None,
        exclude_patients: Sequence[str] = (),
    ) -> None:
        self._asking = asking
        self._first = FirstOf(unique)
        self._asked = p.ImagesAsked(
            model=asking.model,
            query=vectors_of(query),
            where=where,
            min_score=min_score,
            exclude_patients=list(exclude_patients),
        )
        self.columns = []
        self._parts: dict[int, p.RankPart] = {}
        self._hits: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
        self._values = np.empty(0, dtype=np.float32)

    @property
    def matching(self) -> int:
        """Images that the filters leave."""
        return sum(part.matching for part in self._parts.values())

    def select(self) -> Iterator[int]:
        """Have every shard rank its images (DataError)."""
        seconds = self._asking.calls.given.export_s
        asked = self._asking.ask_all("rank", p.RankPart, lambda _: self._asked, seconds)
        self._parts = yield from _counted(asked)
        columns = (name for part in self._parts.values() for name in part.columns)
        self.columns = list(dict.fromkeys(columns))

    def score(self) -> Iterator[int]:
        """Nothing: the shards have done it."""
        yield self.matching

    def rank(self) -> Iterator[int]:
        """Put the hits of all shards in order, and leave out what is not to be there."""
        parts = self._parts.items()
        which = np.concatenate([np.full(part.keys.shape[0], place) for place, part in parts])
        keys = np.concatenate([part.keys.array() for _, part in parts])
        scores = np.concatenate([part.scores.array() for _, part in parts])
        order = np.argsort(-scores, kind="stable")
        self._hits, self._values = np.stack([which, keys], axis=1)[order], scores[order]
        if self._first.unique is None:
            yield len(self)
            return
        kept: list[int] = []
        for start in self.pages:
            rows, means = yield from _counted(self._rows(start, self._first.unique == "picture"))
            first = self._first.of(rows) if means is None else self._first.of_pictures(means)
            kept += [start + i for i in first]
            yield len(kept)
        self._hits, self._values = self._hits[kept], self._values[kept]

    def __len__(self) -> int:
        """Number of hits, once they are ranked."""
        return len(self._hits)

    def hits(self, start: int) -> list[ImageHit]:
        """The page of ranked hits that starts there (WorkError)."""
        rows, _ = finish(self._rows(start, means=False))
        scores = self._values[start : start + PAGE].tolist()
        return [hit_of(score, row) for score, row in zip(scores, rows, strict=True)]

    def _rows(
        self, start: int, means: bool
    ) -> Pausing[tuple[list[p.Row], NDArray[np.float32] | None]]:
        """The images of a page, and their mean regions, in the order of the ranks."""
        page = self._hits[start : start + PAGE]
        bodies: dict[int, p.Message] = {}
        for place in np.unique(page[:, 0]).tolist():
            keys = page[page[:, 0] == place, 1].tolist()
            bodies[place] = p.RowsAsked(
                model=self._asked.model,
                generation=self._parts[place].generation,
                keys=keys,
                means=means,
            )
        found = yield from self._asking.ask_some("rows", p.RowsPart, bodies)
        if len(found) < len(bodies):
            raise WorkError(f"{self._asking.coverage.sentence} The cohort was being read from it.")
        rows: dict[tuple[int, int], p.Row] = {}
        vectors: dict[tuple[int, int], Any] = {}
        for place, part in found.items():
            if part.rows is None:
                raise WorkError(CHANGED)
            rows |= {(place, row.key): row for row in part.rows}
            if part.means is not None:
                places = ((place, row.key) for row in part.rows)
                vectors |= dict(zip(places, part.means.array(), strict=True))
        order = [(place, key) for place, key in page.tolist()]
        try:
            stacked = np.stack([vectors[one] for one in order]) if means else None
            return [rows[one] for one in order], stacked
        except KeyError:
            raise WorkError(CHANGED) from None


def _counted(work: Pausing[Any]) -> Any:
    """Work whose pauses are steps; gives its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        yield 0
