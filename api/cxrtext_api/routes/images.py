"""Look at the indexed images."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le
from fastapi import APIRouter, Query, Request, Response

from cxrtext.client.answers import detail_of
from cxrtext.client.models import (
    Column,
    Columns,
    Image,
    ImageDetail,
    ImagePage,
    Timeline,
)
from cxrtext.service.limits import MAX_WHERE
from cxrtext.service.questions import WHERE, WHOLE
from cxrtext_api.gate.access import Guarded
from cxrtext_api.observe.audit import note_images
from cxrtext_api.routes.dependencies import GUARDED, SessionDep
from cxrtext_api.routes.fields import DEFAULT_SIDE, PICTURE, Side, answer_picture, check_where

if TYPE_CHECKING:
    from cxrtext.service import Service

router = APIRouter(route_class=Guarded, prefix="/v1", tags=["images"], dependencies=GUARDED)

MAX_PAGE = 200
MAX_OFFSET = 2**40
Offset = Annotated[int, Ge(0), Le(MAX_OFFSET), WHOLE, Query(description="How many to skip.")]
Limit = Annotated[int, Ge(1), Le(MAX_PAGE), WHOLE, Query(description="How many to list.")]
Where = Annotated[str | None, Query(max_length=MAX_WHERE, description=WHERE, examples=["age > 60"])]


def _page(service: "Service", offset: int, limit: int, where: str | None) -> ImagePage:
    check_where(service, where)
    listed, total = service.archive.page(offset, limit, where)
    images = [Image.model_validate(image) for image in listed]
    return ImagePage(total=total, offset=offset, limit=limit, images=images)


def detail(service: "Service", image_id: str) -> ImageDetail:
    image = service.find_image(image_id)
    return detail_of(image, service.archive.report(image.study_id))


def _timeline(service: "Service", image_id: str) -> Timeline:
    return Timeline.model_validate(service.timeline(image_id))


def _picture(service: "Service", image_id: str, size: int) -> Response:
    return answer_picture(service.shown(image_id, size))


def _columns(service: "Service") -> Columns:
    return Columns(
        columns=[
            Column.model_validate(
                {**asdict(column), "values": column.values if column.kind == "text" else None}
            )
            for column in service.archive.columns()
        ]
    )


@router.get(
    "/images",
    summary="The indexed images",
    operation_id="list_images",
)
async def list_images(
    request: Request,
    session: SessionDep,
    offset: Offset = 0,
    limit: Limit = 50,
    where: Where = None,
) -> ImagePage:
    """Some of the indexed images, in the order of indexing."""
    await session.see_index()
    page = await session.read(_page, session.service, offset, limit, where)
    # Note the images shown: a caller who browses, or filters by age and sex, names nobody.
    note_images(request, [(one.image_id, one.study_id, one.patient_id) for one in page.images])
    return page


@router.get(
    "/columns",
    summary="What filters can name",
    operation_id="list_columns",
)
async def list_columns(session: SessionDep) -> Columns:
    """The columns that a ``where`` can name, with their range or most common values."""
    await session.see_index()
    return await session.read(_columns, session.service)


@router.get(
    "/images/{image_id:path}/rendered",
    summary="An indexed image as PNG",
    operation_id="get_picture",
    response_class=Response,
    responses=PICTURE,
)
async def get_picture(session: SessionDep, image_id: str, size: Side = DEFAULT_SIDE) -> Response:
    """The image as the model got it, windowed and upright, as an 8-bit PNG."""
    await session.see_index()
    return await session.draw(_picture, session.service, image_id, size)


@router.get(
    "/images/{image_id:path}/timeline",
    summary="The films of an image's patient in order of time",
    operation_id="get_timeline",
)
async def get_timeline(request: Request, session: SessionDep, image_id: str) -> Timeline:
    """All indexed films of an image's patient, or why their order is unknown.

    Dates that were removed, or shifted differently, give no order; see ``reason``.
    """
    await session.see_index()
    timeline = await session.read(_timeline, session.service, image_id)
    films = timeline.films
    note_images(request, [(film.image_id, film.study_id, timeline.patient_id) for film in films])
    return timeline


@router.get(
    "/images/{image_id:path}",
    summary="An indexed image and its report",
    operation_id="get_image",
)
async def get_image(session: SessionDep, image_id: str) -> ImageDetail:
    """An indexed image with the sentences of its study's report."""
    await session.see_index()
    return await session.read(detail, session.service, image_id)
