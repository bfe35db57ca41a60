"""One index or several, looked at and searched as one archive."""

from typing import Any, Unpack

from torch import Tensor

from cxrtext.errors import NotFoundError
from cxrtext.index import Cohort, Found, Index, IndexedImage, Query, SentenceHit, Shards
from cxrtext.index.selection import select
from cxrtext.index.sentences import SentenceOptions
from cxrtext.index.state import State
from cxrtext.pausing import Pausing, finish
from cxrtext.service.answers import EmbeddedImage
from cxrtext.service.columns import Column, columns_of


class Archive:
    """Open indexes of one model.

    Args:
        opened: An open index, or several.
    """

    def __init__(self, opened: Index | Shards) -> None:
        self.parts = opened.parts if isinstance(opened, Shards) else [opened]
        self._opened = opened
        self._columns: tuple[list[State], list[Column]] | None = None

    def close(self) -> None:
        """Close every index."""
        self._opened.close()

    def look(self) -> None:
        """See what other processes changed.

        Raises:
            HeldError: One of them commits a change, and takes long.
        """
        for part in self.parts:
            _ = part.state

    @property
    def images(self) -> int:
        """Number of images."""
        return sum(part.images for part in self.parts)

    @property
    def sentences(self) -> int:
        """Number of sentences; one that two indexes hold counts twice."""
        return sum(part.sentences for part in self.parts)

    def find(self, name: str) -> tuple[Index, IndexedImage]:
        """The image of a name, and the index that holds it.

        Raises:
            NotFoundError: There is none.
        """
        for part in self.parts:
            found = part.catalogue.image(name)
            if found is not None:
                return part, found
        raise NotFoundError("the index holds no image of that id")

    def embedded(self, name: str) -> EmbeddedImage:
        """The image of a name as the model sees it, without decoding it again."""
        part, found = self.find(name)
        return EmbeddedImage(part.regions(found.number), found.height, found.width)

    def page(
        self, offset: int, limit: int, where: str | None = None
    ) -> tuple[list[IndexedImage], int]:
        """Some images in the order in which they were indexed, and how many there are in all.

        Args:
            offset: How many to skip.
            limit: How many to give at most.
            where: A filter; see :mod:`cxrtext.index.where`.

        Raises:
            DataError: The filter is wrong.
        """
        return finish(self.page_pausing(offset, limit, where))

    def page_pausing(
        self, offset: int, limit: int, where: str | None = None
    ) -> Pausing[tuple[list[IndexedImage], int]]:
        """As :meth:`page`, with pauses."""
        total, found = 0, list[IndexedImage]()
        for part in self.parts:
            state = part.state
            numbers = state.numbers[(yield from select(part.catalogue, state, where))]
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
        states = [part.state for part in self.parts]
        if self._columns is None or any(
            now is not then for now, then in zip(states, self._columns[0], strict=True)
        ):
            self._columns = states, columns_of(self.parts)
        return self._columns[1]

    def is_unlike(self, regions: Tensor) -> bool:
        """Whether an image is less like any here than they are like each other."""
        return all(part.is_unlike(regions) for part in self.parts)

    def search(self, query: Query, k: int, **options: Any) -> Found:
        """The images that fit a query best."""
        return finish(self.search_pausing(query, k, **options))

    def search_pausing(self, query: Query, k: int, **options: Any) -> Pausing[Found]:
        """As :meth:`search`, with pauses."""
        return self._opened.search_pausing(query, k, **options)

    def cohort(self, query: Query, **options: Any) -> Cohort:
        """Every image that fits a query, best first; the options are those of a cohort."""
        return Cohort(self.parts, query, **options)

    def search_sentences_pausing(
        self, regions: Tensor, k: int, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """The sentences that fit an image with regions [N, D] best."""
        self._check_sentences()
        return self._opened.search_sentences_pausing(regions, k, **options)

    def similar_sentences_pausing(
        self, text: Tensor, k: int, **options: Unpack[SentenceOptions]
    ) -> Pausing[list[SentenceHit]]:
        """The sentences most alike to a sentence embedding [D]."""
        self._check_sentences()
        return self._opened.similar_sentences_pausing(text, k, **options)

    def _check_sentences(self) -> None:
        if not self.sentences:
            raise NotFoundError("the index holds no sentences; index with --reports to add them")
