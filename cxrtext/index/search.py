"""Searching an index in every direction."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.index.catalogue import Catalogue, told
from cxrtext.index.fast import fast_order
from cxrtext.index.hits import Found, ImageHit, Ranked, SentenceHit, Unique, page
from cxrtext.index.means import mean_region
from cxrtext.index.quantised import unpack
from cxrtext.index.query import Query
from cxrtext.index.ranking import Effort, exact_order
from cxrtext.index.selection import labels_of, select
from cxrtext.index.sentences import SentenceOptions, best_sentences, sentence_scores
from cxrtext.index.state import Numbers, State, read_state
from cxrtext.index.vectors import rows_of
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing, finish

Mode = Literal["auto", "exact", "fast"]

Chosen = tuple[State, Numbers]
"""A view of an index, and the places in it that are looked at."""

EXACT_BYTES = 512 * 2**20
"""Sketches that a search reads in whole; where filters leave more it looks for candidates."""


class Index:
    """An open index; a context manager.  Build one with :func:`open_index`.

    What other processes add, replace or delete is seen by the next search.

    Args:
        folder: The index's folder.
        model: The model that made it; scores are its scores.
        catalogue: The open catalogue.
    """

    def __init__(self, folder: Path, model: ImageTextModel, catalogue: Catalogue) -> None:
        self.folder = folder
        self.model = model
        self.catalogue = catalogue
        self._lock = threading.Lock()
        # The version is asked for first: a state that is newer than it is read once more, no worse.
        version = catalogue.version()
        self._seen = version, read_state(folder, catalogue)

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalogue."""
        self.catalogue.close()

    @property
    def state(self) -> State:
        """The index as it is now."""
        with told(self.catalogue.path), self._lock:
            version = self.catalogue.version()
            before, state = self._seen
            if version != before:
                state = read_state(self.folder, self.catalogue, state)
                self._seen = version, state
            return state

    @property
    def seen(self) -> State:
        """The index as it was when it was last looked at; nothing is waited for."""
        return self._seen[1]

    @property
    def images(self) -> int:
        """Number of images."""
        return self.state.images

    @property
    def sentences(self) -> int:
        """Number of distinct sentences."""
        return len(self.state.sentence_numbers)

    @property
    def summary(self) -> dict[str, Any]:
        """What is noted of the index as a whole."""
        state = self.state
        tuning = {} if state.structure is None else state.structure.tuning.as_dict()
        return {**state.meta, "images": state.images, "candidates": tuning}

    def regions(self, number: int) -> Tensor:
        """Regions of the image of a number, [N, D] in float32.

        Raises:
            DataError: The index has no image of that number.
        """
        state = self.state
        places = state.places_of(np.array([number]))
        if not len(places):
            raise DataError(f"{self.folder}: holds no image of number {number}; search again")
        return unpack(rows_of(state.arrays["regions"], places))[0]

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
        """The images that fit a query best.

        Args:
            query: What is looked for.
            k: Most hits; there are as many whenever the index has them.
            where: A filter (see :mod:`cxrtext.index.where`), applied before the search.
            offset: Hits to skip, for the next page.
            min_score: Leave out what scores less.
            unique: One hit a patient, a study or a picture.
            exclude_patients: Patients that are not looked for.
            mode: "exact" proves that nothing else scores higher; "fast" scores candidates
                only; "auto" is exact unless what the filters leave is large.

        Raises:
            DataError: The filter is wrong.
            ValueError: ``k``, ``offset`` or ``unique`` is out of range.
        """
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
        chosen = yield from self.choose(where, exclude_patients)
        effort = Effort()
        stream = self.ranked_among(chosen, query, mode, effort)
        hits = yield from page(stream, k, offset=offset, min_score=min_score, unique=unique)
        return Found(hits, effort.images, effort.scored, effort.exact)

    def choose(
        self, where: str | None = None, exclude_patients: Sequence[str] = ()
    ) -> Pausing[Chosen]:
        """The images that a filter leaves, as the index is now; work that pauses."""
        state = self.state
        return state, (yield from select(self.catalogue, state, where, exclude_patients))

    def ranked(
        self,
        query: Query,
        *,
        where: str | None = None,
        exclude_patients: Sequence[str] = (),
        mode: Mode = "auto",
        effort: Effort | None = None,
    ) -> Iterator[Ranked]:
        """Hits of :meth:`search` by falling score, one at a time, as many as there are."""
        chosen = finish(self.choose(where, exclude_patients))
        return self.ranked_among(chosen, query, mode, Effort() if effort is None else effort)

    def ranked_among(
        self, chosen: Chosen, query: Query, mode: Mode, effort: Effort
    ) -> Iterator[Ranked]:
        """As :meth:`ranked`, of images that :meth:`choose` gave."""
        state, places = chosen
        effort.images = len(places)
        order = fast_order if self._fast(state, query, places, mode) else exact_order
        for score, place in order(state, self.model, query, places, effort):
            number = int(state.numbers[place])
            (image,) = self.catalogue.images([number])
            if image is not None:  # else it was deleted meanwhile
                hit = ImageHit(image, score, labels_of(self.catalogue, number))
                yield Ranked(hit, np.array(state.arrays["means"][place]))

    def _fast(self, state: State, query: Query, places: Numbers, mode: Mode) -> bool:
        if state.structure is None or query.texts is None or mode == "exact":
            return False
        sketches = state.arrays["sketch"]
        row_bytes = sketches.dtype.itemsize * int(np.prod(sketches.shape[1:]))
        return mode == "fast" or len(places) * row_bytes > EXACT_BYTES

    def is_unlike(self, regions: Tensor) -> bool:
        """Whether an image with regions [N, D] is less like any here than they are like each other.

        Such an image may be no chest radiograph; what a search by it finds says little.
        """
        state = self.state
        means = torch.from_numpy(np.array(state.arrays["means"][state.numbers >= 0]))
        if not len(means):
            return False
        best = float((means @ mean_region(regions[None].float()).cpu()[0]).max())
        return best < float(state.meta.get("usual_likeness", -1.0))

    def search_text(self, text: Tensor, k: int = 10) -> list[ImageHit]:
        """The k images that fit a sentence embedding [D] best, by the model's own score."""
        return self.search(Query(texts=text[None]), k).hits

    def search_image(self, regions: Tensor, k: int = 10) -> list[ImageHit]:
        """The k images most alike to one with regions [N, D]: cosine of the mean regions."""
        return self.search(Query(image=mean_region(regions[None].float())[0]), k).hits

    def search_sentences(
        self, regions: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """The k indexed sentences that fit an image with regions [N, D] best."""
        return finish(self.search_sentences_pausing(regions, k, **options))

    def search_sentences_pausing(
        self, regions: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`search_sentences`, with pauses."""
        state = self.state
        scores = yield from sentence_scores(state, self.model, regions)
        return (yield from best_sentences(state, self.catalogue, scores, k, **options))

    def similar_sentences(
        self, text: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> list[SentenceHit]:
        """The k indexed sentences most alike to a sentence embedding [D]: cosine."""
        return finish(self.similar_sentences_pausing(text, k, **options))

    def similar_sentences_pausing(
        self, text: Tensor, k: int = 10, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """As :meth:`similar_sentences`, with pauses."""
        state = self.state
        scores = state.texts @ text.cpu().float()
        return (yield from best_sentences(state, self.catalogue, scores, k, **options))
