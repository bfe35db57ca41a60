"""Several indexes searched as one."""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Unpack

from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.index.hits import Found, Ranked, SentenceHit, Unique, page
from cxrtext.index.opening import open_index
from cxrtext.index.query import Query
from cxrtext.index.ranking import Effort
from cxrtext.index.search import Index, Mode
from cxrtext.index.sentences import SentenceOptions
from cxrtext.models import ImageTextModel


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
        efforts = [Effort() for _ in self.parts]
        streams: list[Iterator[Ranked]] = [
            part.ranked(
                query, where=where, exclude_patients=exclude_patients, mode=mode, effort=effort
            )
            for part, effort in zip(self.parts, efforts, strict=True)
        ]
        merged = heapq.merge(*streams, key=lambda ranked: -ranked.hit.score)
        hits = page(merged, k, offset=offset, min_score=min_score, unique=unique)
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
        return self._merged("search_sentences", regions, k, options)

    def similar_sentences(
        self, text: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """As of an index; the studies that say a sentence are added up."""
        return self._merged("similar_sentences", text, k, options)

    def _merged(
        self, name: str, given: Tensor, k: int, options: SentenceOptions
    ) -> list[SentenceHit]:
        skipped = options.pop("offset", 0)
        found = [getattr(part, name)(given, skipped + k, **options) for part in self.parts]
        return _added_up(found)[skipped : skipped + k]


def _added_up(found: Sequence[Sequence[SentenceHit]]) -> list[SentenceHit]:
    hits: dict[str, SentenceHit] = {}
    for hit in (hit for part in found for hit in part):
        before = hits.get(hit.sentence)
        studies = hit.studies + (before.studies if before else 0)
        hits[hit.sentence] = SentenceHit(hit.sentence, hit.score, studies)
    return sorted(hits.values(), key=lambda hit: -hit.score)


def open_shards(
    folders: Sequence[str | Path], model: ImageTextModel | str | Path | None = None
) -> Shards:
    """Open several indexes of one model.

    Args:
        folders: Folders that 'cxrtext index' wrote; at least one, each once.
        model: The model that made them, or its checkpoint.

    Raises:
        CheckpointError: One of them is no index, or another model made it.
    """
    if len({Path(folder).resolve() for folder in folders}) < len(folders) or not folders:
        raise CheckpointError("name each index once, and at least one")
    with ExitStack() as opened:
        parts: list[Index] = []
        for folder in folders:
            part = opened.enter_context(open_index(folder, parts[0].model if parts else model))
            parts.append(part)
        opened.pop_all()
    return Shards(parts)
