"""The shards of an archive, looked at and searched as one; what they give is merged as it comes.

A search takes hits from each shard a few at a time, in the order of its own ranking, and merges
them as an archive of several folders does.  A shard that gives nothing is noted, and the others
answer.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.client.client import address_of
from cxrtext.client.models import Image, ImageDetail, ImagePage, ModelInfo
from cxrtext.errors import NotFoundError, UnavailableError
from cxrtext.index import Archive, Column, Found, ImageHit, IndexedImage, Query, SentenceHit
from cxrtext.index.search.archive import Mode, SearchOptions, SentenceOptions
from cxrtext.index.search.columns import ColumnCells, merged_columns
from cxrtext.index.search.hits import FirstOf, Unique
from cxrtext.index.search.sentences import UsualOf
from cxrtext.index.store.snapshot import Snapshot
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing, finish
from cxrtext.shards import protocol as p
from cxrtext.shards.asking import Asking
from cxrtext.shards.calls import Missing, Request, ShardCalls
from cxrtext.shards.cohort import ShardsCohort
from cxrtext.shards.forms import hit_of, image_of, mean_of, vectors_of
from cxrtext.shards.sentences import Backgrounds

T = TypeVar("T", bound=p.Message)

FIRST_TAKEN = 50
"""Hits that are taken of each shard at once at least, where so many may be wanted."""


class ShardsArchive(Archive):
    """An archive whose parts are services; the same methods, and what they raise, as of others.

    Every method may raise UnavailableError where no shard answers, or, where all are required, one
    does not.

    Args:
        calls: To the shards.
        require_all: Whether an answer without one of them is refused.
    """

    def __init__(
        self, model: ImageTextModel, calls: ShardCalls, *, require_all: bool = False
    ) -> None:
        self.parts = []
        self.model = model
        self.asking = Asking(calls, model.fingerprint, require_all=require_all)
        self._backgrounds = Backgrounds()

    def for_question(self) -> "ShardsArchive":
        """The same archive, which notes what one question's answer rests on."""
        one = copy.copy(self)
        one.asking = self.asking.for_question()
        return one

    def close(self) -> None:
        """Close the connections."""
        self.asking.calls.close()

    def snapshots(self) -> list[Snapshot]:
        """None: every shard looks at its own."""
        return []

    # --- what is there ---

    def infos(self) -> list[ModelInfo]:
        """What the shards that answer say of themselves."""
        return list(finish(self.asking.get_all("/v1/model", ModelInfo)).values())

    @property
    def images(self) -> int:
        """Number of images of the shards that answer."""
        return sum(info.images for info in self.infos())

    @property
    def sentences(self) -> int:
        """Number of distinct sentences; one that two shards hold counts twice."""
        return sum(info.sentences for info in self.infos())

    def holder(self, image_id: str, *, regions: bool = False) -> Pausing[tuple[int, p.ImagePart]]:
        """The shard that holds an image, and what it says of it.

        Raises:
            NotFoundError: No shard does.
            UnavailableError: None of those that answer does.
        """
        asked = p.ImageAsked(model=self.asking.model, image_id=image_id, regions=regions)
        places = range(len(self.asking.calls.shards))
        answers = yield from self.asking.calls.ask(
            {place: Request(f"{p.PATH}/image", p.ImagePart, asked) for place in places}
        )
        for place, found in answers.items():
            if isinstance(found, p.ImagePart) and found.row is not None:
                return place, found
        self.asking.noted(answers)
        if (gone := self.asking.coverage.sentence) is not None:
            raise UnavailableError(f"{gone} None of those that did holds an image of that id.")
        raise NotFoundError("the index holds no image of that id")

    def detail(self, image_id: str) -> tuple[IndexedImage, list[tuple[str, str]]]:
        """An image and the report of its study (NotFoundError, UnavailableError)."""
        place, found = finish(self.holder(image_id))
        assert found.row is not None  # noqa: S101 - then it is raised
        path = address_of(image_id)
        answers = finish(self.asking.calls.ask({place: Request(path, ImageDetail)}))
        detail = self.asking.noted(answers).get(place)
        if detail is None:
            raise UnavailableError(f"{self.asking.coverage.sentence} It holds the image.")
        return image_of(found.row), [(one.section, one.sentence) for one in detail.report]

    def picture(self, image_id: str, size: int | None = None) -> bytes:
        """An image as PNG; ``size`` bounds its longest side (NotFoundError, UnavailableError)."""
        place, _ = finish(self.holder(image_id))
        path, params = f"{p.PATH}/picture", {"image_id": image_id}
        if size is not None:
            path, params = f"{address_of(image_id)}/rendered", {"size": str(size)}
        request: Request[Any] = Request(path, None, params=params)
        found = finish(self.asking.calls.fetch(place, request))
        if isinstance(found, Missing):
            raise NotFoundError(
                f"the picture cannot be had: {self.asking.calls.names[place]} {found.reason}"
            )
        return found

    def page(
        self, offset: int, limit: int, where: str | None = None
    ) -> Pausing[tuple[list[IndexedImage], int]]:
        """Some images in the order of the shards, and how many there are in all."""
        first = {"offset": 0, "limit": 1} | ({} if where is None else {"where": where})
        counted = yield from self.asking.get_all("/v1/images", ImagePage, **first)
        wanted: dict[int, Request[ImagePage]] = {}
        total = 0
        left = limit
        for place, found in counted.items():
            start = max(0, offset - total)
            take = max(0, min(left, found.total - start))
            if take:
                params = {**first, "offset": start, "limit": take}
                wanted[place] = Request("/v1/images", ImagePage, params=params)
            left -= take
            total += found.total
        pages = self.asking.noted((yield from self.asking.calls.ask(wanted))) if wanted else {}
        return [_indexed(image) for page in pages.values() for image in page.images], total

    def columns(self) -> list[Column]:
        """The columns that every shard that answers has."""
        asked = p.Asked(model=self.asking.model)
        found = finish(self.asking.ask_all("columns", p.ColumnsPart, lambda _: asked))
        return merged_columns(
            [
                [ColumnCells(c.name, c.filled, c.numbers, c.ends, c.counts) for c in part.columns]
                for part in found.values()
            ]
        )

    def is_unlike(self, regions: Tensor) -> bool:
        """Whether an image with regions [N, D] is less like any than they are like each other."""
        mean = p.Vectors.of(mean_of(regions))
        asked = p.LikenessAsked(model=self.asking.model, mean=mean)
        found = finish(self.asking.ask_all("likeness", p.LikenessPart, lambda _: asked))
        return all(part.unlike for part in found.values())

    # --- searches ---

    def search_pausing(
        self, query: Query, k: int = 10, **options: Unpack[SearchOptions]
    ) -> Pausing[Found]:
        """As of other archives; exact where every shard proves its order and none is missing."""
        search = _Search(self.asking, query, k, **options)
        hits = yield from search.hits()
        first = search.parts.values()
        return Found(
            hits,
            sum(part.matching for part in first),
            sum(part.scored for part in first),
            search.is_exact and not self.asking.coverage.missing,
        )

    def cohort(self, query: Query, **options: Any) -> ShardsCohort:
        """Every image that a query leaves, best first; see :class:`.ShardsCohort`."""
        return ShardsCohort(self.asking, query, **options)

    def search_sentences_pausing(
        self,
        k: int = 10,
        *,
        image: Tensor | None = None,
        text: Tensor | None = None,
        usual: UsualOf | None = None,  # noqa: ARG002 - shards have their own
        **options: Unpack[SentenceOptions],
    ) -> Pausing[list[SentenceHit]]:
        """As of other archives; what sentences score at large is of images of all shards."""
        offset = options.pop("offset", 0)
        if k < 1 or offset < 0:
            raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
        parts = yield from self._backgrounds.search(self.asking, offset + k, image, text, options)
        if not any(part.sentences for part in parts.values()):
            raise NotFoundError("the index holds no sentences; index with --reports to add them")
        hits: dict[str, SentenceHit] = {}
        for part in parts.values():
            for found in part.hits or []:
                before = hits.get(found.sentence)
                hit = SentenceHit(found.sentence, found.score, found.studies, found.lift)
                if before is not None:
                    hit = replace(hit, studies=hit.studies + before.studies)
                hits[hit.sentence] = hit
        return sorted(hits.values(), key=lambda hit: -hit.rank)[offset : offset + k]


