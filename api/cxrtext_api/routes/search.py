"""Retrieval: images by sentences, an image or both; sentences by either; every image found."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le
from fastapi import APIRouter, Depends, Form, Header, Request, Response
from fastapi.responses import StreamingResponse

from cxrtext.client.answers import hit_of
from cxrtext.client.models import Found
from cxrtext.errors import InputError
from cxrtext.service.limits import MAX_RESULTS, UNLIKE_IMAGE, UNLIKE_SENTENCE, check_search
from cxrtext.service.tables import HIT_COLUMNS, csv_lines, csv_table, hit_row
from cxrtext_api.observe.audit import EXPORTED
from cxrtext_api.routes.dependencies import GUARDED, AnyImageDep, ImageId, SessionDep, problems
from cxrtext_api.routes.fields import (
    CSV,
    DECIMAL,
    JSON,
    MAX_WHERE,
    WHERE,
    WHOLE,
    AsWritten,
    check_where,
    preferred,
)
from cxrtext_api.runtime.resources import Session

if TYPE_CHECKING:
    from cxrtext.index import Cohort, FoundImages, Query
    from cxrtext.index.search.archive import SentenceOptions
    from cxrtext.models.familiar import Unlike
    from cxrtext.pausing import Pausing
    from cxrtext.service import EmbeddedImage, Service

router = APIRouter(prefix="/v1", tags=["questions"], dependencies=GUARDED)

MAX_OFFSET = 10_000
MAX_QUERIES = 16
MAX_PATIENTS = 64
Target = Literal["images", "sentences"]
Unique = Literal["patient", "study", "picture"]
Mode = Literal["auto", "exact", "fast"]

Accept = Annotated[
    str, Header(description="text/csv for the images as a table instead of JSON; of images only.")
]


@dataclass(frozen=True, slots=True)
class SearchForm:
    """What is looked for; its fields are those of the form (see the route)."""

    image: AnyImageDep
    image_id: ImageId = None
    query: Annotated[
        Sequence[str],
        Form(
            max_length=MAX_QUERIES,
            description="A sentence that an image is to fit; of several the mean counts.",
            examples=[["Large right pneumothorax."]],
        ),
    ] = ()
    without: Annotated[
        Sequence[str],
        Form(
            alias="not",
            max_length=MAX_QUERIES,
            description="A sentence that it is not to fit.",
            examples=[["Chest tube."]],
        ),
    ] = ()
    image_weight: Annotated[
        float | None,
        Ge(0),
        Le(1),
        DECIMAL,
        Form(description="Weight of an image beside sentences; by default 0.5."),
    ] = None
    k: Annotated[int, Ge(1), Le(MAX_RESULTS), WHOLE, Form(description="How many to find.")] = 10
    offset: Annotated[
        int, Ge(0), Le(MAX_OFFSET), WHOLE, Form(description="How many of the best to skip.")
    ] = 0
    target: Annotated[Target, Form(description="What to find.")] = "images"
    where: Annotated[str | None, Form(max_length=MAX_WHERE, description=WHERE)] = None
    min_score: Annotated[
        float | None, Ge(-2), Le(2), DECIMAL, Form(description="Leave out what scores less.")
    ] = None
    unique: Annotated[
        Unique | None, Form(description="One result a patient, a study or a picture.")
    ] = None
    exclude_patient: Annotated[
        Sequence[str], Form(max_length=MAX_PATIENTS, description="A patient to leave out.")
    ] = ()
    other_patients: Annotated[bool, Form(description="Leave out the patient of the image_id.")] = (
        False
    )
    mode: Annotated[
        Mode, Form(description="exact proves the order; fast looks at candidates only.")
    ] = "auto"
    as_written: AsWritten = False

    def __post_init__(self) -> None:
        asked = {one.name: getattr(self, one.name) for one in fields(self)}
        image = self.image if self.image_id is None else None
        check_search({**asked, "image": image, "not": self.without})


SearchFormDep = Annotated[SearchForm, Depends()]


@dataclass(frozen=True, slots=True)
class _Asked:
    image: "EmbeddedImage | None"
    warning: str | None
    patients: list[str]
    read: list[str]  # each query, then each sentence that is not to fit, as it is embedded
    unlike: list["Unlike | None"]  # of each of them
    caution: str | None


async def _ask(session: Session, form: SearchForm) -> _Asked:
    read = [*form.query, *form.without]
    if read:
        read = await session.read(session.service.readings, read, as_written=form.as_written)
        await session.ensure_embedded(read)
    embedded = None if form.image is None else await form.image.embedded()
    await session.see_index()
    return await session.read(_asked, session.service, form, read, embedded)


def _asked(
    service: "Service", form: SearchForm, read: list[str], image: "EmbeddedImage | None"
) -> _Asked:
    check_where(service, form.where)
    patients = list(form.exclude_patient)
    if image is not None and form.image_id is not None and form.other_patients:
        patients.append(service.find_image(form.image_id).patient_id)
    unlike = list(map(service.familiar.of_sentence, read))
    said: list[str] = []
    if image is not None:
        said += [f"The image {UNLIKE_IMAGE}."] if image.is_unlike else []
    if any(one is not None and one.flagged for one in unlike):
        said.append(f"A sentence {UNLIKE_SENTENCE}.")
    return _Asked(image, " ".join(said) or None, patients, read, unlike, service.caution(read))


@router.post(
    "/search",
    summary="Find images or sentences",
    operation_id="search",
    response_model=Found,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}, **problems(404, 422)},
)
async def search(
    session: SessionDep, form: SearchFormDep, accept: Accept = "*/*"
) -> Found | Response:
    """Find images by sentences, an image or both, or sentences by a sentence or an image.

    The best come first; ``offset`` gives the next page.  Filters are applied before the search,
    so that there are ``k`` results wherever the index has them.
    """
    service = session.service
    _ = service.archive  # refused before an image is read
    asked = await _ask(session, form)
    if form.target == "sentences":
        return await _sentences(session, form, asked)
    found = await session.work(_images(service, form, asked))
    if preferred(accept, (JSON, CSV)) == CSV:
        return Response(
            await session.read(csv_table, found.hits),
            media_type=CSV,
            headers={"Content-Disposition": 'attachment; filename="cohort.csv"'},
        )
    return await _answer(
        session,
        form,
        asked,
        images=[hit_of(hit) for hit in found.hits],
        matching=found.searched,
        scored=found.scored,
        exact=found.exact,
    )


async def _answer(session: Session, form: SearchForm, asked: _Asked, **found: Any) -> Found:
    hits = found.get("images") or found.get("sentences") or ()
    sent = [*form.query, *form.without]
    return Found.model_validate(
        {
            **found,
            "model": session.service.model.fingerprint,
            "target": form.target,
            "warning": await _warning(session, form, asked, hits),
            "unlike": None if asked.image is None else asked.image.unlike,
            "unlike_sentences": asked.unlike,
            "read_as": [
                None if read == one else read for read, one in zip(asked.read, sent, strict=True)
            ],
            "caution": asked.caution,
            "offset": form.offset,
            "k": form.k,
        }
    )


async def _warning(
    session: Session, form: SearchForm, asked: _Asked, hits: Sequence[object]
) -> str | None:
    held = None
    if form.where is not None and not hits:
        held = await session.read(session.service.archive.why_nothing, form.where)
    nothing = f"The filter leaves no image: {held}." if held else None
    return " ".join(said for said in (asked.warning, nothing) if said) or None


def _query(service: "Service", form: SearchForm, asked: _Asked) -> "Query":
    many = len(form.query)
    return service.make_query(
        asked.read[:many],
        without=asked.read[many:],
        image=asked.image,
        image_weight=form.image_weight,
        as_written=True,
    )


def _images(service: "Service", form: SearchForm, asked: _Asked) -> "Pausing[FoundImages]":
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


async def _sentences(session: Session, form: SearchForm, asked: _Asked) -> Found:
    service = session.service
    options: SentenceOptions = {"where": form.where, "offset": form.offset}
    if form.min_score is not None:
        options["min_score"] = form.min_score
    about = asked.read[0] if asked.image is None else asked.image
    work = service.search_sentences_pausing(about, form.k, as_written=True, **options)
    hits = await session.work(work)
    sentences = await session.read(lambda: service.archive.sentences)
    return await _answer(
        session, form, asked, sentences=hits, matching=sentences, scored=sentences, exact=True
    )


@router.post(
    "/search/export",
    summary="Export every image found",
    operation_id="export",
    response_class=StreamingResponse,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}, **problems(404, 422)},
)
async def export(request: Request, session: SessionDep, form: SearchFormDep) -> StreamingResponse:
    """Give every image that a search finds, best first, as a table that is sent while it is made.

    The fields are those of a search of images; ``k``, ``offset`` and ``mode`` have no meaning here.
    The header ``X-Total`` says how many images there are.  A table that is broken off has fewer
    lines, the last of which begins with ``# broken off``.
    """
    service = session.service
    _ = service.archive
    if form.target != "images":
        raise InputError("an export is of images; leave target out")
    session.hold_export()
    cohort = await session.compute(_cohort, service, form, await _ask(session, form))
    end = object()
    # A block at a time: other questions are answered between two of them.
    for steps, work in (
        (cohort.select(), session.read),
        (cohort.score(), session.compute),
        (cohort.rank(), session.read),
    ):
        while await work(next, steps, end) is not end:
            session.extend()
    return StreamingResponse(
        _table(request, session, cohort),
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
    except Exception:  # whatever it is, the table is not to look whole
        yield f"# broken off after {request.scope[EXPORTED]} of {len(cohort)} images\r\n"
        raise
