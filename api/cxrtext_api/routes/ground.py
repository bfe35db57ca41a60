"""Grounding: where an image supports a sentence."""

from typing import Annotated

from fastapi import APIRouter, Form, Header, Response

from cxrtext_api.deps import GUARDED, ImageDep, ResourcesDep, problems
from cxrtext_api.drawing import PNG, draw_overlay
from cxrtext_api.schemas import Grounded

router = APIRouter(prefix="/v1", tags=["questions"], dependencies=GUARDED)

Sentence = Annotated[
    str, Form(description="What to look for.", examples=["Left pleural effusion."])
]
Accept = Annotated[
    str, Header(description="image/png for a picture of the heatmap instead of numbers.")
]


def _wants_picture(accept: str) -> bool:
    """Whether PNG is named before JSON."""
    named = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    wanted = [kind for kind in named if kind in (PNG, "application/json", "*/*")]
    return wanted[:1] == [PNG]


@router.post(
    "/ground",
    summary="Where an image supports a sentence",
    operation_id="ground",
    response_model=Grounded,
    responses={200: {"content": {PNG: {}}}, **problems(404, 413, 422)},
)
async def ground(
    resources: ResourcesDep, image: ImageDep, sentence: Sentence, accept: Accept = "*/*"
) -> Grounded | Response:
    """A grid of region scores with its place in the image, the best region, and boxes."""
    service = resources.service
    found = await resources.compute(service.ground, await image.embedded(), sentence)
    if _wants_picture(accept):
        picture = await resources.read(draw_overlay, await image.pixels(), found)
        return Response(picture, media_type=PNG)
    return Grounded.of(service.model.fingerprint, found)