class _Search:
    """A search under way: what each shard gave so far, and what of it was taken."""

    def __init__(
        self,
        asking: Asking,
        query: Query,
        k: int,
        *,
        where: str | None = None,
        offset: int = 0,
        min_score: float | None = None,
        unique: Unique | None = None,
        exclude_patients: Sequence[str] = (),
        mode: Mode = "auto",
    ) -> None:
        if k < 1 or offset < 0:
            raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
        self._asking, self._k, self._offset = asking, k, offset
        self._first = FirstOf(unique)
        self._asked = p.SearchAsked(
            model=asking.model,
            query=vectors_of(query),
            where=where,
            exclude_patients=list(exclude_patients),
            min_score=min_score,
            mode=mode,
            take=min(
                p.MOST_HITS,
                max(FIRST_TAKEN, _share(k + offset, len(asking.calls.shards))),
                k + offset,
            ),
            means=unique == "picture",
        )
        self.parts: dict[int, p.SearchPart] = {}  # the first answer of each shard
        self._now: dict[int, p.SearchPart] = {}  # the last one
        self._taken: dict[int, int] = {}  # hits of it
        self._skipped: dict[int, int] = {}  # hits that it sent, of all its answers
        self._given: dict[int, set[tuple[int, str]]] = {}  # the images that it gave
        self.is_exact = True  # whether every shard proves its order, as far as it was asked

    def hits(self) -> Pausing[list[ImageHit]]:
        """A page of the merged hits."""
        asked = self._asked
        self.parts = yield from self._asking.ask_all("search", p.SearchPart, lambda _: asked)
        self._now = dict(self.parts)
        self._taken = dict.fromkeys(self._now, 0)
        self._skipped = {place: len(part.rows) for place, part in self._now.items()}
        self._given = {at: set(map(_name, part.rows)) for at, part in self._now.items()}
        self.is_exact = all(part.exact for part in self._now.values())
        kept: list[ImageHit] = []
        while wanted := min(p.MOST_HITS, self._offset + self._k - len(kept)):
            some = yield from self._next(wanted)
            hits = [hit_of(score, row) for score, row, _ in some]
            if self._asked.means:
                first = self._first.of_pictures(np.stack([m for *_, m in some])) if some else []
            else:
                first = self._first.of([hit.image for hit in hits])
            kept += [hits[at] for at in first]
            if len(some) < wanted:
                break
        return kept[self._offset :]

    def _next(self, wanted: int) -> Pausing[list[tuple[float, p.Row, Any]]]:
        """The next hits of all shards, by falling score; of equal ones the first shard's first."""
        some: list[tuple[float, p.Row, Any]] = []
        while len(some) < wanted:
            yield from self._refill()
            heads = {
                place: part.scores[self._taken[place]]
                for place, part in self._now.items()
                if self._taken[place] < len(part.scores)
            }
            if not heads:
                break
            best = max(heads, key=lambda place: (heads[place], -place))
            part, at = self._now[best], self._taken[best]
            some.append((part.scores[at], part.rows[at], self._mean(best, at)))
            self._taken[best] = at + 1
        return some

    def _mean(self, place: int, at: int) -> NDArray[np.float32] | None:
        means = self._now[place].means
        found: NDArray[np.float32] | None = None if means is None else means.array()[at]
        return found

    def _refill(self) -> Pausing[None]:
        """Take more from the shards whose hits are used up."""
        bodies: dict[int, p.Message] = {}
        for place, part in self._now.items():
            if part.more and self._taken[place] == len(part.scores):
                more = {"skip": self._skipped[place], "take": p.MOST_HITS}
                bodies[place] = self._asked.model_copy(update=more)
        if not bodies:
            return
        found = yield from self._asking.ask_some("search", p.SearchPart, bodies)
        for place in bodies:
            if place in found:
                self._skipped[place] += len(found[place].rows)
                self._now[place], self._taken[place] = self._going_on(place, found[place]), 0
            else:  # it went meanwhile, and is noted as missing
                self._now[place] = self._now[place].model_copy(update={"more": False})

    def _going_on(self, place: int, part: p.SearchPart) -> p.SearchPart:
        """What a shard gives next, without what it gave before.

        Where it has turned to another publication since, or a replica with another one answers,
        an image may stand at another rank: none is given twice, and the answer is not exact.
        """
        given = self._given[place]
        new = [at for at, row in enumerate(part.rows) if _name(row) not in given]
        has_changed = part.matching != self.parts[place].matching or len(new) < len(part.rows)
        self.is_exact &= part.exact and not has_changed
        given.update(map(_name, part.rows))
        if len(new) == len(part.rows):
            return part
        return part.model_copy(
            update={
                "scores": [part.scores[at] for at in new],
                "rows": [part.rows[at] for at in new],
                "means": None if part.means is None else p.Vectors.of(part.means.array()[new]),
                "more": part.more and bool(new),
            }
        )


def _name(row: p.Row) -> tuple[int, str]:
    """An image of a shard, also where another one of its name took its place."""
    return row.key // p.KEY_PARTS, row.image_id


def _share(wanted: int, shards: int) -> int:
    """Hits of one of some shards that are likely to be enough."""
    return 2 * -(-wanted // shards)


def _indexed(image: Image) -> IndexedImage:
    owner = (image.study_id, image.patient_id, image.split)
    return IndexedImage(0, image.image_id, "", *owner, image.height, image.width, image.metadata)
