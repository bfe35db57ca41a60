"""A search from question to results, the same for the commands, the API and Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cxrtext.pausing import Pausing
from cxrtext.service.limits import UNLIKE_IMAGE, UNLIKE_SENTENCE
from cxrtext.service.questions import Search

if TYPE_CHECKING:
    from cxrtext.index import Cohort, FoundImages, Query, SentenceHit
    from cxrtext.index.search.archive import SentenceOptions
    from cxrtext.models.familiar import Unlike
    from cxrtext.service.answers import EmbeddedImage
    from cxrtext.service.service import Service


@dataclass(frozen=True, slots=True)
class Prepared:
    """A search with its sentences read and its image embedded."""

    question: Search
    image: "EmbeddedImage | None"
    read: tuple[str, ...]  # queries, then sentences that should not fit, as they are embedded
    unlike: "tuple[Unlike | None, ...]"  # for each of them
    warnings: tuple[str, ...]
    caution: str | None
    patients: tuple[str, ...]  # to leave out

    @property
    def read_as(self) -> list[str | None]:
        """Each sentence as it was embedded, or None if that is how it was sent."""
        sent = (*self.question.query, *self.question.without)
        return [None if read == one else read for read, one in zip(self.read, sent, strict=True)]


def prepare(
    service: "Service", question: Search, read: Sequence[str], given: "EmbeddedImage | str | None"
) -> Prepared:
    """Prepare a search of an image that is ``given``, perhaps by its id (NotFoundError).

    ``read``: its sentences as they are embedded.
    """
    image = None if given is None else service.embedded(given)
    patients = list(question.exclude_patient)
    if question.image_id is not None and question.other_patients:
        patients.append(service.find_image(question.image_id).patient_id)
    unlike = tuple(map(service.familiar.of_sentence, read))
    warnings: list[str] = []
    if image is not None and image.is_unlike:
        warnings.append(f"The image {UNLIKE_IMAGE}.")
    if any(one is not None and one.flagged for one in unlike):
        warnings.append(f"A sentence {UNLIKE_SENTENCE}.")
    caution = service.caution(read)
    return Prepared(question, image, tuple(read), unlike, tuple(warnings), caution, tuple(patients))


def _query(service: "Service", asked: Prepared) -> "Query":
    many = len(asked.question.query)
    return service.make_query(
        asked.read[:many],
        without=asked.read[many:],
        image=asked.image,
        image_weight=asked.question.image_weight,
    )


def images(service: "Service", asked: Prepared) -> "Pausing[FoundImages]":
    """The images found, with pauses."""
    question = asked.question
    return (
        yield from service.search_pausing(
            _query(service, asked),
            question.k,
            where=question.where,
            offset=question.offset,
            min_score=question.min_score,
            unique=question.unique,
            exclude_patients=asked.patients,
            mode=question.mode,
        )
    )


def cohort(service: "Service", asked: Prepared) -> "Cohort":
    """Every image found; ``k``, ``offset`` and ``mode`` have no effect."""
    question = asked.question
    return service.archive.cohort(
        _query(service, asked),
        where=question.where,
        min_score=question.min_score,
        unique=question.unique,
        exclude_patients=asked.patients,
    )


def sentences(service: "Service", asked: Prepared) -> "Pausing[list[SentenceHit]]":
    """The sentences found, with pauses."""
    question = asked.question
    options: SentenceOptions = {"where": question.where, "offset": question.offset}
    if question.min_score is not None:
        options["min_score"] = question.min_score
    about = asked.read[0] if asked.image is None else asked.image
    return (yield from service.search_sentences_pausing(about, question.k, **options))
