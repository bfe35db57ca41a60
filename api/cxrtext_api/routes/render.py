"""An uploaded image as a browser can show it."""

from fastapi import APIRouter, Response

from cxrtext_api.deps import GUARDED, ImageDep, ResourcesDep, problems
from cxrtext_api.drawing import DEFAULT_SIDE, draw_image
from cxrtext_api.negotiation import PNG, TAKES_FORM
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.routes.images import Side

router = APIRouter(
    prefix="/v1",
    tags=["images"],
    dependencies=[TAKES_FORM, *GUARDED],
    route_class=RefusingRoute,
)


@router.post(
    "/render",
    summary="An image as PNG",
    operation_id="render",
    response_class=Response,
    responses={200: {"content": {PNG: {}}}, **problems(404, 422)},
)
async def render(resources: ResourcesDep, image: ImageDep, size: Side = DEFAULT_SIDE) -> Response:
    """The image as the model gets it, windowed and upright, as an 8-bit PNG."""
    pixels = await image.pixels()
    picture = await resources.draw(draw_image, pixels, size)
    return Response(picture, media_type=PNG)
