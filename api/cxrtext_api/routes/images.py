"""The indexed images."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response

from cxrtext_api.deps import GUARDED, ResourcesDep, problems
from cxrtext_api.drawing import DEFAULT_SIDE, MAX_SIDE, MIN_SIDE, PNG, draw_image
from cxrtext_api.schemas import Image, ImageDetail, ImagePage, ReportSentence

if TYPE_CHECKING:
    from cxrtext.service import Service

router = APIRouter(prefix="/v1", tags=["images"], dependencies=GUARDED)

MAX_PAGE = 200
MAX_OFFSET = 2**40

Side = Annotated[
    int, Query(ge=MIN_SIDE, le=MAX_SIDE, description="Longest side of the picture, in pixels.")
]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to skip.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many to list.")]


def _page(service: "Service", offset: int, limit: int) -> ImagePage:
    found = service.index.catalogue.page(offset, limit)
    return ImagePage(
        total=service.index.images,
        offset=offset,
        limit=limit,
        images=[Image(**Image.fields_of(image)) for image in found],
    )


def _detail(service: "Service", image_id: str) -> ImageDetail:
    image = service.find_image(image_id)
    report = service.index.catalogue.report(image.study_id)
    return ImageDetail(
        **Image.fields_of(image),
        report=[ReportSentence(section=section, sentence=sentence) for section, sentence in report],
    )


def _picture(service: "Service", image_id: str, size: int) -> bytes:
    return draw_image(service.pixels(image_id), size)


@router.get(
    "/images",
    summary="The indexed images",
    operation_id="list_images",
    responses=problems(404, 422),
)
async def list_images(resources: ResourcesDep, offset: Offset = 0, limit: Limit = 50) -> ImagePage:
    """Some of the indexed images, in the order in which they were indexed."""
    return await resources.read(_page, resources.service, offset, limit)


@router.get(
    "/images/{image_id:path}/rendered",
    summary="An indexed image as PNG",
    operation_id="get_picture",
    response_class=Response,
    responses={200: {"content": {PNG: {}}}, **problems(404, 422)},
)
async def get_picture(
    resources: ResourcesDep, image_id: str, size: Side = DEFAULT_SIDE
) -> Response:
    """The image as the model got it, windowed and upright, as an 8-bit PNG."""
    picture = await resources.read(_picture, resources.service, image_id, size)
    return Response(picture, media_type=PNG)


@router.get(
    "/images/{image_id:path}",
    summary="An indexed image and its report",
    operation_id="get_image",
    responses=problems(404),
)
async def get_image(resources: ResourcesDep, image_id: str) -> ImageDetail:
    """What is known of an indexed image, with the sentences of its study's report."""
    return await resources.read(_detail, resources.service, image_id)
