"""An archive: an open index to look at and search."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any, Literal, Self, TypedDict, Unpack

import numpy as np
from torch import Tensor

from cxrtext.errors import CheckpointError, NotFoundError
from cxrtext.files.sqlite import WAIT_S
from cxrtext.index.features.candidates import is_large
from cxrtext.index.search.columns import Column, columns_of
from cxrtext.index.search.filter import parse, tests_of
from cxrtext.index.search.hits import Cohort, FoundImages, SentenceHit, Unique, page
from cxrtext.index.search.index import Index, model_of
from cxrtext.index.search.query import Query
from cxrtext.index.search.ranking import Effort, exact_order, fast_order
from cxrtext.index.search.selection import View, select, view_of
from cxrtext.index.search.sentences import Usual, best_sentences, image_scores
from cxrtext.index.store.catalogue import CATALOGUE, EMPTY, Catalogue, IndexedImage
from cxrtext.index.store.check import check_index
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing, finish

Mode = Literal["auto", "exact", "fast"]

CHECKED = 512 * 2**20
"""Up to this many bytes of vectors are compared with their checksums when an index is opened;
'cxrtext check-files' checks a larger index."""


class SearchOptions(TypedDict, total=False):
    where: str | None  # a filter (see :mod:`.filter`)
    offset: int  # hits to skip, for the next page
    min_score: float | None  # leave out lower scores
    unique: Unique | None  # one hit per patient, study or picture
    exclude_patients: Sequence[str]
    mode: Mode
    """"exact" proves that nothing else scores higher; "fast" scores only candidates in a large
    index; "auto" is exact unless the filters leave many images."""


class SentenceOptions(TypedDict, total=False):
    where: str | None  # a filter of images (see :mod:`.filter`); sentences of their studies
    offset: int  # hits to skip, for the next page
    min_score: float  # leave out lower scores


class Archive(Index):
    """An open index to search; a context manager.  Open one with `open_index`."""

    @cached_property
    def _usual(self) -> Usual:
        return Usual()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renewed(self) -> Self | None:
        """As :meth:`Index.renewed`; keeps the sentences' scores in images at large."""
        fresh = super().renewed()
        if fresh is not None:
            fresh._usual = self._usual
        return fresh

    @property
    def images(self) -> int:
        return self.snapshot.images

    @property
    def sentences(self) -> int:
        """Number of distinct sentences."""
        return len(self.snapshot.sentence_numbers)

    def find(self, image_id: str) -> IndexedImage:
        """The image with an id (NotFoundError)."""
        image = self.catalogue.image(image_id)
        if image is None:
            raise NotFoundError("the index holds no image of that id")
        return image

    def page(
        self, offset: int, limit: int, where: str | None = None
    ) -> tuple[list[IndexedImage], int]:
        """Some images in the order of indexing, and how many there are in all."""
        snapshot = self.snapshot
        numbers = snapshot.numbers[finish(select(self.catalogue, snapshot, where))]
        wanted = numbers[offset : offset + limit].tolist()
        images = [image for image in self.catalogue.images(wanted) if image is not None]
        return images, len(numbers)

    def report(self, study_id: str) -> list[tuple[str, str]]:
        """Section and text of each sentence of a study, in order."""
        return self.catalogue.report(study_id)

    def columns(self) -> list[Column]:
        """The columns that filters can name, read once."""
        return self._columns

    @cached_property
    def _columns(self) -> list[Column]:
        return columns_of(self.catalogue)

    def why_nothing(self, where: str) -> str | None:
        """If a filter leaves no image, a column that it names and what this holds instead, or None.

        It is quick, except that after a change all columns are read once.
        """
        if self.page(0, 1, where)[1]:
            return None
        columns = {column.name: column for column in self.columns()}
        for test in tests_of(parse(where, self.catalogue.columns()).tree):
            column = columns.get(test.column)
            if column is not None and (held := column.instead_of(test)):
                return f"{column.name} holds {held}"
        return None

    def search(self, query: Query, k: int = 10, **options: Unpack[SearchOptions]) -> FoundImages:
        """The k images that fit a query best, if there are as many."""
        return finish(self.search_pausing(query, k, **options))

    def search_pausing(
        self, query: Query, k: int = 10, **options: Unpack[SearchOptions]
    ) -> Pausing[FoundImages]:
        where, patients = options.pop("where", None), options.pop("exclude_patients", ())
        mode = options.pop("mode", "auto")
        view, effort = (yield from view_of(self, where, patients)), Effort()
        order = fast_order if _is_fast(view, query, mode) else exact_order
        stream = order(view.snapshot, self.model, query, view.places, effort)
        hits = yield from page(view, stream, k, **options)  # type: ignore[misc]
        return FoundImages(hits, len(view.places), effort.scored, effort.exact)

    def cohort(self, query: Query, **options: Any) -> Cohort:
        return Cohort(self, query, **options)

    def search_sentences(
        self,
        k: int = 10,
        *,
        image: Tensor | None = None,
        text: Tensor | None = None,
        **options: Unpack[SentenceOptions],
    ) -> list[SentenceHit]:
        """The k indexed sentences that fit an image best, or are most similar to a sentence.

        An image is given by its regions [N, D]; sentences fit it by their lift (see
        :mod:`.sentences`), or in an archive of few images by the model's score.  A sentence is
        given by its embedding [D], and compared by cosine.
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
        """As :meth:`search_sentences`, with pauses."""
        offset = options.pop("offset", 0)
        if k < 1 or offset < 0:
            raise ValueError(f"k must be 1 at least and offset 0, got {k} and {offset}")
        if not self.sentences:
            raise NotFoundError("the index holds no sentences; index with --reports to add them")
        snapshot = self.snapshot
        usual = None if image is None else (yield from self._usual.of(self, snapshot))
        if image is not None:
            scores = yield from image_scores(self, snapshot, image)
        else:
            assert text is not None  # noqa: S101 - one of the two is given
            scores = snapshot.texts @ text.cpu().float()
        hits = yield from best_sentences(self, snapshot, scores, usual, offset + k, **options)  # type: ignore[misc]
        return hits[offset:]


def _is_fast(view: View, query: Query, mode: Mode) -> bool:
    if view.snapshot.structure is None or query.texts is None or mode == "exact":
        return False
    sketches = view.snapshot.arrays["sketch"]
    row_bytes = sketches.dtype.itemsize * int(np.prod(sketches.shape[1:]))
    return mode == "fast" or is_large(len(view.places), row_bytes)


def open_index(
    folder: str | Path,
    model: ImageTextModel | str | Path | None = None,
    *,
    wait_s: float = WAIT_S,
) -> Archive:
    """Open an index for searching, even in a read-only folder.

    By default the model is the one noted in the index.
    """
    folder = Path(folder)
    catalogue = Catalogue(folder / CATALOGUE, wait_s=wait_s)
    try:
        wrong = check_index(folder, catalogue, most=CHECKED)
        if wrong and wrong != [EMPTY]:
            named = quote(str(folder))
            raise CheckpointError(
                f"{folder}: {wrong[0]}; run 'cxrtext index check {named}' for all that is wrong, "
                f"and 'cxrtext index compact {named}', which derives again what can be derived"
            )
        return Archive(folder, model_of(folder, catalogue.meta(), model), catalogue)
    except BaseException:
        catalogue.close()
        raise
