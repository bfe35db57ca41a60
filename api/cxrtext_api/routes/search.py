"""Retrieval: images by sentences, an image or both; sentences by either."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Response

from cxrtext.client.answers import Found
from cxrtext_api.cohort import write_cohort
from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.filters import check_where
from cxrtext_api.negotiation import CSV, JSON, TAKES_FORM, preferred
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.resources import Resources
from cxrtext_api.schemas.of_images import hit_of
from cxrtext_api.schemas.of_questions import sentence_of
from cxrtext_api.search_form import SearchForm, SearchFormDep

if TYPE_CHECKING:
    from cxrtext.index import Found as ServiceFound
    from cxrtext.index.sentences import SentenceOptions
    from cxrtext.pausing import Pausing
    from cxrtext.service import EmbeddedImage, Service

router = APIRouter(
    prefix="/v1",
    tags=["questions"],
    dependencies=[TAKES_FORM, *GUARDED],
    route_class=RefusingRoute,
)

UNLIKE = "The image is unlike every indexed image; is it a chest radiograph?"

Accept = Annotated[
    str, Header(description="text/csv for the images as a table instead of JSON; of images only.")
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The image of a search, what to warn of, and whose images to leave out."""

    image: "EmbeddedImage | None"
    warning: str | None
    patients: list[str]


def _asked(service: "Service", form: SearchForm, image: "EmbeddedImage | None") -> _Asked:
    check_where(service, form.where)
    warning, patients = None, list(form.exclude_patients)
    if form.image is not None and image is not None:
        if form.image_id is None:
            warning = UNLIKE if service.archive.is_unlike(image.regions) else None
        elif form.other_patients:
            patients.append(service.find_image(form.image_id).patient_id)
    return _Asked(image, warning, patients)


@router.post(
    "/search",
    summary="Find images or sentences",
    operation_id="search",
    response_model=Found,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}, **problems(404, 422)},
)
async def search(
    resources: ResourcesDep, form: SearchFormDep, accept: Accept = "*/*"
) -> Found | Response:
    """Find images by sentences, an image or both, or sentences by a sentence or an image.

    The best come first; ``offset`` gives the next page.  Filters are applied before the search,
    so that there are ``k`` results wherever the index has them.
    """
    service = resources.service
    _ = service.archive  # told before an image is read
    if form.queries or form.without:
        await resources.know([*form.queries, *form.without])
    embedded = None if form.image is None else await form.image.embedded()
    await resources.see_index()
    asked = await resources.read(_asked, service, form, embedded)
    if form.target == "sentences":
        return await _sentences(resources, form, asked)
    found = await resources.work(_images(service, form, asked))
    if preferred(accept, (JSON, CSV)) == CSV:
        return Response(
            await resources.read(write_cohort, found.hits),
            media_type=CSV,
            headers={"Content-Disposition": 'attachment; filename="cohort.csv"'},
        )
    return Found(
        model=service.model.fingerprint,
        target=form.target,
        images=[hit_of(hit) for hit in found.hits],
        matching=found.images,
        scored=found.scored,
        exact=found.exact,
        warning=asked.warning,
        offset=form.offset,
        k=form.k,
    )


def _images(service: "Service", form: SearchForm, asked: _Asked) -> "Pausing[ServiceFound]":
    query = service.make_query(
        form.queries, without=form.without, image=asked.image, image_weight=form.image_weight
    )
    return (
        yield from service.search_pausing(
            query,
            form.k,
            where=form.where,
            offset=form.offset,
            min_score=form.min_score,
            unique=form.unique,
            exclude_patients=asked.patients,
            mode=form.mode,
        )
    )


async def _sentences(resources: Resources, form: SearchForm, asked: _Asked) -> Found:
    service = resources.service
    options: SentenceOptions = {"where": form.where, "offset": form.offset}
    if form.min_score is not None:
        options["min_score"] = form.min_score
    if asked.image is not None:
        work = service.search_sentences_pausing(asked.image, form.k, **options)
    else:
        work = service.similar_sentences_pausing(form.queries[0], form.k, **options)
    hits = await resources.work(work)
    sentences = await resources.read(lambda: service.archive.sentences)
    return Found(
        model=service.model.fingerprint,
        target=form.target,
        sentences=[sentence_of(hit) for hit in hits],
        matching=sentences,
        scored=sentences,
        exact=True,
        warning=asked.warning,
        offset=form.offset,
        k=form.k,
    )
