"""Several indexes searched as one."""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Unpack

from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.index.catalogue import WAIT_S
from cxrtext.index.hits import Found, Ranked, SentenceHit, Unique, page
from cxrtext.index.opening import open_index
from cxrtext.index.query import Query
from cxrtext.index.ranking import Effort
from cxrtext.index.search import Index, Mode
from cxrtext.index.sentences import SentenceOptions
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing, finish


class Shards:
    """Open indexes of one model that are searched as one; a context manager.

    Each shard gives its own hits by falling score, and these are merged, so that an exact search
    of the shards is an exact search of them all.

    Args:
        parts: The indexes, at least one.
    """

    def __init__(self, parts: Sequence[Index]) -> None:
        self.parts = list(parts)
        self.model = self.parts[0].model

    def __enter__(self) -> "Shards":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every index."""
        for part in self.parts:
            part.close()

    @property
    def images(self) -> int:
        """Number of images."""
        return sum(part.images for part in self.parts)

    def search(
        self,
        query: Query,
        k: int = 10,
        *,
        where: str | None = None,
        offset: int = 0,
        min_score: float | None = None,
        unique: Unique | None = None,
        exclude_patients: Sequence[str] = (),
        mode: Mode = "auto",
    ) -> Found:
        """As :meth:`cxrtext.index.Index.search`; every shard must have the filter's columns."""
        return finish(
            self.search_pausing(
                query,
                k,
                where=where,
                offset=offset,
                min_score=min_score,
                unique=unique,
                exclude_patients=exclude_patients,
                mode=mode,
            )
        )

    def search_pausing(
        self,
        query: Query,
        k: int = 10,
        *,
        where: str | None = None,
        offset: int = 0,
        min_score: float | None = None,
        unique: Unique | None = None,
        exclude_patients: Sequence[str] = (),
        mode: Mode = "auto",
    ) -> Pausing[Found]:
        """As :meth:`search`, with pauses."""
        efforts = [Effort() for _ in self.parts]
        streams: list[Iterator[Ranked]] = []
        for part, effort in zip(self.parts, efforts, strict=True):
            chosen = yield from part.choose(where, exclude_patients)
            streams.append(part.ranked_among(chosen, query, mode, effort))
        merged = heapq.merge(*streams, key=lambda ranked: -ranked.hit.score)
        hits = yield from page(merged, k, offset=offset, min_score=min_score, unique=unique)
        return Found(
            hits,
            sum(effort.images for effort in efforts),
            sum(effort.scored for effort in efforts),
            all(effort.exact for effort in efforts),
        )

    def search_sentences(
        self, regions: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """As of an index; the studies that say a sentence are added up."""
        return finish(self.search_sentences_pausing(regions, k, **options))

    def search_sentences_pausing(
        self, regions: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`search_sentences`, with pauses."""
        return self._merged("search_sentences_pausing", regions, k, options)

    def similar_sentences(
        self, text: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """As of an index; the studies that say a sentence are added up."""
        return finish(self.similar_sentences_pausing(text, k, **options))

    def similar_sentences_pausing(
        self, text: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`similar_sentences`, with pauses."""
        return self._merged("similar_sentences_pausing", text, k, options)

    def _merged(
        self, name: str, given: Tensor, k: int, options: SentenceOptions
    ) -> Pausing[list[SentenceHit]]:
        skipped = options.pop("offset", 0)
        found: list[list[SentenceHit]] = []
        for part in self.parts:
            found.append((yield from getattr(part, name)(given, skipped + k, **options)))
        return _added_up(found)[skipped : skipped + k]


def _added_up(found: Sequence[Sequence[SentenceHit]]) -> list[SentenceHit]:
    hits: dict[str, SentenceHit] = {}
    for hit in (hit for part in found for hit in part):
        before = hits.get(hit.sentence)
        studies = hit.studies + (before.studies if before else 0)
        hits[hit.sentence] = SentenceHit(hit.sentence, hit.score, studies)
    return sorted(hits.values(), key=lambda hit: -hit.score)


def open_shards(
    folders: Sequence[str | Path],
    model: ImageTextModel | str | Path | None = None,
    *,
    wait_s: float = WAIT_S,
) -> Shards:
    """Open several indexes of one model.

    Args:
        folders: Folders that 'cxrtext index' wrote; at least one, each once.
        model: The model that made them, or its checkpoint.
        wait_s: How long to wait where another process commits a change.

    Raises:
        CheckpointError: One of them is no index, or another model made it.
    """
    if len({Path(folder).resolve() for folder in folders}) < len(folders) or not folders:
        raise CheckpointError("name each index once, and at least one")
    with ExitStack() as opened:
        parts: list[Index] = []
        for folder in folders:
            given = parts[0].model if parts else model
            parts.append(opened.enter_context(open_index(folder, given, wait_s=wait_s)))
        opened.pop_all()
    return Shards(parts)
