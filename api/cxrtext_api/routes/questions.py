"""Questions about an image: how it looks, what it shows and where, whether a report fits."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Response

from cxrtext.client.answers import classified_of, grounded_of, verified_of
from cxrtext.client.models import Classification, Grounded, Verified
from cxrtext.images import encode_png
from cxrtext.service.questions import Classify, Ground, Verify
from cxrtext.service.verify.sentences import report_sentences
from cxrtext_api.gate.access import Guarded
from cxrtext_api.routes.dependencies import GUARDED, Sent, SessionDep, chosen
from cxrtext_api.routes.fields import (
    DEFAULT_SIDE,
    JSON,
    MULTIPART,
    PICTURE,
    PNG,
    Side,
    answer_picture,
    as_json,
    preferred,
)
from cxrtext_api.runtime.uploads import Pixels

if TYPE_CHECKING:
    from cxrtext.pausing import Pausing
    from cxrtext.service import EmbeddedImage, Grounding, Service
    from cxrtext.service.verify.sentences import ReportSentence

router = APIRouter(route_class=Guarded, prefix="/v1", dependencies=GUARDED)

OVERLAY_SIDE = 2048

Accept = Annotated[
    str, Header(description="image/png for a picture of the heatmap instead of numbers.")
]


class ClassifyForm(Sent, Classify):
    """Which findings an image shows."""


class GroundForm(Sent, Ground):
    """Where an image supports a sentence."""


class VerifyForm(Sent, Verify):
    """How well an image supports each sentence of a report."""


@router.post(
    "/render",
    tags=["images"],
    summary="An image as PNG",
    operation_id="render",
    response_class=Response,
    responses=PICTURE,
)
async def render(
    session: SessionDep, form: Annotated[Sent, MULTIPART], size: Side = DEFAULT_SIDE
) -> Response:
    """The image as the model gets it, windowed and upright; see ``get_picture``."""
    image = await chosen(session, form)
    return await session.draw(answer_picture, await image.pixels(size))


def _classified(service: "Service", image: "EmbeddedImage | str", form: Classify) -> Classification:
    return classified_of(service, service.embedded(image), form.prompts)


@router.post(
    "/classify",
    tags=["questions"],
    summary="Probabilities of findings",
    operation_id="classify",
    response_model=Classification,
)
async def classify(session: SessionDep, form: Annotated[ClassifyForm, MULTIPART]) -> Response:
    """The probability of each finding in an image, from a positive and a negative prompt."""
    image = await (await chosen(session, form)).image()
    if form.prompts:
        sides = (side for one in form.prompts.values() for side in (one.positive, one.negative))
        await session.ensure_embedded([phrase for side in sides for phrase in side])
    return as_json(await session.compute(_classified, session.service, image, form))


def _grounded(
    service: "Service", image: "EmbeddedImage | str", form: Ground
) -> "tuple[Grounded, Grounding]":
    embedded = service.embedded(image)
    grounding = service.ground(embedded, form.sentence, form.threshold, as_written=form.as_written)
    return grounded_of(service, embedded, form.sentence, grounding), grounding


@router.post(
    "/ground",
    tags=["questions"],
    summary="Where an image supports a sentence",
    operation_id="ground",
    response_model=Grounded,
    responses={200: {"content": {PNG: {}}}},
)
async def ground(
    session: SessionDep, form: Annotated[GroundForm, MULTIPART], accept: Accept = "*/*"
) -> Response:
    """A grid of region scores with its place in the image, the best region, and boxes.

    A picture is at most 2048 pixels wide and high.
    """
    service, asked = session.service, await chosen(session, form)
    image: EmbeddedImage | str
    pixels: Pixels | None = None
    if preferred(accept, (JSON, PNG)) == PNG:
        image, pixels = await asked.both(OVERLAY_SIDE)
    else:
        image = await asked.image()
    await session.ensure_embedded(service.readings([form.sentence], as_written=form.as_written))
    answer, grounding = await session.compute(_grounded, service, image, form)
    if pixels is not None:
        return Response(await session.draw(draw_overlay, pixels, grounding), media_type=PNG)
    return as_json(answer)


def draw_overlay(pixels: Pixels, grounding: "Grounding") -> bytes:
    """A heatmap over an image as PNG, as large as these pixels, which may be a smaller copy."""
    return encode_png(grounding.drawn_on(pixels))


def _verify(
    service: "Service",
    image: "EmbeddedImage | str",
    sentences: "list[ReportSentence]",
    threshold: float | None,
) -> "Pausing[Verified]":
    embedded = service.embedded(image)
    verification = yield from service.verify_pausing(embedded, sentences, threshold)
    return verified_of(service, embedded, verification)


@router.post(
    "/verify",
    tags=["questions"],
    summary="How well an image supports a report",
    operation_id="verify",
    response_model=Verified,
)
async def verify(session: SessionDep, form: Annotated[VerifyForm, MULTIPART]) -> Response:
    """Every sentence of a report with its wording, its support, and where it fits in the image.

    The support is the percentile of the sentence's score among the reference images; low support
    calls for a second look, but does not prove the sentence wrong.
    """
    sentences = await session.read(report_sentences, form.report)
    image = await (await chosen(session, form)).image()
    await session.ensure_embedded([found.sentence for found in sentences])
    return as_json(await session.work(_verify(session.service, image, sentences, form.threshold)))
