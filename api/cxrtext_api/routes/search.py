"""Retrieval: find images by sentences, an image or both, or sentences by either; export images."""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from cxrtext.client.answers import hit_of
from cxrtext.client.models import Found
from cxrtext.errors import InputError
from cxrtext.service import searching
from cxrtext.service.questions import Search
from cxrtext.service.searching import Prepared
from cxrtext.service.tables import HIT_COLUMNS, csv_lines, csv_table, hit_row
from cxrtext_api.gate.access import Guarded
from cxrtext_api.observe.audit import EXPORTED
from cxrtext_api.routes.dependencies import (
    GUARDED,
    LastingSessionDep,
    Sent,
    SessionDep,
    chosen,
)
from cxrtext_api.routes.fields import CSV, JSON, MULTIPART, as_json, check_where, preferred
from cxrtext_api.runtime.resources import Session

if TYPE_CHECKING:
    from cxrtext.index import Cohort

router = APIRouter(route_class=Guarded, prefix="/v1", tags=["questions"], dependencies=GUARDED)

Accept = Annotated[
    str, Header(description="text/csv for a table instead of JSON; only for images.")
]


class SearchForm(Sent, Search):
    """Find indexed images, or sentences, that fit sentences, an image or both."""


async def _prepared(session: Session, form: SearchForm) -> Prepared:
    service = session.service
    check_where(service, form.where)
    read: Sequence[str] = [*form.query, *form.without]
    if read:
        read = await session.read(service.readings, read, as_written=form.as_written)
        await session.ensure_embedded(read)
    has_image = form.image is not None or form.image_id is not None
    image = await (await chosen(session, form)).image() if has_image else None
    await session.see_index()
    return await session.read(searching.prepare, service, form, read, image)


@router.post(
    "/search",
    summary="Find images or sentences",
    operation_id="search",
    response_model=Found,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}},
)
async def search(
    session: SessionDep, form: Annotated[SearchForm, MULTIPART], accept: Accept = "*/*"
) -> Response:
    """Find images by sentences, an image or both, or sentences by a sentence or an image.

    The best come first; ``offset`` gives the next page.  Filters are applied before the search, so
    that there are ``k`` results if the index has them.
    """
    service = session.service
    _ = service.archive  # refused before an image is read
    asked = await _prepared(session, form)
    if form.target == "sentences":
        hits = await session.work(searching.sentences(service, asked))
        count = await session.read(lambda: service.archive.sentences)
        counts = {"matching": count, "scored": count, "exact": True}
        return await _answer(session, asked, sentences=hits, **counts)
    result = await session.work(searching.images(service, asked))
    if preferred(accept, (JSON, CSV)) == CSV:
        return Response(
            await session.read(csv_table, result.hits),
            media_type=CSV,
            headers={"Content-Disposition": 'attachment; filename="cohort.csv"'},
        )
    counts = {"matching": result.searched, "scored": result.scored, "exact": result.exact}
    return await _answer(session, asked, images=list(map(hit_of, result.hits)), **counts)


async def _answer(session: Session, asked: Prepared, **result: Any) -> Response:
    form, warnings = asked.question, list(asked.warnings)
    if form.where is not None and not (result.get("images") or result.get("sentences")):
        held = await session.read(session.service.archive.why_nothing, form.where)
        warnings += [f"The filter leaves no image: {held}."] if held else []
    return as_json(
        Found.model_validate(
            {
                **result,
                "model": session.service.model.fingerprint,
                "target": form.target,
                "warning": " ".join(warnings) or None,
                "unlike": None if asked.image is None else asked.image.unlike,
                "unlike_sentences": asked.unlike,
                "read_as": asked.read_as,
                "caution": asked.caution,
                "offset": form.offset,
                "k": form.k,
            }
        )
    )


@router.post(
    "/search/export",
    summary="Export every image found",
    operation_id="export",
    response_class=StreamingResponse,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}},
)
async def export(
    request: Request, session: LastingSessionDep, form: Annotated[SearchForm, MULTIPART]
) -> StreamingResponse:
    """Give every image that a search finds, best first, as a table that is sent while it is made.

    The fields are those of a search for images; ``k``, ``offset`` and ``mode`` have no effect.  The
    header ``X-Total`` gives the number of images.  A table that is broken off has fewer lines, and
    its last line begins with ``# broken off``.
    """
    service = session.service
    _ = service.archive
    if form.target != "images":
        raise InputError("an export is of images; leave target out")
    session.hold_export()
    cohort = await session.compute(searching.cohort, service, await _prepared(session, form))
    end, steps = object(), cohort.find()
    # A block at a time, so that other questions are answered in between.
    while await session.compute(next, steps, end) is not end:
        session.extend()
    return StreamingResponse(
        _table(request, session, cohort),
        media_type=CSV,
        headers={
            "Content-Disposition": 'attachment; filename="cohort.csv"',
            "X-Total": str(len(cohort)),
        },
    )


async def _table(request: Request, session: Session, cohort: "Cohort") -> AsyncIterator[str]:
    request.scope[EXPORTED] = 0
    columns = list(dict.fromkeys([*HIT_COLUMNS, *cohort.columns]))
    yield csv_table([], columns)
    try:
        for start in cohort.pages:
            session.extend()
            hits = await session.read(cohort.hits, start)
            yield await session.read(csv_lines, map(hit_row, hits), columns)
            request.scope[EXPORTED] = start + len(hits)
    except Exception:  # the table must not look complete
        yield f"# broken off after {request.scope[EXPORTED]} of {len(cohort)} images\r\n"
        raise
