"""Retrieval: images by sentences, an image or both; sentences by either."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from cxrtext.client.answers import Found
from cxrtext.errors import InputError
from cxrtext_api.asking import CURRENT
from cxrtext_api.cohort import cohort_header, cohort_lines, write_cohort
from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.filters import check_where
from cxrtext_api.gate import TIME_LIMIT
from cxrtext_api.negotiation import CSV, JSON, TAKES_FORM, preferred
from cxrtext_api.records import EXPORTED
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.resources import Resources
from cxrtext_api.schemas.of_images import hit_of
from cxrtext_api.schemas.of_questions import sentence_of
from cxrtext_api.search_form import SearchForm, SearchFormDep

if TYPE_CHECKING:
    from cxrtext.index import Cohort, Query
    from cxrtext.index import Found as ServiceFound
    from cxrtext.index.search.archive import SentenceOptions
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


def _query(service: "Service", form: SearchForm, asked: _Asked) -> "Query":
    return service.make_query(
        form.queries, without=form.without, image=asked.image, image_weight=form.image_weight
    )


def _images(service: "Service", form: SearchForm, asked: _Asked) -> "Pausing[ServiceFound]":
    return (
        yield from service.search_pausing(
            _query(service, form, asked),
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
    about = form.queries[0] if asked.image is None else asked.image
    work = service.search_sentences_pausing(about, form.k, **options)
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


@router.post(
    "/search/export",
    summary="Export every image found",
    operation_id="export",
    response_class=StreamingResponse,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}, **problems(404, 422)},
)
async def export(
    request: Request, resources: ResourcesDep, form: SearchFormDep
) -> StreamingResponse:
    """Give every image that a search finds, best first, as a table that is sent while it is made.

    The fields are those of a search of images; ``k``, ``offset`` and ``mode`` have no meaning here.
    The header ``X-Total`` says how many images there are.  A table that is broken off has fewer
    lines, the last of which begins with ``# broken off``.
    """
    service = resources.service
    _ = service.archive
    if form.target != "images":
        raise InputError("an export is of images; leave target out")
    resources.hold_export()
    if form.queries or form.without:
        await resources.know([*form.queries, *form.without])
    embedded = None if form.image is None else await form.image.embedded()
    await resources.see_index()
    asked = await resources.read(_asked, service, form, embedded)
    cohort = await resources.compute(_cohort, service, form, asked)
    # A block at a time: other questions are answered between two of them.
    for steps, work in (
        (cohort.select(), resources.read),
        (cohort.score(), resources.compute),
        (cohort.rank(), resources.read),
    ):
        while await work(next, steps, None) is not None:
            _go_on(request, resources)
    return StreamingResponse(
        _table(request, resources, cohort),
        media_type=CSV,
        headers={
            "Content-Disposition": 'attachment; filename="cohort.csv"',
            "X-Total": str(len(cohort)),
        },
    )


def _cohort(service: "Service", form: SearchForm, asked: _Asked) -> "Cohort":
    return service.archive.cohort(
        _query(service, form, asked),
        where=form.where,
        min_score=form.min_score,
        unique=form.unique,
        exclude_patients=asked.patients,
    )


def _go_on(request: Request, resources: Resources) -> None:
    """Give a request the time of another step."""
    settings = resources.settings
    asking = CURRENT.get()
    if asking is not None:
        asking.go_on(settings.request_seconds)
    limit: asyncio.Timeout | None = request.scope.get(TIME_LIMIT)
    if limit is not None:
        limit.reschedule(asyncio.get_running_loop().time() + settings.request_seconds)


async def _table(request: Request, resources: Resources, cohort: "Cohort") -> AsyncIterator[str]:
    """The lines of a cohort, a page at a time."""
    request.scope[EXPORTED] = 0
    yield cohort_header(cohort.columns)
    try:
        for start in cohort.pages:
            _go_on(request, resources)
            hits = await resources.read(cohort.hits, start)
            yield await resources.read(cohort_lines, hits, cohort.columns)
            request.scope[EXPORTED] = start + len(hits)
    except Exception:  # whatever it is, the table is not to look whole
        yield f"# broken off after {request.scope[EXPORTED]} of {len(cohort)} images\r\n"
        raise
