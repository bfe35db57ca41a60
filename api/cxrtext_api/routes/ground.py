"""Grounding: where an image supports a sentence."""

from typing import Annotated

from fastapi import APIRouter, Form, Header, Response

from cxrtext.client.answers import Grounded
from cxrtext_api.deps import GUARDED, ImageDep, ResourcesDep, problems
from cxrtext_api.drawing import draw_overlay
from cxrtext_api.negotiation import JSON, PNG, TAKES_FORM, preferred
from cxrtext_api.refusal import RefusingRoute
from cxrtext_api.schemas.of_questions import grounded_of
from cxrtext_api.thresholds import Threshold

router = APIRouter(
    prefix="/v1",
    tags=["questions"],
    dependencies=[TAKES_FORM, *GUARDED],
    route_class=RefusingRoute,
)

Sentence = Annotated[
    str, Form(description="What to look for.", examples=["Left pleural effusion."])
]
Accept = Annotated[
    str, Header(description="image/png for a picture of the heatmap instead of numbers.")
]


@router.post(
    "/ground",
    summary="Where an image supports a sentence",
    operation_id="ground",
    response_model=Grounded,
    responses={200: {"content": {PNG: {}}}, **problems(404, 422)},
)
async def ground(
    resources: ResourcesDep,
    image: ImageDep,
    sentence: Sentence,
    threshold: Threshold = None,
    accept: Accept = "*/*",
) -> Grounded | Response:
    """A grid of region scores with its place in the image, the best region, and boxes."""
    service = resources.service
    embedded = await image.embedded()
    await resources.know([sentence])
    found = await resources.compute(service.ground, embedded, sentence, threshold)
    if preferred(accept, (JSON, PNG)) == PNG:
        picture = await resources.draw(draw_overlay, await image.pixels(), found)
        return Response(picture, media_type=PNG)
    return grounded_of(service.model.fingerprint, found)
